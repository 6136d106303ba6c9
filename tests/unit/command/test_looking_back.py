"""The commands that tell what was planned and run before, on a ledger in SQLite."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.cli.main import run
from meltline.domain.clock import WallClock
from meltline.domain.deletion.gate import GateResult
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.iceberg.names import TableName
from meltline.ports import Approval, RunRecord
from tests.command_home import make_home

NIGHT = datetime(2026, 1, 10, 2, tzinfo=UTC)
NAME = TableName.parse("lake.air.`it's t`")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A ledger of one night: an expiration was applied, and a purge waits."""
    home = make_home(tmp_path)
    ledger = sql_control_ledger(f"sqlite:///{home.folder}/control.db", WallClock())
    purge = Plan("p1", "night", PlanKind.PURGE, NAME, "u", "sha256:p", NIGHT, NIGHT, "")
    expire = replace(
        purge,
        id="e1",
        kind=PlanKind.EXPIRE,
        digest="sha256:e",
        snapshots=(1, 2),
        files=3,
        bytes=4096,
        window_start=NIGHT - timedelta(days=7),
    )
    ledger.plans.add([expire, purge])
    for to in (PlanState.PASSED, PlanState.APPLYING, PlanState.APPLIED):
        ledger.plans.move(ledger.plans.get("e1"), to)
    passed = GateResult("e1", "sha256:e", "expire", 9, (), NIGHT, NIGHT + timedelta(hours=6))
    ledger.verdicts.save([passed])
    ledger.verdicts.approve(Approval("p1", "sha256:p", "ann", "seen", NIGHT))
    record = RunRecord("night", NIGHT, NIGHT)
    summary = {"tables": [{"table": "lake.air.u", "skipped": "busy"}], "notes": ["a note"]}
    ended = replace(record, ended_at=NIGHT + timedelta(minutes=3), summary=json.dumps(summary))
    ledger.runs.finish(ended)
    ledger.database.close()
    return str(home.folder / "meltline.yaml")


def asked(config: str, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--config", config, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def told(config: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run([*words, "--config", config]) == 0
    return capsys.readouterr().out


def test_plans_are_listed_newest_first(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = asked(config, capsys, "plans")["plans"]
    assert [(line["id"], line["state"], line["gate"]) for line in lines] == [
        ("p1", "planned", "none"),
        ("e1", "applied", "passed"),
    ]
    assert (lines[0]["approved_by"], lines[1]["policy"][:15]) == ("ann", "retention of 7d")
    assert [
        line["id"] for line in asked(config, capsys, "plans", "--state", "applied")["plans"]
    ] == ["e1"]
    assert asked(config, capsys, "plans", "--day", "2026-01-09") == {"plans": [], "notes": []}
    shown = told(config, capsys, "plans")
    assert "e1" in shown and "4.0 KiB" in shown and "2026-01-10T02:00:00Z" in shown


def test_runs_are_listed_with_what_they_did(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = asked(config, capsys, "runs", "--day", "2026-01-10")["runs"]
    assert (line["id"], line["outcome"], line["files_departed"]) == ("night", "unfinished", 3)
    assert line["plan_states"] == {"applied": 1, "planned": 1} and line["skipped"] == {
        "lake.air.u": "busy"
    }
    shown = told(config, capsys, "runs")
    assert "0:03:00" in shown and "unfinished" in shown


def test_a_run_is_shown_with_its_plans_and_what_it_said(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = asked(config, capsys, "show", "run", "nig")
    assert [plan["id"] for plan in document["plans"]] == ["p1", "e1"]
    shown = told(config, capsys, "show", "run", "last")
    assert "lake.air.u: skipped: busy" in shown and "a note" in shown and "e1" in shown


def test_a_plan_is_shown_with_its_run_gate_policy_and_approval(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = asked(config, capsys, "show", "plan", "e1")
    assert (document["run_id"], document["gate"], document["suite"]) == (
        "night",
        "passed",
        "expire",
    )
    assert document["snapshots"] == [1, 2]
    shown = told(config, capsys, "show", "plan", "p1")
    assert "run night" in shown and "approved by ann: seen" in shown
