"""One rule for every kind of run: which day decides, and who may approve (PX-6, PX-7, PX-10)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from meltline.airflow.requests.request import as_of, run_id_in_ledger, run_request
from meltline.domain.chunks.sync import Deletes
from meltline.domain.errors import AsOfInFuture, UsageInvalid
from meltline.domain.units import format_instant

MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
DAY = timedelta(days=1)
NOTHING: dict[str, str] = {}


@dataclass(frozen=True)
class Run:
    """As much of Airflow's DAG run as the rule reads."""

    run_after: datetime
    start_date: datetime | None
    run_type: str = "manual"
    run_id: str = "r1"
    triggering_user_name: str | None = None
    clear_number: int | None = 0


@dataclass(frozen=True)
class ContextBuilder:
    """A task's context, as dict, for any kind of run."""

    run: Run
    interval: dict[str, datetime] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)

    def build(self) -> dict[str, Any]:
        defaults = {"tables": "", "as_of": None, "dry_run": False}
        return {"dag_run": self.run, "params": defaults | self.params, **self.interval}


def interval(end: datetime, length: timedelta = DAY) -> dict[str, datetime]:
    return {"data_interval_start": end - length, "data_interval_end": end}


def run(kind: str, run_after: datetime, started: datetime | None = None, **more: Any) -> Run:
    return Run(run_after, started or run_after + timedelta(seconds=5), kind, **more)


def scheduled(end: datetime = MIDNIGHT, **params: Any) -> dict[str, Any]:
    return ContextBuilder(run("scheduled", end), interval(end), params).build()


def backfill(end: datetime = MIDNIGHT, **params: Any) -> dict[str, Any]:
    today = run("backfill", end, started=MIDNIGHT + 30 * DAY)
    return ContextBuilder(today, interval(end), params).build()


def manual(run_after: datetime = MIDNIGHT, **params: Any) -> dict[str, Any]:
    return ContextBuilder(run("manual", run_after), params=params).build()


@pytest.mark.parametrize("context", [scheduled(), backfill()], ids=["scheduled", "backfill"])
def test_a_run_with_an_interval_decides_as_of_its_end(context: dict[str, Any]) -> None:
    assert as_of(context, NOTHING) == MIDNIGHT


def test_a_backfill_of_a_day_decides_as_the_schedule_did_that_night() -> None:
    long_ago = MIDNIGHT - 20 * DAY
    assert as_of(backfill(long_ago), NOTHING) == as_of(scheduled(long_ago), NOTHING) == long_ago


def test_a_manual_run_without_a_logical_date_decides_as_of_now() -> None:
    noon = MIDNIGHT + timedelta(hours=12)
    assert as_of(manual(noon), NOTHING) == noon


def test_a_manual_run_with_a_logical_date_has_an_interval_like_any_other() -> None:
    dated = ContextBuilder(run("manual", MIDNIGHT + 3 * DAY), interval(MIDNIGHT)).build()
    assert as_of(dated, NOTHING) == MIDNIGHT


def test_an_empty_interval_says_nothing() -> None:
    zero = ContextBuilder(run("scheduled", MIDNIGHT), interval(MIDNIGHT - DAY, 0 * DAY)).build()
    assert as_of(zero, NOTHING) == MIDNIGHT


def test_an_interval_that_is_there_and_none_says_nothing() -> None:
    absent = {"data_interval_start": None, "data_interval_end": None}
    assert as_of(manual() | absent, NOTHING) == MIDNIGHT


@pytest.mark.parametrize("kind", [scheduled, backfill, manual])
def test_the_parameter_wins_in_every_kind_of_run(kind: Any) -> None:
    assert as_of(kind(as_of="2026-01-05T01:00:00+01:00"), NOTHING) == datetime(
        2026, 1, 5, tzinfo=UTC
    )


def test_the_answer_is_in_utc_wherever_the_interval_was_made() -> None:
    berlin = timezone(timedelta(hours=1))
    found = as_of(scheduled(MIDNIGHT.astimezone(berlin)), NOTHING)
    assert (found, found.tzinfo) == (MIDNIGHT, UTC)


def test_an_interval_that_ends_after_the_run_began_is_cut_at_its_beginning() -> None:
    early = run("manual", MIDNIGHT, started=MIDNIGHT)
    ahead = ContextBuilder(early, interval(MIDNIGHT + DAY)).build()
    assert as_of(ahead, NOTHING) == MIDNIGHT


