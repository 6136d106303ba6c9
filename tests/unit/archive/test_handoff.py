"""The handoff in the chain: nothing that a policy wants in cold expires before it is there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from meltline.app.catalog.metadata import load_state
from meltline.app.run.lifecycle import run_chain, run_step
from meltline.app.run.steps import step_of
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.safety.stored_plans import PREVIEW
from meltline.app.storage.explain import explain_table
from meltline.domain.archive.archive import COLD_OF, read_archived
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.deletion.limits import IoSettings
from meltline.domain.deletion.plan import PlanState
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.retained_snapshots import KeepReason
from meltline.ports import HandedOver, HandoffRequest, StopSwitch
from tests.lake.lake import COLD_WAREHOUSE, DAY, T0, Lake, Table, business

EVERYTHING = {"meltline.cold": "all"}


def daily(lake: Lake, days: int, name: str = "t", cold: str = "all") -> Table:
    """A table that is overwritten every day, all of whose history is wanted."""
    table = lake.on(0).table(name, properties={"meltline.cold": cold})
    for day in range(days):
        lake.on(day)
        table.overwrite(f"{name}{day}")
    return table


def cold_state(lake: Lake, name: str = "air.t") -> TableMetadata:
    namespace, _, table = name.rpartition(".")
    place = TableName("ice", (namespace,), table)
    return load_state(lake.store, place, lake.cold.location(place))


def refusing(lake: Lake, *ids: int) -> "Grumpy":
    return Grumpy(lake, frozenset(ids))


class Grumpy:
    """An archive that will not take some snapshots."""

    def __init__(self, lake: Lake, ids: frozenset[int]) -> None:
        self.lake, self.ids = lake, ids

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[tuple[TableName, HandedOver]]:
        for request in requests:
            for one in request.snapshots:
                if one.snapshot.snapshot_id in self.ids:
                    yield request.hot.name, HandedOver(one.snapshot.snapshot_id, error="no room")
                else:
                    single = replace(request, snapshots=(one,))
                    yield from self.lake.archive.hand_off([single], may_go_on)


def test_expired_snapshots_are_in_cold_before_they_leave_hot() -> None:
    # AR-30
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    before = {sid: table.snapshot(sid) for sid in table.snapshots}
    summary = lake.on(12).run()
    assert summary.exit_code == 0, summary.as_json()
    (line,) = [t for t in summary.as_json()["tables"] if t["table"] == "lake.air.t"]
    gone = before.keys() - set(table.snapshots)
    assert gone and line["snapshots_archived"] == line["snapshots_expired"] == len(gone)
    assert line["files_copied"] > 0 and line["bytes_copied"] > 0
    archived = cold_state(lake).snapshots
    assert archived.keys() == gone
    for sid, copy in archived.items():
        assert copy.sequence_number == before[sid]["sequence-number"]
        assert copy.manifest_list.startswith("file:///cold/")


def test_the_ledger_and_the_cold_table_say_the_same_of_each_copy() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    lake.on(12).run()
    known = lake.control.archived.all([table.uuid])
    told = read_archived(cold_state(lake), table.name, timedelta(2557))
    assert len(known) > 2
    for one, other in zip(known, told, strict=True):
        same = replace(
            other,
            files_copied=one.files_copied,
            bytes_copied=one.bytes_copied,
            cold_location=one.cold_location,
        )
        assert one == same
        assert one.keep_until == lake.clock.moment + timedelta(2557)


def test_without_a_policy_the_archive_is_not_asked() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12, cold="none")

    class Never:
        def hand_off(self, *_: object) -> Iterator[tuple[TableName, HandedOver]]:
            raise AssertionError("nobody wanted anything in cold")

    lake.on(12).run(services=lake.services(archive=Never()))
    assert not lake.control.archived.all()


def test_a_snapshot_that_cold_would_not_take_stays_hot_with_its_reason_and_goes_another_night() -> (
    None
):
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    stuck = table.snapshots[1]
    summary = lake.on(12).run(services=lake.services(archive=refusing(lake, stuck)))
    assert summary.exit_code == 4
    (line,) = [t for t in summary.as_json()["tables"] if t["table"] == "lake.air.t"]
    assert "no room" in line["skipped"] and str(stuck) in line["skipped"]
    assert stuck in table.snapshots and line["snapshots_expired"] > 0
    (told,) = explain_table(lake.services(), table.name, stuck)
    assert told.keep_reasons == (str(KeepReason.HANDOFF_PENDING),)
    assert lake.on(13).run().exit_code == 0
    assert stuck not in table.snapshots and stuck in cold_state(lake).snapshots


def test_a_file_that_is_not_as_long_as_its_manifest_says_keeps_its_snapshots_hot() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    stuck = table.snapshots[1]
    (data, *_) = sorted(p for p in lake._walk(table.manifest_list(stuck)) if "/data/" in p)
    before = lake.store.read(data)
    lake.store.write(data, before + b"more")
    summary = lake.on(12).run()
    (line,) = [t for t in summary.as_json()["tables"] if t["table"] == "lake.air.t"]
    assert summary.exit_code == 4 and f"{data} has " in line["skipped"]
    assert stuck in table.snapshots
    assert mirrored(data, COLD_WAREHOUSE) not in lake.paths(COLD_WAREHOUSE)
    lake.store.write(data, before)
    assert lake.on(13).run().exit_code == 0 and stuck not in table.snapshots


def test_a_policy_without_a_cold_catalog_keeps_history_hot_and_says_so_every_night() -> None:
    lake = Lake()
    table = daily(lake, 12)
    before = table.snapshots
    for day in (12, 13):
        summary = lake.on(day).run()
        assert summary.exit_code == 4
        (line,) = [t for t in summary.as_json()["tables"] if t["table"] == "lake.air.t"]
        assert "no cold tier is configured" in line["skipped"]
    assert table.snapshots == before


def test_outside_the_quiet_window_nothing_begins_unless_a_person_wants_it() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    services = lake.services()
    config = replace(services.config, io=IoSettings(0, 60, 300))
    services = replace(services, config=config)
    summary = lake.on(12.5).run(services=services)  # at noon
    assert summary.exit_code == 0 and not lake.control.archived.all()
    assert any("wait for the next night" in notice for notice in summary.notices)
    request = replace(lake.request(), any_hour=True)
    run_chain(services, request)
    assert lake.control.archived.all([table.uuid])


def test_a_tag_released_after_its_neighbours_are_gone_is_added_behind_them() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    old = table.snapshots[0]
    table.tag("keep", old)
    lake.on(12).run()
    assert old in table.snapshots
    table.drop_ref("keep")
    lake.on(20).run()
    state = cold_state(lake)
    assert old not in table.snapshots and old in state.snapshots
    assert state.refs["main"].snapshot_id == max(state.snapshots)


def test_a_dropped_table_whose_time_is_up_leaves_only_when_all_of_it_is_in_cold() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 3)
    lake.on(3).run()
    ids, uuid = set(table.snapshots), table.uuid
    table.drop()
    lake.on(4).run()
    late = lake.services(archive=refusing(lake, max(ids)))
    lake.on(30).run(services=late)
    assert max(ids) not in {c.snapshot_id for c in lake.control.archived.all([uuid])}
    assert any(uuid in str(name) for name in lake.catalogs["lake"]._tables)
    lake.on(31).run()
    lake.on(60).run()
    lake.on(61).run()
    assert not any(uuid in str(name) for name in lake.catalogs["lake"]._tables)
    assert cold_state(lake).snapshots.keys() == ids
    assert cold_state(lake).properties[COLD_OF] == uuid
    # Its last state was kept as main all the while: it is known how long it was read.
    last = lake.control.archived.all([uuid])[-1]
    assert last.validity.end is not None and last.validity.start < last.validity.end <= T0 + 4 * DAY


def test_a_new_table_under_the_name_of_a_dropped_one_has_a_history_of_its_own() -> None:
    lake = Lake(has_cold=True)
    old = daily(lake, 12)
    lake.on(12).run()
    first = old.uuid
    old.drop()
    lake.on(13).run()
    new = lake.table("t", properties=EVERYTHING)
    for day in range(13, 26):
        lake.on(day)
        new.overwrite(f"new{day}")
    lake.on(26).run()
    assert cold_state(lake).properties[COLD_OF] == first
    apart = cold_state(lake, f"air.t__{new.uuid.replace('-', '')}")
    assert apart.properties[COLD_OF] == new.uuid and apart.snapshots


def test_a_renamed_table_goes_on_where_its_history_is() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    lake.on(12).run()
    before = set(cold_state(lake).snapshots)
    location = table.metadata_location
    table.drop()
    lake.register("lake.air.renamed", location)
    lake.on(16).run()
    assert set(cold_state(lake).snapshots) > before
    assert list(lake.cold._tables) == [TableName("ice", ("air",), "t")]


def test_what_is_in_cold_stays_when_everything_hot_is_gone() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    lake.on(12).run()
    files = lake.paths("file:///cold")
    for day in range(13, 40):
        lake.on(day).run()
    assert lake.deleter.deleted
    assert files <= lake.paths("file:///cold")
    assert not [path for path in lake.deleter.deleted if path.startswith("file:///cold")]


def test_a_dry_run_says_what_would_go_and_copies_nothing() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    request = replace(lake.on(12).request(), dry_run=True)
    summary = run_chain(lake.services(), request)
    assert any("would go to cold" in notice for notice in summary.notices)
    assert not lake.paths("file:///cold")


def test_a_dry_run_predicts_what_the_run_plans_at_that_instant_plan_for_plan() -> None:
    lake = Lake(has_cold=True)
    for name in ("t", "u", "v"):
        daily(lake, 12, name)
    for day in (12, 20):
        lake.on(day)
        dry = run_chain(lake.services(), replace(lake.request(), dry_run=True))
        real = lake.run()
        assert dry.plans and _content(dry) == _content(real)
        for plan in dry.plans.values():
            shown = lake.control.plans.get(plan.id)
            assert (shown.state, shown.note) == (PlanState.STALE, PREVIEW)
            files = lake.files.items.of([plan.id])[plan.id]
            assert len(files) == plan.files and sum(f.bytes for f in files) == plan.bytes


def _content(summary: Summary) -> set[tuple[str, str, int, int, int]]:
    """What a run plans, as its JSON tells it."""
    return {
        (plan["kind"], plan["table"], plan["snapshots"], plan["files"], plan["bytes"])
        for plan in summary.as_json()["plans"]
    }


def test_outside_the_quiet_window_a_dry_run_predicts_that_nothing_goes_to_cold() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    night = IoSettings(0, 60, 120)
    services = lake.on(12.5).services()
    services = replace(services, config=replace(services.config, io=night))
    dry = run_chain(services, replace(lake.request(), dry_run=True))
    assert not dry.plans


@pytest.mark.parametrize("cold", ["daily", "weekly", "monthly"])
def test_with_a_cadence_the_rest_of_history_expires_without_a_copy(cold: str) -> None:
    lake = Lake(has_cold=True, account=business(retention_days=1))
    table = lake.on(0).table("t", properties={"meltline.cold": cold})
    for hour in range(0, 24 * 33, 8):
        lake.on(hour / 24)
        table.overwrite(f"f{hour}")
    ids = set(table.snapshots)
    lake.on(36).run()
    gone, kept = ids - set(table.snapshots), set(cold_state(lake).snapshots)
    assert kept and kept < gone


# --- the step that Airflow runs --------------------------------------------------------------


class NoJobs:
    """A port behind which Spark stands; nobody may call it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a Spark job for {name}")


