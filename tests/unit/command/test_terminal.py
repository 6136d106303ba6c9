"""What a person at a terminal gets: a way in, examples that work, completion, colours, a bar."""

import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from meltline.cli.commands import COMMANDS, EXAMPLES, GROUPS, SECTIONS, parser
from meltline.cli.main import run
from meltline.cli.output import unforeseen
from meltline.cli.progress import LiveProgress
from meltline.progress import Counted
from tests.command_home import TABLE, make_home
from tests.lake.lake import Lake

ROOT = Path(__file__).resolve().parents[3]
MELTLINE = [sys.executable, "-c", "from meltline.cli.main import main; main()"]


def environ(**more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    return plain | {"PYTHONPATH": str(ROOT / "include"), "TERM": "xterm-256color"} | more


def on_terminal(words: list[str], **more: str) -> str:
    """What a command prints whose output is a terminal."""
    mine, its = pty.openpty()
    command = subprocess.Popen(
        [*MELTLINE, *words], stdout=its, stderr=its, stdin=its, env=environ(**more)
    )
    os.close(its)
    told = b""
    try:
        while chunk := os.read(mine, 4096):
            told += chunk
    except OSError:  # the other end is closed
        pass
    command.wait()
    os.close(mine)
    return told.decode()


# --- help ----------------------------------------------------------------------------------------


def test_every_command_stands_under_one_head() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted({*COMMANDS, *GROUPS})


def test_help_begins_with_where_to_start_and_ends_with_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help"]) == 0
    told = capsys.readouterr().out
    heads = [told.index(f"\n{head}:\n") for head in SECTIONS]
    assert heads == sorted(heads) and told.index("Start here:") < told.index("  init ")
    assert told.index("Examples:") > heads[-1] and "meltline run --dry-run" in told
    assert run(["run", "--help"]) == 0
    assert "  meltline run --tables 'lake.air.*'" in capsys.readouterr().out


LINES = [(name, line) for name, lines in EXAMPLES.items() for line in lines]


@pytest.mark.parametrize(("name", "line"), LINES, ids=[line for _, line in LINES])
def test_every_example_is_a_command_line_of_its_command(name: str, line: str) -> None:
    words = shlex.split(line.partition("   ")[0])[1:]
    assert not name or words[: len(name.split())] == name.split()
    import typer  # the parser itself says whether it takes the words

    command = typer.main.get_command(parser(words))
    context = command.make_context("meltline", list(words))
    while rest := context._protected_args:
        command = command.get_command(context, rest[0])  # type: ignore[attr-defined]
        context = command.make_context(rest[0], [*context.args], parent=context)


# --- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("meltline sto", {"stop", "storage"}),
        ("meltline hold ", {"add", "remove", "list"}),
        ("meltline storage --by", {"--by"}),
        ("meltline policy set --kind ", {"table", "schema", "database", "account"}),
    ],
)
def test_a_shell_completes_commands_options_and_choices(line: str, expected: set[str]) -> None:
    completing = {
        "_MELTLINE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    done = subprocess.run(
        MELTLINE, env=environ(**completing), capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected


def test_a_shell_is_told_how_to_complete() -> None:
    words = [*MELTLINE, "--show-completion", "bash"]
    more = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(words, env=environ(**more), capture_output=True, text=True, check=True)
    assert "_MELTLINE_COMPLETE=complete_bash" in done.stdout


# --- colours -------------------------------------------------------------------------------------


def test_colours_are_for_terminals_alone_and_no_color_is_respected(tmp_path: Path) -> None:
    missing = ["doctor", "--config", str(tmp_path / "none")]
    assert "\x1b[1;31mConfigInvalid" in on_terminal(missing)
    assert "31m" not in on_terminal(missing, NO_COLOR="1")
    piped = subprocess.run(
        [*MELTLINE, *missing],
        env=environ(FORCE_COLOR="1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "\x1b" not in piped.stderr + piped.stdout


def test_a_state_has_its_colour_on_a_terminal(tmp_path: Path) -> None:
    config = ["--config", str(make_home(tmp_path).folder / "meltline.yaml")]
    hold = ["hold", "add", TABLE, "--reason", "r", *config]
    assert run(hold) == 0
    assert "\x1b[32min force" in on_terminal(["hold", "list", *config])


# --- progress ------------------------------------------------------------------------------------


def test_a_run_tells_which_of_how_many_steps_it_does_and_how_many_files_are_gone() -> None:
    lines: list[str] = []
    lake = Lake()
    table = lake.on(0).table("t")
    for day in range(2):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(9).run()
    lake.on(17).run(services=lake.services(progress=lines.append))
    counted = [line for line in lines if isinstance(line, Counted)]
    steps = [line for line in counted if line.subject == "step"]
    assert [line.done for line in steps] == list(range(steps[0].total)) and steps[0].total == 9
    (purge,) = [line for line in counted if line.subject == "purge"]
    assert purge.done == 0 and purge.total > 1


PROGRESS = """
from meltline.cli.output import answer
from meltline.cli.progress import progress
from meltline.progress import Counted
tell = progress()
tell(Counted("step: 1 of 2: observe", 0, 2))
tell("observe: listing catalogs")
tell(Counted("step: 2 of 2: expire", 1, 2))
answer({}, ["the answer"], as_json=False)
"""


def test_a_terminal_has_a_bar_with_the_time_and_the_answer_stands_alone_after_it() -> None:
    mine, its = pty.openpty()
    script = [sys.executable, "-c", PROGRESS]
    done = subprocess.run(script, stdout=subprocess.PIPE, stderr=its, env=environ(), check=True)
    os.close(its)
    told = os.read(mine, 65536).decode()
    os.close(mine)
    assert done.stdout == b"the answer\n"
    assert "step: 2 of 2: expire" in told and "observe: listing catalogs" in told
    assert "0:00:0" in told and "left:" in told and "50%" in told


def test_a_pipe_has_lines_and_no_bar() -> None:
    script = [sys.executable, "-c", PROGRESS]
    done = subprocess.run(script, capture_output=True, text=True, env=environ(), check=True)
    assert done.stderr.splitlines() == [
        "step: 1 of 2: observe",
        "observe: listing catalogs",
        "step: 2 of 2: expire",
    ]


def test_bars_that_were_never_shown_end_quietly() -> None:
    LiveProgress().end()


TRACE = """An error occurred while calling o64.sql.
: org.apache.iceberg.jdbc.UncheckedSQLException: Failed to get table n.t from catalog lake
\tat org.apache.iceberg.jdbc.JdbcTableOperations.doRefresh(JdbcTableOperations.java:79)
Caused by: org.postgresql.util.PSQLException: Connection refused.
\tat org.postgresql.core.PGStream.receiveChar(PGStream.java:482)
\t... 17 more
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (TRACE, "org.postgresql.util.PSQLException: Connection refused."),
        (
            TRACE.partition("Caused")[0],
            "org.apache.iceberg.jdbc.UncheckedSQLException: Failed to get table n.t from catalog "
            "lake",
        ),
        ("one\ntwo", "one"),
        ("", ""),
    ],
    ids=["a cause", "no cause", "no trace", "nothing"],
)
def test_of_a_trace_of_java_the_cause_is_told_and_else_the_first_line(
    words: str, told: str
) -> None:
    error = unforeseen(ValueError(words))
    assert error.found == told and error.object == "ValueError"
