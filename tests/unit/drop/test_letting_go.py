"""The chain and dropped tables: kept, noticed, let go when their time is up (TT-40, TT-45)."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.doctor.doctor import examine
from meltline.app.drop.drop import drop
from meltline.app.drop.finalize import process_drops
from meltline.app.drop.recover import recover
from meltline.app.drop.undrop import Undropped, undrop
from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.retention.holds import add_hold, remove_hold
from meltline.app.retention.policies import change_policy
from meltline.app.run.gate_step import run_gate
from meltline.app.safety.audit import decisions
from meltline.app.storage.file_status import standing_now
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.storage import Stage
from meltline.domain.drop.drops import LET_GO, is_dropped_name
from meltline.domain.errors import LockHeld, OutsideRetention, PlanStale
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.policy import PROFILES, RETENTION, AccountPolicy
from meltline.ports import DeleteOutcome, Lease, PurgeVeto
from tests.lake.lake import DAY, T0, WAREHOUSE, Lake, Table
from tests.lives.kills import Killed, Process

MS = timedelta(milliseconds=1)
NAME, OTHER = "lake.air.t", "lake.sea.stays"


def written(lake: Lake | None = None, name: str = "t") -> tuple[Lake, Table]:
    """A table of three commits that a run has seen, and an empty one beside it; it is day 3."""
    lake = lake or Lake()
    table = lake.on(0).table(name)
    if lake.store.size(f"{WAREHOUSE}/sea/stays/metadata/00000-m.metadata.json") is None:
        lake.table(OTHER)
    for day in range(3):
        lake.on(day)
        table.overwrite(f"f{day}")
    lake.on(3).run()
    return lake, table


def dropped(lake: Lake | None = None, name: str = "t") -> tuple[Lake, Table]:
    lake, table = written(lake, name)
    drop(lake.services(), str(table.name))
    return lake, table


def back(lake: Lake, text: str = NAME) -> Undropped:
    return undrop(lake.services(), text)


def names(lake: Lake) -> set[str]:
    """All tables but the one beside."""
    found = {str(entry.name) for entry in lake.catalogs["lake"].listing().entries}
    return found - {OTHER}


def dropped_names(lake: Lake) -> list[TableName]:
    entries = lake.catalogs["lake"].listing().entries
    return [entry.name for entry in entries if is_dropped_name(entry.name.namespace)]


def own(lake: Lake) -> set[str]:
    return {path for path in lake.paths() if "/air/t/" in path}


# --- kept while it can come back ------------------------------------------------------------------


def test_nothing_of_a_dropped_table_expires_while_it_can_be_brought_back() -> None:
    lake, table = written()
    before = table.document
    drop(lake.services(), NAME)
    for day in range(4, 11):
        assert lake.on(day).run().exit_code == 0
    assert lake.waiting() == {}
    back(lake)
    assert table.document["snapshots"] == before["snapshots"]
    assert table.document["refs"] == before["refs"]


def test_what_had_departed_before_the_drop_is_purged_on_its_day() -> None:
    lake, table = written()
    lake.on(9).run()  # the first has left its window
    first, head = table.data("f0"), table.head
    assert first in lake.waiting()
    change_policy(
        lake.services(), find_object(lake.services(), NAME), {RETENTION: "90"}, dry_run=False
    )
    drop(lake.services(), NAME)
    lake.on(17).run()
    assert first in lake.deleter.deleted
    assert back(lake).tables[0].snapshot_id == head


def test_a_dropped_tables_bytes_are_historical_and_none_is_active() -> None:
    lake, _ = dropped()
    lake.run()
    files = standing_now(lake.services()).files.values()
    stages = {file.stage for file in files if file.path in own(lake)}
    assert stages == {Stage.HISTORICAL}


# --- let go ---------------------------------------------------------------------------------------


def test_when_its_time_is_up_all_of_it_departs_waits_and_is_purged_and_it_is_forgotten() -> None:
    lake, _ = dropped()
    lake.on(10).run()
    assert lake.waiting() == {}
    lake.clock.moment += MS
    assert lake.run().exit_code == 0
    assert {path for path in own(lake) if "metadata.json" not in path} <= lake.waiting().keys()
    lake.on(12).run()
    assert len(names(lake)) == 1  # what waits can be recovered, by what its metadata says
    lake.on(18).run()
    assert {path for path in own(lake) if "metadata.json" not in path} == set()
    lake.on(19).run()
    assert names(lake) == set()
    for day in (27, 28):
        assert lake.on(day).run().exit_code == 0
    assert own(lake) == set()
    assert [
        t.status for t in lake.control.registrations.all() if is_dropped_name(t.name.namespace)
    ] == [LET_GO]
    assert "let go" in [e.action for e in decisions(lake.services(), NAME)]
    assert lake.on(40).run().exit_code == 0


def test_its_files_wait_for_the_failsafe_that_was_frozen_at_the_drop() -> None:
    lake, _ = written()
    services = lake.services()
    change_policy(services, find_object(services, "lake.air"), {"meltline.failsafe-days": "20"},
                  dry_run=False)  # fmt: skip
    drop(lake.services(), NAME)
    change_policy(services, find_object(services, "lake.air"), {"meltline.failsafe-days": "1"},
                  dry_run=False)  # fmt: skip
    lake.on(11).run()
    assert set(lake.waiting().values()) == {T0 + 31 * DAY}


def test_a_table_without_retention_goes_with_the_next_run() -> None:
    lake, _ = written()
    services = lake.services()
    change_policy(services, find_object(services, NAME), {RETENTION: "0"}, dry_run=False)
    drop(services, NAME)
    assert lake.run().exit_code == 0
    assert lake.waiting()


def test_a_table_that_was_never_written_to_goes_too() -> None:
    lake = Lake()
    lake.table("t")
    lake.table(OTHER)
    lake.run()
    drop(lake.services(), NAME)
    lake.on(8).run()
    assert names(lake) == set()
    lake.on(16).run()
    assert own(lake) == set()


def test_with_an_infinite_retention_it_is_never_let_go() -> None:
    lake, table = dropped(Lake(account=AccountPolicy(PROFILES["ducklake_managed"])))
    lake.on(4000).run()
    assert lake.waiting() == {} and len(names(lake)) == 1
    back(lake)
    assert len(table.snapshots) == 3


def test_an_earlier_logical_date_lets_nothing_go() -> None:
    lake, _ = dropped()
    lake.on(30).run(as_of=T0 + 2 * DAY)
    assert lake.waiting() == {} and len(names(lake)) == 1


@pytest.mark.parametrize("held", [NAME, "lake.air"])
def test_a_hold_keeps_it_for_as_long_as_it_lasts_from_wherever_it_was_set(held: str) -> None:
    lake, _ = written()
    written(lake, "u")
    hold = add_hold(lake.services(), held, reason="audit")
    drop(lake.services(), NAME)
    for day in (20, 40):
        lake.on(day).run()
    assert not {path for path in lake.waiting() if "/air/t/" in path}
    remove_hold(lake.services(), hold.id, reason="over")
    lake.on(41).run()
    assert {path for path in lake.waiting() if "/air/t/" in path}


def test_a_hold_on_a_schema_that_is_dropped_with_it_holds_it_too() -> None:
    lake, _ = written()
    add_hold(lake.services(), "lake.air", reason="audit")
    drop(lake.services(), "lake.air")
    lake.on(40).run()
    assert lake.waiting() == {}


@pytest.mark.parametrize("reader", ["a lease", "a word that it is wanted back"])
def test_while_somebody_reads_a_dropped_table_or_wants_it_back_all_of_it_stays(reader: str) -> None:
    lake, table = dropped()
    (name,) = dropped_names(lake)
    table = Table(lake, name)
    first, everything = table.snapshots[0], table.snapshots
    lake.on(12)
    if reader == "a lease":
        lake.control.leases.save(Lease("l", table.uuid, first, T0 + 13 * DAY))
    else:
        at = table.manifest_list(first)
        word = PurgeVeto("w", table.uuid, first, at, (), "ann", "a look", lake.clock.now())
        lake.control.vetoes.add(word)
    assert lake.run().exit_code == 0
    assert table.snapshots == everything and set(table.refs) == {"main"}
    lake.on(14).run()
    assert table.snapshots == []


def test_a_tag_without_an_end_keeps_its_snapshot_and_nothing_else() -> None:
    lake, table = written()
    table.tag("keep", table.snapshots[0], **{"max-ref-age-ms": 2**63 - 1})
    drop(lake.services(), NAME)
    lake.on(11).run()
    lake.on(30).run()
    (name,) = dropped_names(lake)
    left = Table(lake, name)
    assert left.refs.keys() == {"keep"} and len(left.snapshots) == 1
    (found,) = [f for f in examine(lake.services()) if f.code == "dropped_but_tagged"]
    assert NAME in found.message and "keep" in found.message


def test_a_clone_keeps_what_it_shares_when_the_dropped_source_is_let_go() -> None:
    lake, table = written()
    copy = lake.clone(table, "lake.sea.copy")
    shared = {entry.path for entry in copy.live()}
    lake.run()
    drop(lake.services(), NAME)
    for day in (11, 20, 30, 40):
        lake.on(day).run()
    assert shared <= lake.paths() and names(lake) >= {"lake.sea.copy"}


def test_what_a_second_name_let_go_of_when_it_was_set_back_goes_with_the_table() -> None:
    numbers = count(1)  # the two never give a name twice
    lake, table = written(Lake(unique=lambda: f"m{next(numbers)}"))
    older = table.document["metadata-log"][-1]["metadata-file"]
    second = lake.register("lake.air.second", table.metadata_location)
    lake.run()
    second.drop()
    second = lake.register("lake.air.second", older)
    lake.on(4).run()
    table.append("later")
    drop(lake.services(), NAME)
    for day in (5, 20, 21, 29, 37):
        lake.on(day).run()
    log = [entry["metadata-file"] for entry in second.document["metadata-log"]]
    left = {path for path in own(lake) if path.endswith(".metadata.json")}
    assert dropped_names(lake) == [] and left == {second.metadata_location, *log}


def test_a_new_table_in_the_old_folder_loses_nothing_when_the_dropped_one_is_let_go() -> None:
    # TT-41
    lake, _ = dropped(Lake(unique=map("m{}".format, count()).__next__))
    new = lake.table("t")
    new.append("mine")
    assert new.location.endswith("/air/t")
    for day in (11, 19, 20, 28, 40):
        assert lake.on(day).run().exit_code == 0
    assert names(lake) == {NAME}
    assert {p.rpartition("/")[2] for p in own(lake) if "/data/" in p} == {"mine.parquet"}


def test_what_was_let_go_comes_back_as_far_as_its_files_wait() -> None:
    lake, table = written()
    last = table.data("f2")
    drop(lake.services(), NAME)
    lake.on(11).run()
    with pytest.raises(OutsideRetention) as refused:
        back(lake)
    assert "recover" in refused.value.next
    lake.table("lake.air.other")
    done = recover(lake.services(), NAME, "lake.air.back", reason="needed")
    assert done.missing == ()
    for day in (12, 20, 30, 40):
        lake.on(day).run()
    made = Table(lake, TableName.parse("lake.air.back"))
    assert {entry.path for entry in made.live()} == {last} and last in lake.paths()


# --- killed half-way ------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["record", "save"])
def test_a_run_that_is_killed_while_it_lets_go_is_finished_by_the_next(at: str) -> None:
    lake, _ = dropped()
    lake.on(11).run()
    services = lake.services()
    tables, departures = services.control.registrations, services.files.departures
    ledger = departures if at == "record" else tables
    real = getattr(ledger, at)

    def killed(*arguments: object) -> None:
        if not names(lake):
            raise Killed
        real(*arguments)

    lake.on(19)
    setattr(ledger, at, killed)
    with pytest.raises(Killed):
        lake.run()
    setattr(ledger, at, real)
    assert names(lake) == set()
    lake.run()
    lake.on(28).run()
    assert own(lake) == set()


def test_a_killed_let_go_is_not_finished_while_a_held_table_lies_in_the_folder() -> None:
    lake, _ = dropped(Lake(unique=map("m{}".format, count()).__next__))
    lake.on(11).run()
    lake.table("t").append("mine")
    process = Process(dies_at=1, after=True, about="catalog.unregister")
    with pytest.raises(Killed):
        lake.on(19).run(services=process.of(lake.services()))
    assert names(lake) == {NAME}
    lake.let_leases_end()
    hold = add_hold(lake.services(), NAME, reason="audit")
    lake.run()
    remove_hold(lake.services(), hold.id, reason="over")
    for day in (20, 29):
        lake.on(day).run()
    assert own(lake) == {path for path in lake.needed() if "/air/t/" in path}


def test_a_table_stays_while_a_plan_of_it_is_begun_though_nothing_waits_any_more() -> None:
    lake, _ = dropped()
    lake.on(11).run()
    process = Process(dies_at=1, after=True, about="files.record_departures")
    with pytest.raises(Killed):
        lake.on(18).run(services=process.of(lake.services()))
    lake.let_leases_end()
    services = lake.on(19).services()
    assert lake.waiting() == {}
    process_drops(services, observe(services), lake.request().as_of)
    assert len(dropped_names(lake)) == 1
    for day in (20, 21):  # the first finishes the plan
        lake.on(day).run()
    assert dropped_names(lake) == []


def test_doctor_says_where_a_plain_drop_or_a_purge_deletes() -> None:
    lake, table = written()
    codes = {f.code: f for f in examine(lake.services())}
    assert NAME in codes["drop_purge_deletes"].message
    for one in (table, Table(lake, TableName.parse(OTHER))):
        one.configure(gc__enabled="false")
    assert "drop_purge_deletes" not in {f.code for f in examine(lake.services())}
    table.configure(**{"external.table.purge": "true"})
    assert NAME in {f.code: f.message for f in examine(lake.services())}["drop_deletes"]


# --- files that wait when their owner leaves, or that others still had ----------------------------


def test_what_had_departed_before_a_plain_drop_is_purged_on_its_day() -> None:
    lake, table = written()
    lake.on(9).run()  # the first has left its window
    first, last = table.data("f0"), table.data("f2")
    assert first in lake.waiting()
    table.drop()
    lake.on(12).run()
    assert first in lake.paths()
    lake.on(17).run()
    assert first in lake.deleter.deleted and last in lake.paths()


@pytest.mark.parametrize("at", [NAME, "lake.sea.copy"])
def test_what_source_and_clone_shared_goes_when_both_are_let_go_whichever_is_first(at: str) -> None:
    lake, table = written()
    lake.clone(table, "lake.sea.copy")
    shared, other = table.data("f2"), ({NAME, "lake.sea.copy"} - {at}).pop()
    lake.run()
    drop(lake.services(), at)
    for day in (11, 19, 20, 28, 29):
        assert lake.on(day).run().exit_code == 0
    assert names(lake) == {other} and shared in lake.paths().difference(lake.waiting())
    drop(lake.services(), other)
    for day in (37, 45, 46, 54):
        assert lake.on(day).run().exit_code == 0
    assert names(lake) == set()
    assert not [path for path in lake.paths() if "/air/t/" in path or "/sea/copy/" in path]


def test_what_a_living_clone_lets_go_of_goes_although_its_owner_was_let_go_long_ago() -> None:
    lake, table = written()
    copy = lake.clone(table, "lake.sea.copy")
    shared = {entry.path for entry in copy.live()}
    lake.run()
    drop(lake.services(), NAME)
    for day in (11, 19, 20, 28):
        lake.on(day).run()
    assert names(lake) == {"lake.sea.copy"} and shared <= lake.paths()
    copy.overwrite("own")
    for day in (37, 45):
        assert lake.on(day).run().exit_code == 0
    assert not shared & lake.paths() and copy.data("own") in lake.paths()


# --- at the same moment ---------------------------------------------------------------------------


def test_a_table_that_is_dropped_between_gate_and_expiration_expires_nothing() -> None:
    lake, table = written()
    lake.on(12)
    services = lake.services()
    planned = plan_expiration(services, observe(services), run_id="r", as_of=lake.clock.now())
    ((plan, result),) = run_gate(services, [one.plan for one in planned])
    assert result.passed and plan.snapshots
    before = table.snapshots
    drop(lake.services(), NAME)
    (done,) = apply_expirations(services, [plan])
    assert isinstance(done.error, PlanStale) and lake.waiting() == {}
    back(lake)
    assert table.snapshots == before


def test_an_undrop_during_a_purge_waits_for_it_and_then_finds_the_table_whole() -> None:
    lake, table = written()
    lake.on(9).run()  # the first has left its window
    last = table.data("f2")
    change_policy(
        lake.services(), find_object(lake.services(), NAME), {RETENTION: "90"}, dry_run=False
    )
    drop(lake.services(), NAME)
    refused: list[str] = []

    class Undropping:
        """Deletes; somebody undrops the table at that very moment."""

        def delete(
            self, files: Sequence[DepartedObject], keys_per_second: int
        ) -> Sequence[DeleteOutcome]:
            with pytest.raises(LockHeld) as held:
                back(lake)
            refused.append(held.value.next)
            return lake.deleter.delete(files, keys_per_second)

    lake.on(17).run(services=lake.services(deleter=Undropping()))
    assert refused and lake.deleter.deleted
    assert back(lake).tables[0].missing == () and last in lake.paths()
    lake.check_nothing_is_missing()


def test_what_others_took_of_a_dropped_table_departs_before_it_is_let_go() -> None:
    """A share that was written to, say: its update takes that out, and its end drops the table."""
    lake, _ = dropped()
    services, request = lake.on(T_LATE).services(), lake.request()
    names = [entry.name for entry in lake.catalogs["lake"].listing().entries]
    (place,) = (Table(lake, name) for name in names if is_dropped_name(name.namespace))
    folder = place.location
    place.edit(_emptied)
    process_drops(services, observe(services), request.as_of)
    assert place.name in lake.catalogs["lake"]._tables, "its files have not departed"
    for day in (T_LATE, T_LATE + 10, T_LATE + 20, T_LATE + 30):
        lake.on(day).run()
    assert place.name not in lake.catalogs["lake"]._tables
    assert not [path for path in lake.paths() if path.startswith(f"{folder}/")]


T_LATE = 100


def _emptied(document: dict[str, Any]) -> None:
    """Another tool has expired all of it."""
    document |= {"snapshots": [], "refs": {}, "snapshot-log": [], "current-snapshot-id": -1}
