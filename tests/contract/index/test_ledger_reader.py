"""The file ledger read by PyIceberg: what Spark wrote, nothing yet, and where a part is gone."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from meltline.adapters.catalogs.catalogs import open_catalog
from meltline.adapters.file_index.index_reader import IcebergLedgerReader
from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import CatalogConfig
from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.errors import SetupMissing
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.locations import OwnerIndex, Ownership
from meltline.ports import (
    IndexedFile,
    IndexedSpan,
    UsageQuery,
    UsageTotals,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = UsageQuery(NOW, OwnerIndex([]), {}, [])


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    found = SqlCatalog("lake", uri=uri, warehouse=f"file://{tmp_path}/lake")
    found.create_namespace("meltline")
    return found


SMALL, NONE = 1 << 24, -1
"""Bytes of files that are read as the steps read them, and so many that PyIceberg reads all."""


def reader(
    folder: Path, small: int = SMALL, name: str = "lake", lake: str = "lake"
) -> IcebergLedgerReader:
    uri, place, store = (
        f"sqlite:///{folder}/catalog.db",
        f"file://{folder}/{lake}",
        ObjectStores({}),
    )
    config = CatalogConfig(name, "sql", uri, place, name, False, {})
    return IcebergLedgerReader(config, open_catalog(config, store), store, "meltline", small)


def path(name: str) -> str:
    return f"file:///lake/t/{name}"


def file(name: str) -> dict[str, object]:
    return {"path": path(name), "key_hash": key_hash(path(name)), "kind": "data", "bytes": 7}


def test_before_init_everything_is_empty(catalog: SqlCatalog, tmp_path: Path) -> None:
    assert catalog.list_tables("meltline") == []
    empty = reader(tmp_path)
    assert empty.weigh(NOTHING) == UsageTotals()
    assert not empty.registrations()
    assert not empty.snapshots() and not empty.side_files() and not empty.departures()
    assert list(empty.files()) == list(empty.spans()) == [] and empty.items("p-1") == {"p-1": []}


def test_a_ledger_of_which_a_table_is_gone_does_not_say_that_nothing_is_stored(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    number = NestedField(1, "manifest_id", LongType(), required=False)
    for name in ("manifests", "departures"):
        catalog.create_table(("meltline", name), Schema(number))
    with pytest.raises(SetupMissing, match="entries"):
        reader(tmp_path).weigh(NOTHING)


@pytest.fixture(params=[SMALL, NONE], ids=["as the steps", "by PyIceberg"])
def small(request: pytest.FixtureRequest) -> int:
    """Both ways must give the same."""
    size: int = request.param
    return size


def test_what_comes_due_is_read_with_the_departures_where_it_is_asked(
    catalog: SqlCatalog, tmp_path: Path, small: int
) -> None:
    made = {name: catalog.create_table(("meltline", name), TABLES[name]) for name in TABLES}
    when = {"departed_at": NOW, "recorded_at": NOW, "owner": "t", "state": "failsafe"}
    rows = [
        file(name) | when | {"due_at": NOW + timedelta(days=days), "written_ns": days}
        for days, name in ((3, "a"), (3, "b"), (30, "c"))
    ]
    made["departures"].append(pa.Table.from_pylist(rows, schema=TABLES["departures"]))
    asked = replace(NOTHING, due_by=NOW + timedelta(days=14))
    totals = reader(tmp_path, small).weigh(asked)
    assert totals.due == {("t", date(2026, 1, 4)): 14}
    assert totals.owned == {("t", Stage.FAILSAFE): 21}
    assert reader(tmp_path, small).weigh(NOTHING).due == {}


def test_rows_of_one_path_are_chosen_by_every_condition(
    catalog: SqlCatalog, tmp_path: Path, small: int
) -> None:
    made = {name: catalog.create_table(("meltline", name), TABLES[name]) for name in TABLES}
    when = dict.fromkeys(("departed_at", "due_at", "recorded_at"), NOW)
    rows: dict[str, list[dict[str, object]]] = {
        "entries": [
            file("a") | {"manifest_id": 1, "status": 0},
            file("a") | {"manifest_id": 2, "status": 2},
            file("b") | {"manifest_id": 3, "status": 1},
        ],
        "departures": [
            file("a") | when | {"state": "failsafe", "written_ns": 1},
            file("a") | when | {"state": "deleted", "written_ns": 2},
            file("b") | when | {"state": "failsafe", "written_ns": 3},
            file("m") | when | {"state": "failsafe", "written_ns": 4, "kind": "metadata"},
        ],
        "plan_items": [
            {"plan_id": plan, "path": path(name), "kind": "data", "bytes": 7, "owner": "u"}
            for plan, name in (("p-1", "b"), ("p-2", "c"), ("p-1", "a"), ("p-3", "d"))
        ],
    }
    for name, given in rows.items():
        made[name].append(pa.Table.from_pylist(given, schema=TABLES[name]))

    read = reader(tmp_path, small)
    assert list(read.files(path("a"))) == [IndexedFile(1, path("a"), "data", 7)]
    assert [file.manifest_id for file in read.files()] == [1, 3]
    both = [file.path for file in read.files(path("a"), path("b"), path("c"))]
    assert sorted(both) == [path("a"), path("b")]

    def departed(*asked: Any) -> dict[str, str]:
        return {d.path: str(d.state) for d in read.departures(*asked)}

    assert departed() == {path("a"): "deleted", path("b"): "failsafe", path("m"): "failsafe"}
    assert departed({FileKind.METADATA}, path("a")) == {path("a"): "deleted", path("m"): "failsafe"}
    assert departed({FileKind.METADATA}) == {path("m"): "failsafe"}
    assert departed((), path("a"), path("b")) == {path("a"): "deleted", path("b"): "failsafe"}
    assert departed(frozenset(), path("b")) == {path("b"): "failsafe"} and departed(()) == {}
    assert not read.snapshots() and list(read.spans(path("a"))) == []

    items = read.items("p-1", "p-2", "p-none")
    of_plans = {plan: [file.path for file in files] for plan, files in items.items()}
    assert of_plans == {"p-1": [path("a"), path("b")], "p-2": [path("c")], "p-none": []}


# --- what Spark wrote ----------------------------------------------------------------------------


@dataclass
class Book:
    """A ledger's tables on Spark, and what reads them."""

    tables: Any
    folder: Path
    name: str
    small: int

    @property
    def reader(self) -> IcebergLedgerReader:
        return reader(self.folder, self.small, self.name, "warehouse")

    @property
    def spark(self) -> Any:
        return self.tables.spark

    @property
    def space(self) -> str:
        return f"{self.name}.meltline"

    def snapshot(self, number: int, **known: object) -> dict[str, object]:
        """A row of `snapshots` as this release writes it."""
        row = {"table_uuid": "t", "snapshot_id": number * 10, "committed_at": NOW,
               "manifest_list": path(f"list{number}"), "manifest_list_bytes": number,
               "manifests": [key_hash(path("m"))], "sequence_number": number,
               "by_changes": False}  # fmt: skip
        return row | known

    def append(self, table: str, *rows: dict[str, object]) -> None:
        self.tables.append(table, rows, f"{table} {key_hash(str(rows))}")