def step(services: Any, **asked: Any) -> Summary:
    request = RunRequest("run", services.clock.now(), **asked)
    return run_step(step_of("hand_off_to_cold"), services, request)


def test_where_nothing_waits_the_step_starts_no_job() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12, cold="none")
    idle: Any = NoJobs()
    summary = step(lake.on(12).services(files=idle, proofs=idle, archive=idle, rows=idle))
    assert summary.exit_code == 0 and not summary.tables


def test_the_step_alone_hands_over_and_expires_nothing() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    before = table.snapshots
    line = step(lake.on(12).services()).tables["lake.air.t"]
    assert line.snapshots_archived == len(cold_state(lake).snapshots) > 2
    assert table.snapshots == before
    again = step(lake.services()).tables["lake.air.t"]  # a retry
    assert (again.snapshots_archived, again.files_copied, again.skipped) == (0, 0, "")


def test_only_selected_tables_are_handed_over() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    other = daily(lake, 12, "other")
    step(lake.on(12).services(), tables=("*.other",))
    assert {copy.table_uuid for copy in lake.control.archived.all()} == {other.uuid}


def test_a_table_that_another_run_is_handing_over_is_left_to_it_and_named() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    other = daily(lake, 12, "other")
    lake.control.locks.rows.take({f"handoff {table.uuid}": "somebody"}, timedelta(hours=1))
    summary = step(lake.on(12).services())
    assert "somebody" in summary.tables["lake.air.t"].skipped
    assert {copy.table_uuid for copy in lake.control.archived.all()} == {other.uuid}


def test_while_somebody_holds_everything_back_no_copy_begins() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    lake.control.switch.set(StopSwitch("ann", "audit", lake.clock.now()))
    summary = step(lake.on(12).services(), any_hour=True)
    assert not lake.control.archived.all()
    assert any("wait for the next night" in notice for notice in summary.notices)


def test_a_table_that_cannot_be_read_keeps_its_neighbours_history_hot_too() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    copy = lake.clone(table, "lake.air.copy")
    lake.on(11.5)
    copy.append("more")
    lake.spoil(copy.manifest_list(copy.head))
    summary = lake.on(30).run()
    assert summary.exit_code == 4
    assert table.uuid not in {archived.table_uuid for archived in lake.control.archived.all()}


def test_a_backfill_of_past_days_hands_over_the_same_in_any_order() -> None:
    ends = set()
    for order in permutations((12, 15, 18)):
        lake = Lake(has_cold=True)
        table = daily(lake, 18, cold="daily")
        lake.on(18)
        for day in order:
            lake.run(as_of=T0 + day * DAY)
        ends.add((tuple(table.snapshots), tuple(sorted(cold_state(lake).snapshots))))
    assert len(ends) == 1