def test_a_run_that_was_due_later_than_it_began_is_cut_at_its_beginning() -> None:
    ahead = ContextBuilder(run("manual", MIDNIGHT + DAY, started=MIDNIGHT)).build()
    assert as_of(ahead, NOTHING) == MIDNIGHT


def test_every_step_and_retry_of_a_run_comes_to_the_same_answer() -> None:
    began = datetime.now(UTC) - timedelta(seconds=1)
    ahead = ContextBuilder(run("scheduled", began + DAY, started=began), interval(began + DAY))
    assert as_of(ahead.build(), NOTHING) == as_of(ahead.build(), NOTHING) == began


def test_a_run_that_has_no_start_yet_is_cut_at_the_wall_clock() -> None:
    far = datetime.now(UTC) + 1000 * DAY
    unstarted = ContextBuilder(Run(far, None), interval(far)).build()
    assert as_of(unstarted, NOTHING) <= datetime.now(UTC)


def test_a_day_to_come_is_refused() -> None:
    tomorrow = format_instant(datetime.now(UTC) + DAY)
    with pytest.raises(AsOfInFuture):
        as_of(manual(as_of=tomorrow), NOTHING)


def test_a_dry_run_may_look_at_a_day_to_come() -> None:
    tomorrow = (datetime.now(UTC) + DAY).replace(microsecond=0)
    asked = manual(as_of=format_instant(tomorrow), dry_run=True)
    assert as_of(asked, NOTHING) == tomorrow


@pytest.mark.parametrize("odd", ["yesterday", "2026-13-01T00:00:00Z", "2026-01-05T00:00:00"])
def test_what_is_not_an_instant_with_an_offset_is_refused(odd: str) -> None:
    with pytest.raises(UsageInvalid, match="as_of"):
        as_of(manual(as_of=odd), NOTHING)


def test_in_a_sandbox_now_is_the_simulated_now() -> None:
    simulated = {"MELTLINE_NOW": "2026-06-01T12:00:00Z"}
    assert as_of(manual(), simulated) == datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_in_a_sandbox_nothing_is_later_than_the_simulated_now() -> None:
    simulated = {"MELTLINE_NOW": "2026-02-01T00:00:00Z"}
    assert as_of(scheduled(), simulated) == datetime(2026, 2, 1, tzinfo=UTC)
    with pytest.raises(AsOfInFuture):
        as_of(manual(as_of="2026-02-02T00:00:00Z"), simulated)


def test_a_simulated_now_that_is_no_instant_is_refused() -> None:
    with pytest.raises(UsageInvalid, match="MELTLINE_NOW"):
        as_of(manual(), {"MELTLINE_NOW": "soon"})


# --- approval --------------------------------------------------------------------------------

APPROVED = {"approve_over_limit": True, "reason": " Old exports, agreed with finance. "}


def test_a_person_approves_with_a_reason() -> None:
    found = run_request(manual(**APPROVED), NOTHING)
    assert found.approve == "Old exports, agreed with finance."


@pytest.mark.parametrize(
    "kind", ["scheduled", "backfill", "operator_triggered", "asset_triggered", ""]
)
def test_only_a_manual_run_may_approve(kind: str) -> None:
    context = ContextBuilder(run(kind, MIDNIGHT), interval(MIDNIGHT), APPROVED).build()
    with pytest.raises(UsageInvalid, match="only a person"):
        run_request(context, NOTHING)


@pytest.mark.parametrize("reason", [None, "", "  \n"])
def test_an_approval_without_a_reason_is_refused(reason: str | None) -> None:
    with pytest.raises(UsageInvalid, match="reason"):
        run_request(manual(approve_over_limit=True, reason=reason), NOTHING)


def test_a_reason_alone_approves_nothing() -> None:
    assert run_request(manual(reason="just in case"), NOTHING).approve == ""


@pytest.mark.parametrize(
    "kind", ["scheduled", "backfill", "operator_triggered", "asset_triggered", ""]
)
def test_only_a_manual_run_may_go_once_though_its_catalog_is_not_armed(kind: str) -> None:
    asked = {"once": " the disk is full "}
    assert run_request(manual(**asked), NOTHING).once == "the disk is full"
    context = ContextBuilder(run(kind, MIDNIGHT), interval(MIDNIGHT), asked).build()
    with pytest.raises(UsageInvalid, match="only a person"):
        run_request(context, NOTHING)


