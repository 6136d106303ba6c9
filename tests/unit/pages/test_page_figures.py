"""The figures of the pages are those of the commands, to the letter."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from meltline.app.services import ReadContext
from meltline.app.storage.report import StoredBytes
from meltline.cli.main import run
from meltline.config.load import load_config
from meltline.domain.deletion.gate import FailedExpectation, GateResult, HeldExpectation
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.iceberg.names import TableName
from meltline.pages.site import site
from meltline.ports import KnownTable, RunRecord
from meltline.wiring import Wiring
from tests.command_home import TABLE, TODAY, make_home

DIGEST = "sha256:aa"
SUMMARY = {"tables": [{"table": TABLE, "skipped": "a lock was held"}], "notes": []}


@dataclass(frozen=True)
class Beside:
    """A lake's commands, and its pages."""

    config: Path
    client: TestClient

    def said(self, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
        assert run([*words, "--json", "--config", str(self.config)]) == 0
        return json.loads(capsys.readouterr().out)


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    config = make_home(tmp_path).folder / "meltline.yaml"

    @contextmanager
    def opened() -> Iterator[ReadContext]:
        context = Wiring(load_config(config, {}, tmp_path), {}, lambda line: None).ledgers()
        yield context
        context.control.database.close()

    with opened() as context:
        fill(context)
    yield Beside(config, TestClient(site(opened, lambda: None)))


def fill(context: ReadContext) -> None:
    """A run with one plan, which its gate refused."""
    control = context.control
    for state in StoredBytes(context).states:
        row = KnownTable(state.uuid, state.name, state.location, state.location, "live", TODAY)
        control.registrations.save([row])
    control.runs.finish(RunRecord("r1", TODAY, TODAY, TODAY, json.dumps(SUMMARY)))
    name = TableName.parse(TABLE)
    plan = Plan("e1", "r1", PlanKind.EXPIRE, name, "u-1", DIGEST, TODAY, TODAY, "m.json", (1, 2))
    control.plans.add([plan])
    failed = FailedExpectation("planned_heads is 0", "7", "1")
    held = HeldExpectation("unreadable is 0", "0")
    verdict = GateResult("e1", DIGEST, "expire", 2, (failed,), TODAY, TODAY, held=(held,))
    control.verdicts.save([verdict])


def test_storage_is_what_the_command_prints(
    beside: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["storage", "--json", "--config", str(beside.config)])
    printed = json.loads(capsys.readouterr().out)
    figures = beside.client.get("/api/storage").json()
    assert printed["rows"] and printed["rows"] == figures["rows"]
    assert printed.keys() == figures.keys()


def test_a_plan_is_what_the_command_prints(
    beside: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    assert beside.client.get("/api/plans/e1").json() == beside.said(capsys, "show", "plan", "e1")
    whole = beside.said(capsys, "show", "plan", "last", "--items")
    assert beside.client.get("/api/plans/last?items=true").json() == whole


def test_runs_and_plans_are_what_the_commands_print(
    beside: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    assert beside.client.get("/api/runs/r1").json() == beside.said(capsys, "show", "run", "r1")
    assert beside.client.get("/api/runs").json() == beside.said(capsys, "runs")
    assert beside.client.get("/api/plans").json() == beside.said(capsys, "plans")
    assert beside.client.get("/api/plans?tables=no.*").json()["notes"]


def test_a_verdict_has_what_failed_and_what_held(beside: Beside) -> None:
    figures = beside.client.get("/api/gates/e1").json()
    assert figures["passed"] is False and figures["failed"][0]["observed"] == "1"
    assert figures["held"] == [{"expectation": "unreadable is 0", "observed": "0"}]


def test_the_picture_is_written_into_a_file_that_needs_nothing_else(
    beside: Beside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "lake.html"
    words = ["storage", "--html", str(page), "--config", str(beside.config)]
    run(words)
    text = page.read_text("utf-8")
    assert "it&#39;s t" in text and "<svg" in text and "<style>" in text
    assert "The next 14 days" in text
    assert "<a " not in text and "<link" not in text and "//" not in text.replace("<!doctype", "")
    assert page.stat().st_mode & 0o077 == 0
    assert TABLE.rpartition(".")[2].strip("`") in capsys.readouterr().out.replace("\n", "")


def test_before_anything_was_observed_nothing_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = make_home(tmp_path).folder / "meltline.yaml"
    assert run(["storage", "--html", str(tmp_path / "x.html"), "--config", str(config)]) == 2
    assert "run the lifecycle first" in capsys.readouterr().err
    assert not (tmp_path / "x.html").exists()


def test_a_picture_that_cannot_be_drawn_or_written_is_refused(
    beside: Beside, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", str(beside.config)]
    assert run(["storage", "--html", str(tmp_path / "no" / "x.html"), *config]) == 2
    assert "No such file" in capsys.readouterr().err
    past = ["--as-of", "2026-01-01T00:00:00Z"]
    assert run(["storage", "--html", str(tmp_path / "x.html"), *past, *config]) == 2
    assert not (tmp_path / "x.html").exists()