def change(name: str, snapshot: int, since: int, until: int | None = None) -> dict[str, object]:
    return {"table_uuid": "t", "snapshot_id": snapshot, "manifest_id": 1, "path": path(name),
            "key_hash": key_hash(path(name)), "kind": "data", "bytes": 1 << "abcdef".index(name),
            "since": since, "until": until}  # fmt: skip


def book_in(root: Path, name: str, small: int = SMALL) -> Book:
    from meltline.adapters.index_tables.tables_io import LedgerTables
    from tests.spark.setups.warehouse import Warehouse

    warehouse = Warehouse.empty(root, name)
    tables = LedgerTables(warehouse.spark, ObjectStores({}), name, "meltline")
    tables.prepare()
    return Book(tables, root, name, small)


@pytest.fixture
def book(written: Book, small: int) -> Book:
    return replace(written, small=small)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Book:
    """Three snapshots by changes, of which one departed later; one that was read wholly."""
    made = book_in(tmp_path_factory.mktemp("book"), "book")
    lines = [{"sequence_number": n, "by_changes": True} for n in (1, 2, 3)]
    made.append("snapshots", made.snapshot(2), made.snapshot(4, sequence_number=4))
    made.append("snapshots", *(made.snapshot(n, **one) for n, one in enumerate(lines, 1)))
    made.append("changes", change("a", 10, 1), change("b", 10, 1))
    made.append("changes", change("c", 20, 2), change("a", 20, 1, until=2), change("c", 20, 2))
    made.append("changes", change("b", 30, 1, until=3), change("a", 30, 3))
    made.append("changes", change("d", 50, 2), change("c", 50, 2, until=3))  # of no snapshot
    return made


