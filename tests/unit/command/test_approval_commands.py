"""`meltline approval`: what waits for a person's word, shown and answered in the shell."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from meltline.adapters.sql_ledger.ledger import sql_control_ledger
from meltline.cli.main import run
from meltline.domain.clock import WallClock
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.epochs import GENERATION
from meltline.domain.units import format_instant
from meltline.ports import ControlLedger
from tests.command_home import Home, make_home
from tests.contract.ledger.control_ledgers import a_plan

Answer = tuple[int, Any]
LARGE = 2 * 1024**4
OTHER = "sha256:" + "1" * 64


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = make_home(tmp_path)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/w")
    ledger = opened(made)
    with closing(ledger.database):  # as `meltline init` leaves it: a word begins an epoch there
        catalog.create_namespace("meltline", {GENERATION: str(ledger.database.generation())})
    return made


def opened(home: Home) -> ControlLedger:
    return sql_control_ledger(f"sqlite:///{home.folder}/control.db", WallClock())


@pytest.fixture
def plan(home: Home) -> Plan:
    """A purge above the limit that has passed its gate an hour ago."""
    made = replace(
        a_plan(),
        kind=PlanKind.PURGE,
        digest="sha256:" + "a" * 64,
        files=7,
        bytes=LARGE,
        created_at=WallClock().now() - timedelta(hours=1),
    )
    ledger = opened(home)
    with closing(ledger.database):
        (stored,) = ledger.plans.add([made])
        return ledger.plans.move(stored, PlanState.PASSED)


@pytest.fixture
def meltline(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Answer]:
    monkeypatch.setenv("MELTLINE_CONFIG", str(home.folder / "meltline.yaml"))
    monkeypatch.setenv("MELTLINE_USER", "ann")

    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = run([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


def test_what_waits_is_listed_with_until_when(meltline: Callable[..., Answer], plan: Plan) -> None:
    code, answer = meltline("approval", "list")
    (line,) = answer["approvals"]
    assert (code, line["id"], line["digest"], line["bytes"]) == (0, plan.id, plan.digest, LARGE)
    assert line["until"] == format_instant(plan.created_at + timedelta(days=3))


def test_an_approval_is_recorded_by_name_from_when_it_was_given(
    meltline: Callable[..., Answer], plan: Plan, home: Home
) -> None:
    then = WallClock().now() - timedelta(minutes=10)
    words = ("--digest", plan.digest, "--reason", "-- seen", "--answered-at", format_instant(then))
    code, answer = meltline("approval", "give", plan.id, *words)
    assert (code, answer["approved"]) == (0, True) and "ann has approved" in answer["notices"][0]
    ledger = opened(home)
    with closing(ledger.database):
        word = ledger.verdicts.approval(plan.id, plan.digest)
        assert word is not None and (word.who, word.reason) == ("ann", "-- seen")
        assert format_instant(word.at) == format_instant(then)
        assert ("approve", "ann") in {(e.action, e.who) for e in ledger.audit.entries()}


def test_a_rejection_is_recorded_by_name_and_nothing_waits_any_more(
    meltline: Callable[..., Answer], plan: Plan, home: Home
) -> None:
    words = ("--digest", plan.digest, "--reason", "audit")
    code, answer = meltline("approval", "reject", plan.id, *words)
    assert (code, answer["approved"]) == (0, False) and "ann has rejected" in answer["notices"][0]
    assert meltline("approval", "list") == (0, {"approvals": []})
    ledger = opened(home)
    with closing(ledger.database):
        assert ledger.verdicts.rejections([plan.digest])[plan.digest].who == "ann"
        assert ledger.verdicts.approval(plan.id, plan.digest) is None


@pytest.mark.parametrize("verb", ["give", "reject"])
def test_a_word_for_another_digest_is_refused_and_nothing_is_recorded(
    meltline: Callable[..., Answer], plan: Plan, home: Home, verb: str
) -> None:
    code, answer = meltline("approval", verb, plan.id, "--digest", OTHER, "--reason", "x")
    assert (code, answer["error"]["type"]) == (3, "PlanStale")
    assert plan.digest in answer["error"]["expected"] and OTHER in answer["error"]["found"]
    ledger = opened(home)
    with closing(ledger.database):
        assert ledger.verdicts.approval(plan.id, plan.digest) is None
        assert ledger.verdicts.rejections([plan.digest, OTHER]) == {}


def test_nobody_has_answered_before_the_plan_was_made(
    meltline: Callable[..., Answer], plan: Plan
) -> None:
    early = format_instant(plan.created_at - timedelta(days=1))
    words = ("--digest", plan.digest, "--reason", "x", "--answered-at", early)
    code, answer = meltline("approval", "give", plan.id, *words)
    assert (code, answer["error"]["type"]) == (2, "UsageInvalid")


def test_a_plan_that_is_over_waits_for_no_word(
    meltline: Callable[..., Answer], plan: Plan, home: Home
) -> None:
    ledger = opened(home)
    with closing(ledger.database):
        ledger.plans.move(plan, PlanState.STALE, note="another run has it")
    code, answer = meltline("approval", "give", plan.id, "--digest", plan.digest, "--reason", "x")
    assert (code, answer["error"]["type"]) == (3, "PlanStale")
    assert "another run has it" in answer["error"]["found"]
