"""What people ask of the cold tier: how far it is, what it has, whether that is whole."""

from datetime import timedelta
from typing import Any

import pytest

from meltline.app.archive.archive_snapshots import pending_handoffs
from meltline.app.archive.cold_status import cold_list, cold_status, remember_copies
from meltline.app.archive.cold_verify import cold_verify
from meltline.app.catalog.tables import read_tables
from meltline.app.clone.clone import clone
from meltline.app.doctor.doctor import examine
from meltline.app.doctor.init import init
from meltline.app.drop.drop import drop
from meltline.app.retention.policies import change_policy, show_policies
from meltline.app.run.lifecycle import run_chain
from meltline.domain.errors import (
    CatalogReadOnly,
    ColdMissing,
    LedgerOutOfStep,
    MeltlineError,
    RetentionOutOfRange,
    SnapshotNotFound,
    TableNotFound,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from tests.lake.lake import COLD_WAREHOUSE, Lake, Table
from tests.unit.archive.test_handoff import cold_state, daily, refusing

NAME = TableName("lake", ("air",), "t")


def archived() -> tuple[Lake, Table]:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    lake.on(12).run()
    return lake, table


def findings(lake: Lake) -> dict[str, str]:
    return {found.code: found.object for found in examine(lake.services())}


# --- status and list -------------------------------------------------------------------------


def test_the_status_counts_what_is_there_and_what_waits() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    stuck = table.snapshots[0]
    lake.on(12).run(services=lake.services(archive=refusing(lake, stuck)))
    (found,) = cold_status(lake.services())
    copies = lake.control.archived.all()
    assert (found.table, found.policy, found.waiting) == (NAME, "all", 1)
    assert found.archived == len(copies) > 2
    stored = {path for path in lake.paths(COLD_WAREHOUSE) if "metadata.json" not in path}
    assert found.bytes == sum(lake.store.size(path) or 0 for path in stored)
    assert found.oldest == copies[0].committed_at and found.newest == copies[-1].committed_at


def test_before_the_first_night_all_of_it_waits() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    (found,) = cold_status(lake.on(12).services(), NAME)
    assert found.archived == found.bytes == 0 and found.waiting > 2 and found.oldest is None


def test_a_table_that_hot_has_no_more_is_still_in_the_status_by_its_last_name() -> None:
    lake, table = archived()
    table.drop()
    lake.on(13).run()
    for day in (40, 60, 80):
        lake.on(day).run()
    (found,) = cold_status(lake.services())
    assert (found.table, found.policy) == (NAME, "")
    assert [copy.snapshot_id for copy in cold_list(lake.services(), NAME)]


def test_the_list_is_in_the_order_of_the_commits() -> None:
    lake, _ = archived()
    found = cold_list(lake.services(), NAME)
    assert [c.snapshot_id for c in found] == sorted(cold_state(lake).snapshots)
    assert all(copy.verified_at == lake.clock.moment for copy in found)


@pytest.mark.parametrize("ask", [cold_status, cold_list, cold_verify])
def test_of_a_table_that_nobody_wants_in_cold_there_is_nothing(ask: Any) -> None:
    lake = Lake(has_cold=True)
    daily(lake, 3, cold="none")
    with pytest.raises(TableNotFound, match="nothing of"):
        ask(lake.services(), NAME)


# --- verify ----------------------------------------------------------------------------------


def test_what_is_whole_is_noted_as_verified_now() -> None:
    lake, _ = archived()
    before = cold_list(lake.services(), NAME)
    lake.on(15)
    found = cold_verify(lake.services(), NAME)
    assert [one.problems for one in found] == [()] * len(before)
    assert [one.rows for one in found] == [copy.rows for copy in before]
    assert all(copy.verified_at == lake.clock.moment for copy in cold_list(lake.services(), NAME))


def test_verifying_needs_nothing_of_hot_but_the_ledger() -> None:
    lake, table = archived()
    lake.store.delete(sorted(lake.paths(table.location)))
    assert not any(one.problems for one in cold_verify(lake.services(), NAME))


def test_one_lost_file_is_named_with_every_snapshot_that_has_it_and_no_other() -> None:
    lake, _ = archived()
    first = cold_list(lake.services(), NAME)[0]
    lost = next(p for p in sorted(lake.paths(COLD_WAREHOUSE)) if p.endswith("t0.parquet"))
    lake.store.delete([lost])
    lake.on(15)
    found = {one.snapshot_id: one.problems for one in cold_verify(lake.services(), NAME)}
    broken = [sid for sid, problems in found.items() if problems]
    assert broken == [first.snapshot_id]
    assert lost in found[first.snapshot_id][0]
    again = {c.snapshot_id: c.verified_at for c in cold_list(lake.services(), NAME)}
    assert again[first.snapshot_id] < lake.clock.moment  # not noted as whole


def test_one_snapshot_alone_can_be_verified_and_its_rows_read() -> None:
    lake, _ = archived()
    wanted = cold_list(lake.services(), NAME)[1].snapshot_id
    services = lake.services()
    assert services.rows is not None
    (found,) = cold_verify(services, NAME, wanted, services.rows.count)
    assert (found.snapshot_id, found.rows_read, found.problems) == (wanted, 1, ())
    with pytest.raises(SnapshotNotFound):
        cold_verify(services, NAME, 4711)


def test_rows_that_cannot_be_read_are_a_problem() -> None:
    lake, _ = archived()
    found = cold_verify(lake.services(), NAME, None, lambda table, sid: "Spark said no")
    assert all(one.problems == ("Spark said no",) for one in found)


def test_a_copy_that_the_cold_catalog_forgot_is_missed() -> None:
    lake, _ = archived()
    place = TableName("ice", ("air",), "t")
    lake.cold.drop(place)
    found = cold_verify(lake.services(), NAME)
    assert found and all(one.problems for one in found)


def test_without_a_cold_tier_there_is_nothing_to_verify() -> None:
    with pytest.raises(ColdMissing, match="no cold tier"):
        cold_verify(Lake().services(), NAME)


# --- a ledger that lost its past -------------------------------------------------------------


def test_a_lost_ledger_learns_from_cold_what_is_there() -> None:
    lake, _ = archived()
    before = lake.control.archived.all()
    lake.control.archived.rows.clear()
    assert remember_copies(lake.services()) == len(before)
    after = lake.control.archived.all()
    assert [(c.table_uuid, c.snapshot_id, c.validity, c.rows, c.bytes_copied) for c in after] == [
        (c.table_uuid, c.snapshot_id, c.validity, c.rows, c.bytes_copied) for c in before
    ]
    assert all(c.keep_until == c.verified_at + timedelta(2557) for c in after)
    assert remember_copies(lake.services()) == 0


def test_adopting_an_emptied_ledger_reads_the_archive_again_and_makes_its_catalog() -> None:
    lake, _ = archived()
    before = {(c.table_uuid, c.snapshot_id) for c in lake.control.archived.all()}
    lake.control.archived.rows.clear()
    lake.control.database.set_generation(0)
    prepared: list[bool] = []
    services = lake.services(prepare_cold=lambda: prepared.append(True))
    with pytest.raises(LedgerOutOfStep):
        init(services)
    init(services, adopt=True)
    assert prepared
    assert {(c.table_uuid, c.snapshot_id) for c in lake.control.archived.all()} == before


# --- doctor ----------------------------------------------------------------------------------


def test_the_doctor_names_a_policy_without_a_cold_tier() -> None:
    lake = Lake()
    daily(lake, 3)
    assert findings(lake)["cold_not_configured"] == "lake.air.t"


def test_the_doctor_names_a_cold_catalog_that_is_away_and_what_waits() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12)
    assert findings(lake.on(12))["handoff_pending"] == "lake.air.t"
    lake.cold.unlistable = "away"
    assert findings(lake)["cold_unreachable"] == "ice"


