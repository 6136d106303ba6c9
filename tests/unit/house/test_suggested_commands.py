"""What an error or finding suggests can be pasted into a shell, whatever names are in it."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import meltline
from meltline.app.doctor.doctor import examine
from meltline.bundled import bundled
from meltline.cli.output import console
from meltline.domain.errors import MeltlineError, TableNotFound
from meltline.domain.safe_text import quote, quote_all, visible
from meltline.pages.rendering import _environment
from tests.lake.lake import WAREHOUSE, Lake

PACKAGE = Path(meltline.__file__).parent
DAGS = bundled("dags")
HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "a; touch pwned",
    "it's",
    'two "words"',
    "line\nbreak",
    "\x1b[2J\x1b]0;title\x07",
    "\u202egpj.exe",
    "zero\u200bwidth",
    "back\\slash\n'quote'",
    "día ключ",
    "--reason",
    "*",
    "~",
)
OURS = {
    "plan.id", "stored.id", "each.plan.id", "question['id']", "level.kind", "name.kind", "number",
    "consumer.snapshot_id", "days", "recorded", "words", "action", "self.table.snapshot_id",
}  # fmt: skip
"""Expressions for what Meltline itself has made, or quoted a line before."""
TEMPLATES = {
    "dags/meltline_restore.py",
    "app/chunks/replication/refusals.py",
    "app/doctor/plan_findings.py",
    "cli/chunks/runs.py",
}
"""Where a command is a template: `format` fills it with quoted names, or with a command's name."""


def sources() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.py"), *DAGS.glob("*.py")])


def shown(path: Path) -> str:
    return str(path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else DAGS.parent))


def suggestions() -> Iterator[tuple[str, str, list[ast.expr]]]:
    """Each formatted text of the package with a command: its place, and what it puts in there."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr) and (found := list(_in_commands(node))):
                yield f"{shown(path)}:{node.lineno}", ast.unparse(node), found


def _in_commands(node: ast.JoinedStr) -> Iterator[ast.expr]:
    is_inside = False
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            if is_inside:
                yield part.value
            continue
        assert isinstance(part, ast.Constant)
        for number, piece in enumerate(str(part.value).split("`")):
            if number:
                is_inside = not is_inside and piece.startswith("meltline")


def is_quoted(value: ast.expr) -> bool:
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
    return is_call and value.func.id in ("quote", "quote_all")  # type: ignore[attr-defined]


def test_every_suggested_command_quotes_the_names_in_it() -> None:
    places = list(suggestions())
    assert len(places) > 60
    wild = [
        f"{place} {ast.unparse(value)}"
        for place, _, values in places
        for value in values
        if not is_quoted(value) and ast.unparse(value) not in OURS
    ]
    assert wild == []


def test_templates_of_commands_stand_where_they_are_known_to_be_filled_with_quoted_names() -> None:
    found = set()
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {p for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for p in n.values}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and node not in parts and "`meltline " in node.value and "{" in node.value:
                found.add(shown(path))
    assert found == TEMPLATES


@pytest.mark.parametrize("word", HOSTILE)
def test_a_shell_takes_a_quoted_word_as_it_is(word: str, tmp_path: Path) -> None:
    line = f"printf '%s\\0' {quote_all([word, 'NEXT'])}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, check=True, cwd=tmp_path,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.decode() == f"{word}\0NEXT\0"
    assert list(tmp_path.iterdir()) == []
    assert visible(quote(word)) == quote(word)


@pytest.mark.parametrize("word", HOSTILE)
def test_an_error_is_shown_with_its_control_characters_escaped(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = TableNotFound(f"no table {word}", object=word, found=word, next=f"`x {quote(word)}`")
    assert all(visible(line) == line for line in error.lines)
    assert len(error.lines) == 4
    console().print(f"a line about {word}")
    shown = capsys.readouterr().out
    assert visible(shown, keep="\n") == shown
    assert isinstance(error, MeltlineError)


@pytest.mark.parametrize("word", HOSTILE)
def test_a_page_shows_a_name_with_its_control_characters_escaped(word: str) -> None:
    page = _environment().from_string("<p>{{ name }}</p>").render(name=word)
    assert visible(page, keep="\n") == page


@pytest.mark.parametrize("word", HOSTILE)
def test_what_doctor_suggests_about_a_hostile_name_runs_as_one_word(
    word: str, tmp_path: Path
) -> None:
    lake = Lake()
    table = lake.table(
        f"lake.night.`{word.replace(chr(96), chr(96) * 2)}`", location=f"{WAREHOUSE}/t"
    )
    table.append("d")
    lake.spoil(table.metadata_location)
    fixes = [found.fix for found in examine(lake.services()) if "meltline detach" in found.fix]
    assert fixes
    command = fixes[0].split("`meltline ", 1)[1].split(" --reason", 1)[0]
    if word == "--reason":
        command = fixes[0].split("`meltline ", 1)[1].rsplit(" --reason", 1)[0]
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True, cwd=tmp_path,
        env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.decode().split("\0") == ["detach", str(table.name), ""]
    assert list(tmp_path.iterdir()) == []
