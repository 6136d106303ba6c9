"""What a person gets who has mistyped something, or has read enough."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meltline.cli.main import run
from meltline.cli.run.step import main as step
from tests.command_home import TABLE, make_home

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(make_home(tmp_path).folder / "meltline.yaml")


def asked(config: str, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = run([*words, "--config", config, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "words",
    [
        ("tags", "it's t"),
        ("tags", "lake.air.its_t"),
        ("explain", "it's t"),
        ("explain", "`it's t`@1"),
        ("detach", "air.`it's t`"),
        ("policy", "show", "it's t"),
        ("hold", "add", "it's t", "--reason", "r"),
        ("lease", "acquire", "lake.aire.`it's t`", "--ttl", "1h"),
    ],
    ids=" ".join,
)
def test_a_name_that_leads_nowhere_is_answered_with_what_may_be_meant(
    config: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, answer = asked(config, capsys, *words)
    assert (code, answer["error"]["type"]) == (2, "TableNotFound")
    assert answer["error"]["next"].startswith(f"did you mean {TABLE}? ")


def test_a_name_like_no_other_is_answered_as_before(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = asked(config, capsys, "tags", "lake.sea.whatever")
    assert code == 2 and "did you mean" not in answer["error"]["next"]


@pytest.mark.parametrize("words", [("plan", "handoff"), ("storage",)], ids=" ".join)
def test_a_glob_that_matches_nothing_is_no_success(
    config: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code, answer = asked(config, capsys, *words, "--tables", "lake.aire.*")
    assert code == 4 and "no table matches lake.aire.*" in answer["notes"]


def test_a_reader_that_has_read_enough_gets_no_trace(config: str) -> None:
    command = [sys.executable, "-c", "from meltline.cli.main import main; main()"]
    words = ["policy", "show", TABLE, "--json", "--config", config]
    environ = os.environ | {"PYTHONPATH": str(ROOT / "include")}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*command, *words], env=environ, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


# --- configuration ------------------------------------------------------------------------------

MISTAKEN = """
control: postgres://ann:hush@db/meltline
catalogs:
  lake: {type: sql, uri: 'sqlite:///c.db', warehouse: w}
limits: {max-grwth: 5}
"""


def test_each_mistake_of_a_configuration_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "meltline.yaml"
    file.write_text(MISTAKEN)
    assert run(["doctor", "--config", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert sum("max-growth" in line for line in lines) == 1
    assert "write postgresql:// for postgres://" in lines[0] and "hush" not in lines[0]


def test_an_error_in_one_part_still_has_its_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--config", str(tmp_path / "none.yaml")]) == 2
    assert "\n  next:     write one" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["noon", "2026-02-30", "2026-13-01T00:00:00Z", "01/02/2026"])
def test_a_time_that_is_none_is_answered_in_words(
    config: str, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    code, answer = asked(config, capsys, "audit", "--since", text)
    assert code == 2
    assert answer["error"]["next"] == (
        f"{text!r} is not a time: write one such as 2026-11-21T06:00:00Z, or a date"
    )


def test_a_date_of_a_mail_that_no_calendar_has_is_answered_in_words(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--at", "--timestamp", "Wed, 31 Jun 2024 09:20:00 -0700")
    code, answer = asked(config, capsys, "query", TABLE, *at)
    assert code == 2 and "no calendar has it" in answer["error"]["next"]


@pytest.mark.parametrize(
    ("sandbox", "next"),
    [
        (True, "run `meltline init --sandbox` once without MELTLINE_NOW"),
        (False, "write `sandbox: true` in meltline.yaml, then run `meltline init --sandbox` once"),
    ],
)
def test_a_simulated_clock_before_the_sandbox_is_marked_names_the_true_next_step(
    config: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sandbox: bool,
    next: str,
) -> None:
    monkeypatch.setenv("MELTLINE_NOW", "2026-11-21T06:00:00Z")
    if sandbox:
        Path(config).write_text(f"sandbox: true\n{Path(config).read_text()}")
    code, answer = asked(config, capsys, "init", "--sandbox")
    assert (code, answer["error"]["type"]) == (2, "NotASandbox")
    assert answer["error"]["next"].startswith(next)


def test_a_step_that_fails_says_why_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--run-id", "r", "--summary", str(tmp_path / "s"), "--config", str(tmp_path / "none")]
    with pytest.raises(SystemExit):
        step("observe", words)
    told = capsys.readouterr().err
    assert told.startswith("ConfigInvalid: there is no configuration") and "{" not in told
