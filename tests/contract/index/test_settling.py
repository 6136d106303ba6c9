"""What is over is set aside: runs no longer read it, and nothing that is told changes.

One suite for the ledger in memory and the one on Spark; what only tables can get wrong follows.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import CatalogConfig
from meltline.domain.iceberg.files import (
    Departure,
    DepartureState,
    FileKind,
    ManifestFile,
    SideFile,
    SnapshotRecord,
)
from meltline.ports import FileLedger, LedgerReader, SnapshotKey
from tests.doubles.file_tables import MemoryTables
from tests.doubles.files import MemoryLedgerReader, memory_file_ledger

FAILSAFE, CANCELLED, DELETED = DepartureState
EVERY = frozenset(DepartureState)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
BEFORE = NOW - timedelta(days=7)
_NUMBERS = itertools.count()


@dataclass
class Kept:
    """A ledger, what reads all of it, and its tables."""

    ledger: FileLedger
    reader: LedgerReader
    rows: Any

    def depart(self, name: str, state: DepartureState = DELETED, **changes: object) -> None:
        made = Departure(
            path=path(name),
            kind=FileKind.DATA,
            bytes=7,
            owner="owner",
            plan_id="p",
            departed_at=LONG_AGO,
            due_at=LONG_AGO,
            state=state,
            recorded_at=LONG_AGO,
        )
        row = replace(made, **changes)  # type: ignore[arg-type]
        self.ledger.departures.record({f"{name} {next(_NUMBERS)}": [row]})

    def record(self, number: int, *, by_changes: bool = False) -> None:
        """A snapshot with a manifest list of its own."""
        manifest = ManifestFile(path("m"), 10, 1, 0, 0, added_snapshot_id=number)
        record = SnapshotRecord("t", number, LONG_AGO, None, path(f"list{number}"), 5, (manifest,))
        if by_changes:
            record = replace(record, by_changes=True, sequence_number=number)
        self.ledger.snapshots.record([record])

    def settle(self, *unfinished: str) -> str:
        return self.ledger.upkeep.settle(BEFORE, unfinished)

    def open(self) -> dict[str, DepartureState]:
        """What runs are told of departures."""
        return {short(d.path): d.state for d in self.ledger.departures.in_states(EVERY)}

    def told(self) -> dict[str, DepartureState]:
        """What people are told of them."""
        departures = self.reader.departures()
        assert len(departures) == len({d.path for d in departures})
        return {short(d.path): d.state for d in departures}


def path(name: str) -> str:
    return f"file:///lake/t/{name}"


def short(path: str) -> str:
    return path.removeprefix("file:///lake/t/")


@pytest.fixture(params=["memory", pytest.param("spark", marks=pytest.mark.spark)])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    if request.param == "memory":
        rows = MemoryTables(ObjectStores({}))
        return Kept(memory_file_ledger(rows), MemoryLedgerReader(rows), rows)
    return on_spark(tmp_path)


def on_spark(root: Path, kind: Callable[[type], type] = lambda tables: tables) -> Kept:
    """A ledger of its own, which settles whatever there is."""
    from meltline.adapters.catalogs.catalogs import open_catalog
    from meltline.adapters.file_index.file_index import spark_file_ledger
    from meltline.adapters.file_index.index_reader import IcebergLedgerReader
    from meltline.adapters.index_tables.tables_io import LedgerTables
    from tests.spark.setups.warehouse import Warehouse

    name = f"settles{next(_NUMBERS)}"
    warehouse = Warehouse.empty(root, name)
    rows = kind(LedgerTables)(warehouse.spark, ObjectStores({}), name, "meltline")
    ledger = spark_file_ledger(rows, ObjectStores({}), settle_from=0)
    ledger.upkeep.prepare()
    uri, lake = f"sqlite:///{root}/catalog.db", f"file://{root}/warehouse"
    config = CatalogConfig(name, "sql", uri, lake, name, False, {})
    store = ObjectStores({})
    reader = IcebergLedgerReader(config, open_catalog(config, store), store, "meltline")
    return Kept(ledger, reader, rows)


def test_what_was_deleted_long_ago_is_told_of_but_not_read_again(kept: Kept) -> None:
    kept.depart("old", FAILSAFE)
    kept.depart("old")
    kept.depart("older")
    assert kept.settle()
    assert kept.open() == {} and kept.ledger.departures.settled([path("old"), path("other")]) == {
        path("old")
    }
    assert kept.told() == {"old": DELETED, "older": DELETED}
    assert [d.path for d in kept.reader.departures([FileKind.METADATA], path("old"))] == [
        path("old")
    ]
    assert kept.settle() == ""


def test_what_is_not_over_stays(kept: Kept) -> None:
    old = {f"old{number}" for number in range(5)}
    for name in old:
        kept.depart(name)
    kept.depart("waits", FAILSAFE)
    kept.depart("needed", CANCELLED)
    kept.depart("just now", recorded_at=BEFORE)
    kept.depart("of a plan", plan_id="begun")
    kept.depart("deleted and back", DELETED)
    kept.depart("deleted and back", CANCELLED, recorded_at=NOW)
    before = kept.open()
    assert kept.settle("begun")
    assert before.keys() - kept.open().keys() == old
    assert kept.told() == before


def test_a_snapshot_whose_list_is_set_aside_is_known_to_nobody_but_readers(kept: Kept) -> None:
    kept.record(1)
    kept.record(2)
    kept.depart("list1", kind=FileKind.MANIFEST_LIST)
    assert kept.settle()
    assert kept.ledger.snapshots.known() == {SnapshotKey("t", 2)}
    assert kept.open() == {} and kept.told() == {"list1": DELETED}
    assert sorted(s.key.snapshot_id for s in kept.reader.snapshots()) == [1, 2]


def test_a_snapshot_that_is_back_after_its_list_was_set_aside_is_known(kept: Kept) -> None:
    kept.record(1)
    kept.depart("list1", kind=FileKind.MANIFEST_LIST)
    assert kept.settle() and not kept.ledger.snapshots.known()
    kept.record(1)
    assert kept.ledger.snapshots.known() == {SnapshotKey("t", 1)}


def test_a_side_file_that_is_set_aside_is_not_seen_again(kept: Kept) -> None:
    files = [SideFile("t", path(name), FileKind.METADATA, 3) for name in ("v1", "v2")]
    kept.ledger.side_files.record(files, LONG_AGO)
    kept.depart("v1", kind=FileKind.METADATA)
    assert kept.settle()
    assert [file.path for file in kept.ledger.side_files.known()] == [path("v2")]
    assert sorted(file.path for file in kept.reader.side_files()) == [path("v1"), path("v2")]


def test_the_snapshot_that_a_line_goes_on_from_stays_though_its_list_is_gone(kept: Kept) -> None:
    for number in (1, 2):
        kept.record(number, by_changes=True)
        kept.depart(f"list{number}", kind=FileKind.MANIFEST_LIST)
    before = kept.ledger.snapshots.tips()
    assert kept.settle()
    assert kept.ledger.snapshots.tips() == before and before["t"].snapshot_id == 2
    assert kept.ledger.snapshots.known() == set()
    assert kept.open() == {"list2": DELETED}


def test_a_path_that_departs_again_waits_in_failsafe_for_all(kept: Kept) -> None:
    kept.depart("f")
    assert kept.settle()
    kept.depart("f", FAILSAFE, recorded_at=NOW)
    assert kept.open() == kept.told() == {"f": FAILSAFE}


# --- what only tables can get wrong --------------------------------------------------------------


@pytest.fixture
def tables(tmp_path: Path) -> Kept:
    return on_spark(tmp_path)


def change(
    name: str, snapshot: int, until: int | None = None, part: int | None = None, since: int = 1
) -> dict[str, object]:
    return {"table_uuid": "t", "snapshot_id": snapshot, "manifest_id": 1, "path": path(name),
            "key_hash": key_hash(path(name)), "part": part, "kind": "data", "bytes": 1,
            "since": since, "until": until}  # fmt: skip


def rows_of(kept: Kept, table: str) -> list[tuple[str, int | None, int | None]]:
    rows = kept.rows.look(table, ("path", "part", "until")).to_pylist()
    return sorted(((short(r["path"]), r["part"], r["until"]) for r in rows), key=repr)


def on_a_line(kept: Kept, *standing: int) -> FileLedger:
    """Snapshots 1 to 4 of a line, of which some are still there; the others were set aside."""
    for number in (1, 2, 3, 4):
        kept.record(number, by_changes=True)
        if number not in standing:
            kept.depart(f"list{number}", kind=FileKind.MANIFEST_LIST)
    assert kept.settle()
    return kept.ledger


@pytest.mark.spark
def test_what_a_settled_step_of_a_line_added_is_referred_to_as_before(tables: Kept) -> None:
    ledger: Any = tables.ledger
    for number in (1, 2, 3):
        tables.record(number, by_changes=True)
    tables.rows.append("changes", [change("alive", 1), change("gone", 1)], "one")
    tables.rows.append("changes", [change("gone", 2, until=2)], "two")
    tables.depart("list1", kind=FileKind.MANIFEST_LIST)
    tables.depart("list2", kind=FileKind.MANIFEST_LIST)
    tables.depart("gone")
    asked = [path("alive"), path("gone")]
    spans = sorted(tables.reader.spans(), key=repr)
    assert ledger.references.among(asked, []) == {path("alive")}
    assert tables.settle() and ledger.snapshots.rows().num_rows == 1
    assert ledger.references.among(asked, []) == {path("alive")}
    assert sorted(tables.reader.spans(), key=repr) == spans


@pytest.mark.spark
def test_few_are_not_worth_it_and_neither_is_the_smaller_half(tables: Kept) -> None:
    ledger: Any = tables.ledger
    for number in range(3):
        tables.depart(f"old{number}")
    ledger.upkeep.settle_from = 4
    assert tables.settle() == "" and len(tables.open()) == 3
    ledger.upkeep.settle_from = 3
    for number in range(4):
        tables.depart(f"new{number}", FAILSAFE)
    assert tables.settle() == "" and len(tables.open()) == 7
    tables.depart("new0")
    assert tables.settle() and len(tables.open()) == 3


@pytest.mark.spark
def test_spans_that_ended_before_the_oldest_snapshot_of_the_line_are_set_aside(
    tables: Kept,
) -> None:
    ledger = on_a_line(tables, 3, 4)
    tables.rows.append("changes", [change(f"f{n}", 1) for n in (2, 3, 4, 5)], "added")
    tables.rows.append(
        "changes", [change("f2", 2, 2), change("f3", 3, 3), change("f4", 4, 4)], "gone"
    )
    asked = [path(f"f{number}") for number in (2, 3, 4, 5)]
    needed, spans = ledger.references.among(asked, []), sorted(tables.reader.spans(), key=repr)
    leaving = [SnapshotKey("t", 3)]
    departs = sorted(file.path for file in ledger.references.departing(leaving))
    assert tables.settle()
    assert rows_of(tables, "changes") == [("f4", None, 4), ("f4", None, None), ("f5", None, None)]
    assert needed == ledger.references.among(asked, []) == {path("f4"), path("f5")}
    assert sorted(file.path for file in ledger.references.departing(leaving)) == departs
    assert path("f4") in departs
    assert sorted(tables.reader.spans(), key=repr) == spans
    assert tables.settle() == ""


@pytest.mark.spark
def test_a_removal_that_was_never_recorded_ends_no_span(tables: Kept) -> None:
    ledger = on_a_line(tables, 4)
    tables.rows.append("changes", [change("f", 1), change("g", 1), change("g", 2, 2)], "a")
    tables.rows.append("changes", [change("f", 99, 2)], "of a run that died")
    assert tables.settle()
    assert rows_of(tables, "changes") == [("f", None, 2), ("f", None, None)]
    assert ledger.references.among([path("f"), path("g")], []) == {path("f")}


@pytest.mark.spark
def test_a_path_that_came_back_and_another_vector_of_a_file_stay(tables: Kept) -> None:
    ledger = on_a_line(tables, 4)
    tables.rows.append("changes", [change("f", 1), change("f", 2, 2), change("f", 3, since=3)], "f")
    vectors = [change("v", 1, part=7), change("v", 2, 2, part=7), change("v", 1, part=8)]
    tables.rows.append("changes", vectors, "v")
    assert tables.settle()
    assert rows_of(tables, "changes") == [("f", None, None), ("v", 8, None)]
    assert ledger.references.among([path("f"), path("v")], []) == {path("f"), path("v")}


@pytest.mark.spark
def test_ended_spans_are_not_worth_it_while_most_of_the_rows_are_of_others(tables: Kept) -> None:
    on_a_line(tables, 4)
    others = [change(f"alive{number}", 1) for number in range(3)]
    tables.rows.append("changes", [change("f", 1), change("f", 2, 2), *others], "a")
    assert tables.settle() == "" and len(rows_of(tables, "changes")) == 5


class Killed(Exception):
    pass


@pytest.mark.spark
@pytest.mark.parametrize("deletes", [0, 1, 2])
def test_a_kill_between_copying_and_deleting_loses_nothing_and_the_next_night_goes_on(
    tmp_path: Path, deletes: int
) -> None:
    def dying(tables: type) -> type:
        class Dying(tables):  # type: ignore[misc]
            left: Iterator[int] = iter(range(deletes))

            def delete(self, rows: str, where: str, values: Mapping[str, object]) -> None:
                if next(self.left, None) is None:
                    raise Killed
                super().delete(rows, where, values)

        return Dying

    kept = on_spark(tmp_path, dying)
    kept.record(1)
    kept.record(2)
    kept.ledger.side_files.record([SideFile("t", path("v1"), FileKind.METADATA, 3)], LONG_AGO)
    kept.depart("list1", kind=FileKind.MANIFEST_LIST)
    kept.depart("v1", kind=FileKind.METADATA)
    kept.depart("f")
    told, snapshots = kept.told(), kept.reader.snapshots()
    with pytest.raises(Killed):
        kept.settle()
    as_before(kept, told, snapshots)
    kept.rows.left = itertools.count()
    assert kept.settle()
    as_before(kept, told, snapshots)
    assert kept.open() == {}


def as_before(kept: Kept, told: object, snapshots: object) -> None:
    assert kept.told() == told
    assert kept.reader.snapshots() == snapshots
    assert kept.ledger.snapshots.known() == {SnapshotKey("t", 2)}
    assert not kept.ledger.side_files.known()


@pytest.mark.spark
def test_keys_that_another_process_lays_down_meanwhile_move_nothing_of_ours(
    tmp_path: Path,
) -> None:
    def crowded(tables: type) -> type:
        class Crowded(tables):  # type: ignore[misc]
            def append_arrow(self, table: str, rows: Any, marker: str) -> None:
                super().append_arrow(table, rows, marker)
                if table == "settling":
                    hashes = [key_hash(path("waits"))]
                    theirs = pa.table({"move": ["theirs"], "key_hash": hashes})
                    super().append_arrow(table, theirs, "theirs")

        return Crowded

    kept = on_spark(tmp_path, crowded)
    for name in ("f", "g"):
        kept.depart(name)
    kept.depart("waits", FAILSAFE)
    assert kept.settle()
    assert kept.open() == {"waits": FAILSAFE}


@pytest.mark.spark
def test_what_another_run_records_meanwhile_is_not_taken_away(tmp_path: Path) -> None:
    def watched(tables: type) -> type:
        class Watched(tables):  # type: ignore[misc]
            def delete(self, rows: str, where: str, values: Mapping[str, object]) -> None:
                kept.depart("f", FAILSAFE, recorded_at=NOW)
                super().delete(rows, where, values)

        return Watched

    kept = on_spark(tmp_path, watched)
    kept.depart("f")
    assert kept.settle()
    assert kept.open() == kept.told() == {"f": FAILSAFE}