SPANS = {("a", 1, 2), ("a", 3, None), ("b", 1, 3), ("c", 2, None)}


def span(name: str, since: int, until: int | None) -> IndexedSpan:
    return IndexedSpan("t", path(name), "data", 1 << "abcdef".index(name), since, until)


@pytest.mark.spark
def test_a_snapshot_says_how_its_files_are_known_and_by_changes_wins(book: Book) -> None:
    found = {s.key.snapshot_id: (s.sequence_number, s.by_changes) for s in book.reader.snapshots()}
    assert book.reader.registrations() == {s.key.table_uuid for s in book.reader.snapshots()}
    assert found == {10: (1, True), 20: (2, True), 30: (3, True), 40: (4, False)}


@pytest.mark.spark
def test_spans_are_each_there_once_and_only_recorded_snapshots_tell_of_them(book: Book) -> None:
    found = list(book.reader.spans())
    assert sorted(found, key=repr) == sorted((span(*one) for one in SPANS), key=repr)


@pytest.mark.spark
def test_the_spans_of_one_path_are_found_by_any_spelling(book: Book) -> None:
    found = list(book.reader.spans("file:/lake/t/a"))
    assert sorted(found, key=repr) == [span("a", 1, 2), span("a", 3, None)]
    assert list(book.reader.spans(path("d"))) == list(book.reader.spans(path("e"))) == []


@pytest.mark.spark
def test_what_lines_refer_to_is_weighed(book: Book) -> None:
    def use(stage: Stage) -> FileReference:
        return FileReference("t", stage, None, True)

    owners = OwnerIndex([Ownership("file:///lake/t/", "t")])
    # Snapshot 1 has departed: what only it had weighs nothing.
    lines = {"t": [(2, use(Stage.HISTORICAL)), (3, use(Stage.ACTIVE))]}
    asked = [path(name) for name in "abcdef"]
    found = book.reader.weigh(UsageQuery(NOW, owners, {}, [], asked, lines))
    assert found.owned == {("t", Stage.ACTIVE): 1 + 4, ("t", Stage.HISTORICAL): 2}
    assert found.known_paths == {path("a"), path("b"), path("c")}
    assert book.reader.weigh(UsageQuery(NOW, owners, {}, [], asked)).owned == {}


@pytest.mark.spark
def test_a_ledger_whose_changes_are_gone_says_so(tmp_path: Path, small: int) -> None:
    cut = book_in(tmp_path, f"cut{small > 0}", small)
    cut.append("snapshots", cut.snapshot(1, sequence_number=1, by_changes=True))
    cut.spark.sql(f"DROP TABLE {cut.space}.changes")
    uses = {"t": [(1, FileReference("t", Stage.ACTIVE))]}
    with pytest.raises(SetupMissing, match="changes"):
        cut.reader.weigh(UsageQuery(NOW, OwnerIndex([]), {}, [], (), uses))
    with pytest.raises(SetupMissing, match="changes"):
        list(cut.reader.spans())