def test_the_doctor_names_a_history_of_another_table_under_the_same_name() -> None:
    lake, table = archived()
    assert "cold_name_taken" not in findings(lake)
    table.drop()
    lake.on(13).run()
    lake.table("t", properties={"meltline.cold": "all"})
    assert findings(lake)["cold_name_taken"] == "lake.air.t"


def test_the_doctor_names_a_cold_table_that_cannot_be_read() -> None:
    lake, _ = archived()
    lake.store.write(lake.cold.location(TableName("ice", ("air",), "t")), b"{")
    assert "cold_unreadable" in findings(lake)


def test_a_word_that_is_no_cadence_is_reported_and_keeps_everything() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12, cold="hourly")
    assert findings(lake.on(12))["policy_out_of_range"] == "lake.air.t"
    (pending,) = pending_handoffs(lake.services(), read_tables(lake.services()), lake.clock.moment)
    assert pending.policy.cadence == "all" and pending.waiting > 2


# --- policies, and what nobody may do --------------------------------------------------------


def test_the_policy_is_set_by_command_and_shown_with_who_says_so() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 3, cold="none")
    table = ObjectName("lake", ("air",), "t")
    change_policy(lake.services(), table, {"meltline.cold": "weekly"}, dry_run=False)
    change_policy(
        lake.services(), ObjectName("lake", ("air",)), {"meltline.deep": "true"}, dry_run=False
    )
    shown = {line.key: line for line in show_policies(lake.services(), table)}
    assert (shown["meltline.cold"].effective, shown["meltline.cold"].source) == (
        "weekly",
        "lake.air.t",
    )
    assert (shown["meltline.deep"].effective, shown["meltline.deep"].source) == (True, "lake.air")
    assert shown["meltline.cold-retention-days"].source == "profile"


