"""What a person gets who has mistyped something, or has read enough."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meltline.cli.main import run
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
