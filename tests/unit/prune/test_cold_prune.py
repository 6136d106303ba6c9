"""What leaves cold: only past its time, only by a person's word, and only what nothing needs."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.permanent_store import DeepCopies
from meltline.app.prune.cold_prune import prune
from meltline.app.prune.prune_deletes import Pruned
from meltline.app.retention.holds import add_hold
from meltline.app.safety.switches import disarm
from meltline.app.services import RunContext
from meltline.domain.archive.pruning import PRUNING, without_snapshots
from meltline.domain.errors import (
    GateNotPassed,
    HoldInForce,
    LockHeld,
    MeltlineError,
    MetadataUnreadable,
    NotArmed,
    OutsideRetention,
    PlanAltered,
    Stopped,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.names import TableName
from meltline.ports import DeleteOutcome, StopSwitch
from tests.lake.lake import DAY, T0, Lake, Table
from tests.lives.kills import Killed, Process
from tests.unit.archive.test_cold_past import COLD_WAREHOUSE, NAME, found, moment, services

DEEP = "file:///deep"
COLD = TableName.parse("ice.air.t")
POLICY = {"meltline.cold": "all", "meltline.cold-retention-days": "10"}


def archived(days: int = 12, **more: str) -> tuple[Lake, Table]:
    """A table that gets a file a day, and loses all but the newest on each fourth."""
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={**POLICY, **more})
    for day in range(days):
        lake.on(day)
        (table.overwrite if day % 4 == 3 else table.append)(f"t{day}")
    lake.on(days).run(services=services(lake))
    return lake, table


def ids(lake: Lake) -> list[int]:
    return [copy.snapshot_id for copy in lake.control.archived.all() if copy.table == NAME]


def ports(lake: Lake, **changes: Any) -> RunContext:
    deep = DeepCopies(Stores(lake.store, lake.store, DEEP), lake.store)
    return services(lake, **{"deep": deep, **changes})


def pruned(lake: Lake, before: float, *, dry_run: bool = False, **changes: Any) -> list[Pruned]:
    made = ports(lake, **changes)
    return prune(made, made.gate, NAME, T0 + before * DAY, "costs", dry_run=dry_run)


def cold_files(lake: Lake) -> set[str]:
    return {path for path in lake.paths(COLD_WAREHOUSE) if not path.endswith(".json")}


def needed(lake: Lake) -> set[str]:
    """What the cold tables refer to, by a walk, metadata files aside."""
    named = {path for entry in lake.cold.listing().entries
             for path in lake._named_by(entry.metadata_location)}  # fmt: skip
    return {path for path in named if not path.endswith(".json")}


def document(lake: Lake) -> dict[str, Any]:
    return lake.document(lake.cold.location(COLD))


# --- what goes ------------------------------------------------------------------------------------


def test_old_snapshots_go_with_the_files_that_nothing_else_needs() -> None:
    lake, _ = archived()
    before = ids(lake)
    assert cold_files(lake) == needed(lake) and len(before) > 3
    lake.on(30)
    (done,) = pruned(lake, 2.5)
    assert done.snapshots == tuple(before[:3]) and done.deleted == done.files > 3
    assert ids(lake) == before[3:]
    assert [s["snapshot-id"] for s in document(lake)["snapshots"]] == before[3:]
    assert cold_files(lake) == needed(lake)
    assert not [key for key in document(lake)["properties"] if key.startswith(PRUNING)]
    (entry,) = [e for e in lake.control.audit.entries() if e.action == "cold prune"]
    assert (entry.object, entry.reason) == (str(NAME), "costs") and done.digest in entry.detail


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    lake, _ = archived()
    before, files = ids(lake), lake.paths(COLD_WAREHOUSE)
    lake.on(30)
    (told,) = pruned(lake, 2.5, dry_run=True)
    assert (told.snapshots, told.done, told.deleted) == (tuple(before[:3]), False, 0)
    assert lake.paths(COLD_WAREHOUSE) == files and ids(lake) == before
    (done,) = pruned(lake, 2.5)
    assert (done.files, done.bytes, done.digest) == (told.files, told.bytes, told.digest)


def test_the_newest_archived_snapshot_never_goes() -> None:
    lake, _ = archived()
    last = ids(lake)[-1]
    lake.on(60)
    pruned(lake, 50)
    assert ids(lake) == [last] and cold_files(lake) == needed(lake)
    (again,) = pruned(lake, 50)
    assert again.snapshots == ()


def test_a_time_whose_snapshot_is_gone_is_a_gap_afterwards() -> None:
    lake, _ = archived()
    first, second, third, *_ = ids(lake)
    lake.on(30)
    before = found(lake, moment(0.5)).resolved
    pruned(lake, 1.5)
    for day in (0.5, 1.5):
        with pytest.raises(OutsideRetention):
            found(lake, moment(day))
    assert before.snapshot_id == first
    assert found(lake, moment(2.5)).resolved.snapshot_id == third
    assert second not in document(lake)["snapshot-log"]


def test_behind_what_was_current_before_the_entry_of_what_is_gone_stays_in_the_log() -> None:
    log = [{"timestamp-ms": at, "snapshot-id": id} for at, id in enumerate((9, 1, 2, 9, 1, 3))]
    made = without_snapshots(
        {
            "snapshots": [{"snapshot-id": id} for id in (1, 2, 3, 9)],
            "refs": {"main": {"snapshot-id": 3, "type": "branch"}},
            "snapshot-log": log,
            "current-snapshot-id": 3,
        },
        {2, 9},
        {},
    )
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [1, 2, 1, 3]


def test_a_file_that_another_cold_table_needs_stays() -> None:
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties=POLICY)
    for day in range(3):
        lake.on(day)
        table.overwrite(f"t{day}")
    twin = lake.clone(table, "lake.air.twin")
    for day in range(3, 12):
        lake.on(day)
        table.overwrite(f"t{day}")
        twin.overwrite(f"twin{day}")
    lake.on(12).run(services=services(lake))
    lake.on(30)
    shared = [path for path in cold_files(lake) if path.endswith("/t2.parquet")]
    assert shared and pruned(lake, 4.5)[0].snapshots
    assert set(shared) <= cold_files(lake) and cold_files(lake) == needed(lake)


# --- what forbids it ------------------------------------------------------------------------------


def refused(lake: Lake, error: type[Exception], before: float = 2.5, **changes: Any) -> str:
    """Why nothing goes; nothing of cold has changed."""
    files, snapshots = lake.paths(COLD_WAREHOUSE), document(lake)["snapshots"]
    with pytest.raises(error) as odd:
        pruned(lake, before, **changes)
    assert lake.paths(COLD_WAREHOUSE) == files and document(lake)["snapshots"] == snapshots
    return f"{odd.value} {getattr(odd.value, 'found', '')}"


def test_before_its_retention_in_cold_is_past_nothing_goes() -> None:
    # AR-36
    lake, _ = archived()
    lake.on(21)
    assert "until 2026-01-23" in refused(lake, HoldInForce)
    lake.on(22)
    assert pruned(lake, 2.5)[0].done


def test_a_retention_that_was_made_longer_counts_at_once() -> None:
    lake, table = archived()
    table.configure(**{"meltline.cold-retention-days": "100"})
    lake.on(30)
    assert "must stay" in refused(lake, HoldInForce)


def test_a_copy_of_which_nobody_knows_how_long_it_stays_does_not_go() -> None:
    lake, table = archived()
    base = lake.cold.location(COLD)
    changed = lake.document(base)
    first = ids(lake)[0]
    del changed["properties"][f"meltline.archived.{first}"]
    assert lake.cold.commit(COLD, base, changed)
    lake.control.archived.forget(table.uuid, [first])
    lake.on(30)
    assert str(first) in refused(lake, HoldInForce)


def test_holds_stops_and_handoffs_at_work_forbid_it() -> None:
    lake, table = archived()
    lake.on(30)
    lake.control.switch.set(StopSwitch("ann", "wait", lake.clock.now()))
    refused(lake, Stopped)
    lake.control.switch.set(None)
    with lake.control.locks.take(
        f"handoff {table.uuid}", "run", wait=timedelta(0), lease=timedelta(minutes=2)
    ):
        refused(lake, LockHeld)
    add_hold(ports(lake), str(NAME), reason="case 7", until=None)
    assert "hold" in refused(lake, HoldInForce)


def test_where_nobody_has_armed_the_hot_catalog_nothing_goes_but_by_a_word_for_once() -> None:
    lake, _ = archived()
    disarm(lake.on(30).services(), "lake")
    before = cold_files(lake)
    assert "not armed" in refused(lake, NotArmed)
    assert pruned(lake, 8, dry_run=True)[0].snapshots and cold_files(lake) == before
    (done,) = pruned(lake, 8, once="costs")
    assert done.done and cold_files(lake) < before


def test_without_a_reason_nothing_goes() -> None:
    lake, _ = archived()
    lake.on(30)
    with pytest.raises(UsageInvalid):
        prune(ports(lake), ports(lake).gate, NAME, T0 + DAY, " ", dry_run=False)
    with pytest.raises(TableNotFound):
        prune(
            ports(lake), ports(lake).gate, TableName.parse("lake.air.never"), T0, "x", dry_run=True
        )


def test_over_a_table_that_cannot_be_read_nothing_goes() -> None:
    lake, _ = archived()
    other = lake.table("other")
    lake.on(30)
    kept = lake.spoil(other.metadata_location)
    assert "other" in refused(lake, MetadataUnreadable)
    lake.mend(other.metadata_location, kept)
    place = f"{COLD_WAREHOUSE}/odd.metadata.json"
    lake.store.write(place, b"{}")
    lake.cold.register(replace(COLD, name="odd"), place)
    refused(lake, GateNotPassed)


@pytest.mark.parametrize("kind", ["list", "manifest"])
def test_over_a_snapshot_that_stays_and_cannot_be_read_nothing_goes(kind: str) -> None:
    lake, _ = archived()
    lake.on(30)
    last = document(lake)["snapshots"][-1]["manifest-list"]
    path = last if kind == "list" else next(iter(lake._walk(last)))
    lake.spoil(path)
    refused(lake, MeltlineError)


class Blind:
    """A manifest reader that finds nothing alive in some manifests."""

    def __init__(self, lake: Lake, unseen: set[str]) -> None:
        self.real, self.unseen = lake.services().manifests, unseen

    def read_list(self, path: str, content: bytes) -> tuple[ManifestFile, ...]:
        return self.real.read_list(path, content)

    def live_paths(self, manifest: ManifestFile, content: bytes) -> Sequence[str]:
        found = self.real.live_paths(manifest, content)
        return [] if manifest.path in self.unseen else found


def rewritten() -> tuple[Lake, set[str]]:
    """Two files in manifests of their own; then in one manifest, which stays when those go."""
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties=POLICY)
    for day, name in enumerate(("a", "b")):
        lake.on(day)
        table.append(name)
    lake.on(2)
    table.rewrite_manifests()
    lake.on(3)
    table.overwrite("c")
    lake.on(4)
    table.overwrite("d")
    lake.on(14).run(services=services(lake))
    stays = document(lake)["snapshots"][2]["manifest-list"]
    lake.on(30)
    return lake, {path for path in lake._walk(stays) if path.endswith(".avro")}


def test_manifests_go_and_the_files_that_later_manifests_name_stay() -> None:
    lake, _ = rewritten()
    (done,) = pruned(lake, 1.5)
    assert len(done.snapshots) == 2
    assert cold_files(lake) == needed(lake)
    assert {"a.parquet", "b.parquet"} <= {path.rpartition("/")[2] for path in cold_files(lake)}


def test_what_the_planner_has_overlooked_the_gate_finds() -> None:
    lake, stays = rewritten()
    assert "needed" in refused(lake, GateNotPassed, 1.5, manifests=Blind(lake, stays))


def test_a_cold_table_that_somebody_has_registered_in_hot_is_not_taken_from() -> None:
    lake, _ = archived()
    lake.on(30)
    lake.catalogs["lake"].register(TableName.parse("lake.air.old"), lake.cold.location(COLD))
    assert "needed" in refused(lake, GateNotPassed)


# --- killed, or half done -------------------------------------------------------------------------


@pytest.mark.slow("a run is killed at each call")
def test_killed_anywhere_it_is_finished_by_the_next_one() -> None:
    at, ended = 0, False
    while not ended:
        at += 1
        for after in (False, True):
            lake, _ = archived()
            before = ids(lake)
            lake.on(30)
            process = Process(dies_at=at, after=after)
            try:
                prune(
                    process.of(ports(lake)),
                    ports(lake).gate,
                    NAME,
                    T0 + 0.5 * DAY,
                    "costs",
                    dry_run=False,
                )
                ended = True
            except Killed:
                lake.let_leases_end()
            assert needed(lake) <= cold_files(lake)
            pruned(lake, 0.5)
            assert ids(lake) == before[1:]
            assert cold_files(lake) == needed(lake)
            properties = document(lake)["properties"]
            assert not [key for key in properties if key.startswith(PRUNING)]
    assert at > 20


class Failing:
    """A store in which some files cannot be deleted."""

    def __init__(self, lake: Lake, ending: str) -> None:
        self.store, self.ending = lake.store, ending

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        bad = [path for path in paths if path.endswith(self.ending)]
        outcomes = self.store.delete([path for path in paths if path not in bad])
        return [*outcomes, *(DeleteOutcome(path, "busy") for path in bad)]


def test_a_file_that_could_not_be_deleted_is_named_and_the_next_prune_tries_again() -> None:
    lake, _ = archived()
    lake.on(30)
    tier = replace(ports(lake).cold, remover=Failing(lake, "t0.parquet"))  # type: ignore[type-var]
    (done,) = pruned(lake, 4.5, cold=tier)
    assert [error.endswith("t0.parquet: busy") for error in done.errors] == [True]
    assert cold_files(lake) > needed(lake)
    finished, again = pruned(lake, 4.5)
    assert finished.digest == done.digest and finished.errors == [] and again.snapshots == ()
    assert cold_files(lake) == needed(lake)


def test_what_somebody_came_to_need_meanwhile_stays() -> None:
    lake, _ = archived()
    lake.on(30)
    old = document(lake)

    class Sharing:
        """Once snapshots are taken out, another table is there that has them."""

        def __getattr__(self, name: str) -> Any:
            return getattr(lake.cold, name)

        def edit_table(self, name: TableName, edit: Any) -> str:
            location = lake.cold.edit_table(name, edit)
            place = f"{COLD_WAREHOUSE}/twin.metadata.json"
            if lake.store.size(place) is None:
                twin = {**old, "table-uuid": "5e0f0f0e-0000-4000-8000-000000000001"}
                lake.store.write(place, json.dumps(twin).encode())
                lake.cold.register(replace(COLD, name="twin"), place)
            return location

    tier = replace(ports(lake).cold, editor=Sharing())  # type: ignore[type-var]
    (done,) = pruned(lake, 2.5, cold=tier)
    assert done.deleted == 0 and len(done.kept) == done.files
    assert needed(lake) <= cold_files(lake)


def test_a_table_of_hot_that_cannot_be_read_any_more_stops_the_deletes_too() -> None:
    lake, _ = archived()
    other = lake.on(30).table("other")

    class Spoiling:
        """Once snapshots are taken out, nobody can tell any more what a table of hot needs."""

        def __getattr__(self, name: str) -> Any:
            return getattr(lake.cold, name)

        def edit_table(self, name: TableName, edit: Any) -> str:
            location = lake.cold.edit_table(name, edit)
            self.was = lake.spoil(other.metadata_location)
            return location

    files, spoiling = lake.paths(COLD_WAREHOUSE), Spoiling()
    tier = replace(ports(lake).cold, editor=spoiling)  # type: ignore[type-var]
    with pytest.raises(MetadataUnreadable, match="other"):
        pruned(lake, 2.5, cold=tier)
    assert files <= lake.paths(COLD_WAREHOUSE)
    lake.mend(other.metadata_location, spoiling.was)
    finished, _ = pruned(lake, 2.5)
    assert finished.deleted == finished.files > 0


def test_a_plan_that_was_altered_is_not_finished() -> None:
    lake, _ = archived()
    lake.on(30)
    tier = replace(ports(lake).cold, remover=Failing(lake, "t0.parquet"))  # type: ignore[type-var]
    pruned(lake, 4.5, cold=tier)
    (place,) = [v for k, v in document(lake)["properties"].items() if k.startswith(PRUNING)]
    written = lake.store.read(place)
    lake.store.write(place, written.replace(b"t0.parquet", b"t9.parquet"))
    refused(lake, PlanAltered)
    lake.store.delete([place])
    refused(lake, PlanAltered)