# --- force, and large deletes ----------------------------------------------------------------

FORCED = {"tables": "lake.air.t", "chunks": "2026-01-05, 2026-01-06", "force": " they are wrong "}


def test_a_person_lets_chunks_go_unproved_by_name_with_a_reason() -> None:
    found = run_request(manual(**FORCED), NOTHING)
    assert (found.tables, found.force) == (("lake.air.t",), "they are wrong")
    assert found.chunks == ("2026-01-05", "2026-01-06")
    assert "--force=they are wrong" in found.words(private=True)
    assert not any("wrong" in word for word in found.words())


@pytest.mark.parametrize(
    "kind", ["scheduled", "backfill", "operator_triggered", "asset_triggered", ""]
)
@pytest.mark.parametrize("asked", [FORCED, {"deletes": "mirror"}], ids=["force", "deletes"])
def test_only_a_person_forces_a_drop_or_decides_about_deletes(
    kind: str, asked: dict[str, str]
) -> None:
    # LT-22
    context = ContextBuilder(run(kind, MIDNIGHT), interval(MIDNIGHT), asked).build()
    with pytest.raises(UsageInvalid, match="only a person"):
        run_request(context, NOTHING)


@pytest.mark.parametrize(
    "change", [{"tables": ""}, {"tables": "lake.air.*"}, {"chunks": ""}, {"force": " "}], ids=str
)
def test_a_forced_run_that_is_not_about_named_chunks_of_one_table_is_refused(
    change: dict[str, str],
) -> None:
    with pytest.raises(UsageInvalid, match="a forced drop"):
        run_request(manual(**{**FORCED, **change}), NOTHING)


def test_a_person_decides_what_becomes_of_large_deletes() -> None:
    assert run_request(manual(deletes="keep"), NOTHING).deletes is Deletes.KEEP
    assert run_request(manual(), NOTHING).deletes is None


# --- a run that was cleared ------------------------------------------------------------------


def cleared(**params: Any) -> dict[str, Any]:
    return ContextBuilder(run("manual", MIDNIGHT, clear_number=1), {}, params).build()


def test_clearing_a_run_repeats_its_request_and_none_of_the_words_of_a_person() -> None:
    asked = {"tables": "lake.air.*", "once": "the disk is full", "deletes": "mirror", **APPROVED}
    first, again = run_request(manual(**asked), NOTHING), run_request(cleared(**asked), NOTHING)
    assert (first.once, first.deletes) == ("the disk is full", Deletes.MIRROR)
    assert first.approve
    assert (again.once, again.deletes, again.approve) == ("", None, "")
    assert again.tables == first.tables


def test_a_forced_drop_is_refused_when_its_run_is_cleared() -> None:
    with pytest.raises(UsageInvalid, match="first try") as refused:
        run_request(cleared(**FORCED), NOTHING)
    assert "trigger a run by hand" in refused.value.next


# --- what the apps are told ------------------------------------------------------------------


def test_each_argument_is_one_word_whatever_is_in_it() -> None:
    person = run("manual", MIDNIGHT, run_id="manual__1", triggering_user_name="Ada L.")
    params = {"tables": "-lake.air.*, *.b c", "dry_run": True, "any_hour": True}
    context = ContextBuilder(person, params=params)
    request = run_request(context.build(), NOTHING)
    assert request.words() == [
        "--run-id=manual__1",
        "--as-of=2026-03-02T00:00:00Z",
        "--tables=-lake.air.*, *.b c",
        "--dry-run",
        "--any-hour",
    ]
    assert request.words(private=True) == ["--who=Ada L."]


def test_runs_of_two_dags_that_are_due_at_once_are_two_runs_in_the_ledger() -> None:
    due = "scheduled__2026-03-02T00:00:00+00:00"
    names = {
        run_id_in_ledger(f"meltline_{dag}", due)
        for dag in ("lifecycle", "chunks", "replicate", "orphan_sweep")
    }
    assert names == {due, f"chunks__{due}", f"replicate__{due}", f"orphan_sweep__{due}"}
    assert run_id_in_ledger("meltline_approval", "approval__p1") == "approval__p1"


def test_what_was_not_asked_for_is_not_said() -> None:
    words = run_request(scheduled(), NOTHING).words()
    assert [word.partition("=")[0] for word in words] == ["--run-id", "--as-of"]