@pytest.mark.parametrize(
    ("key", "value"),
    [("meltline.cold", "hourly"), ("meltline.cold-retention-days", "x"), ("meltline.deep", "si")],
)
def test_a_value_that_is_none_cannot_be_set_by_command(key: str, value: str) -> None:
    lake = Lake(has_cold=True)
    daily(lake, 3)
    with pytest.raises(RetentionOutOfRange):
        change_policy(
            lake.services(), ObjectName("lake", ("air",), "t"), {key: value}, dry_run=False
        )


def test_commands_do_not_work_in_the_archive() -> None:
    # AR-34
    lake, _ = archived()
    services = lake.services()
    with pytest.raises(CatalogReadOnly, match="the archive"):
        change_policy(
            services, ObjectName("ice", ("air",), "t"), {"meltline.deep": "true"}, dry_run=False
        )
    for act in (
        lambda: drop(services, "ice.air.t"),
        lambda: clone(services, "lake.air.t", "ice.air.copy"),
        lambda: clone(services, "ice.air.t", "lake.air.copy"),
    ):
        with pytest.raises(MeltlineError):
            act()
    assert list(lake.cold._tables) == [TableName("ice", ("air",), "t")]


def test_files_of_the_archive_are_never_planned_even_where_a_hot_table_names_them() -> None:
    lake, _ = archived()
    copy = next(p for p in sorted(lake.paths(COLD_WAREHOUSE)) if p.endswith(".parquet"))
    lake.storage_roots = (COLD_WAREHOUSE,)  # else the roots alone would keep it
    strange = lake.on(13).table("strange", location=COLD_WAREHOUSE)
    strange.append(copy)
    lake.on(14)
    strange.overwrite("other")
    for day in (30, 40, 50):
        assert run_chain(lake.on(day).services(), lake.request()).exit_code == 0
    assert copy in lake.paths(COLD_WAREHOUSE)
    assert not [p for p in (*lake.waiting(), *lake.deleter.deleted) if p.startswith("file:///cold")]
