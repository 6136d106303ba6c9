"""The three ways of reading manifests give the same rows and the same outcomes (decision 002)."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.file_index.file_index import spark_file_ledger
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.ingest.bulk_rows import is_large
from meltline.adapters.ingest.ingest import ReadingLimits
from meltline.adapters.ingest.ingest_job import ReadRequest
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile, ManifestOutcome
from meltline.ports import FileLedger, IngestRequest
from tests.lake.avro_files import Entry, manifest_bytes
from tests.spark.setups.warehouse import Warehouse

pytestmark = pytest.mark.spark

ENTRIES = 60  # of each manifest that is not small
WAYS = {
    "here": ReadingLimits(),
    "on executors": ReadingLimits(here_manifests=0),
    "by Spark's own reader": ReadingLimits(here_manifests=0, bulk_entries=0, bulk_manifest=ENTRIES),
    "by Spark's own reader, written by Spark": ReadingLimits(
        here_manifests=0, bulk_entries=0, bulk_manifest=ENTRIES, written_here=0
    ),
}
ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED


@dataclass(frozen=True)
class Library:
    """Manifests of one table, and a ledger that has read nothing yet."""

    ledger: FileLedger
    tables: LedgerTables
    store: ObjectStores
    home: str

    def entries(self, prefix: str, *odd: str) -> list[Entry]:
        statuses, kinds = (ADDED, EXISTING, DELETED), (FileKind.DATA, FileKind.POSITION_DELETE)
        plain = [
            Entry(
                f"{self.home}data/{prefix}{n}.parquet", n, kinds[n % 2], statuses[n % 3], n, n
            )
            for n in range(ENTRIES)
        ]  # fmt: skip
        return plain + [Entry(path, 1, FileKind.DATA, ADDED, 7, 7) for path in odd]

    def write(self, name: str, entries: Sequence[Entry], version: int = 2) -> ManifestFile:
        path, content = f"{self.home}metadata/{name}.avro", manifest_bytes(version, entries)
        self.store.write(path, content)
        found = Counter(entry.status for entry in entries)
        counts = (found[ADDED], found[EXISTING], found[DELETED])
        return ManifestFile(path, len(content), *counts, added_snapshot_id=3, sequence_number=9)

    def read(self, *manifests: ManifestFile) -> dict[str, ManifestOutcome]:
        request = IngestRequest("t", manifests, homes=(self.home,))
        outcomes = self.ledger.manifests.ingest([request], [])
        return {outcome.path.rpartition("/")[2]: outcome for outcome in outcomes}

    def rows(self) -> set[tuple[object, ...]]:
        found = self.tables.read("entries").where("key_hash IS NOT NULL").collect()
        return {tuple(row) for row in found}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Library]:
    root = tmp_path_factory.mktemp("ways")
    made: dict[str, Library] = {}

    def library(way: str) -> Library:
        if way not in made:
            made[way] = _library(root / str(len(made)), f"way{len(made)}", WAYS[way], root)
        return made[way]

    return library


def _library(root: Path, catalog: str, limits: ReadingLimits, shared: Path) -> Library:
    warehouse, store = Warehouse.empty(root, catalog), ObjectStores({})
    tables = LedgerTables(warehouse.spark, store, catalog, "meltline")
    tables.prepare()
    return Library(
        spark_file_ledger(tables, store, limits), tables, store, f"file://{shared}/lake/t/"
    )


def read_all(library: Library) -> dict[str, ManifestOutcome]:
    """Manifests of each format, one with paths that have other spellings, one with foreign ones."""
    home = library.home
    odd = (f"{home}data//twice.parquet", f"{home}data/a%20b.parquet", f"{home}data/./c.parquet")
    return library.read(
        library.write("v1", library.entries("one"), version=1),
        library.write("v2", library.entries("two")),
        library.write("v3", library.entries("three"), version=3),
        library.write("odd", library.entries("odd", *odd)),
        library.write("foreign", library.entries("foreign", "s3://elsewhere/x.parquet")),
        library.write("small", library.entries("small")[:3]),
    )


@pytest.mark.parametrize("way", [way for way in WAYS if way != "here"])
def test_every_way_gives_the_same_rows(libraries: Callable[[str], Library], way: str) -> None:
    expected, other = libraries("here"), libraries(way)
    assert len(read_all(expected)) == 6
    outcomes = read_all(other)
    assert not [outcome.error for outcome in outcomes.values() if outcome.error]
    assert len(expected.rows()) == 5 * ENTRIES + 4 + 3
    assert other.rows() == expected.rows()


def test_every_way_tells_where_files_lie_and_which_are_links(
    libraries: Callable[[str], Library],
) -> None:
    """What is not noted is not looked for when another name of such a file is deleted."""
    told = {way: places(libraries(way)) for way in WAYS}
    home = libraries("here").home
    assert told["here"] == {f"{home}data/", f"{home}data/linked/", f"{home}data/placed3.parquet"}
    assert told == dict.fromkeys(WAYS, told["here"])


def places(library: Library) -> set[str]:
    """Where the files of a manifest lie: one is a link, one that was removed lies elsewhere."""
    data = Path(library.home.removeprefix("file://"), "data")
    (data / "linked").mkdir(parents=True, exist_ok=True)
    link = data / "placed3.parquet"
    if not link.is_symlink():
        link.symlink_to(data / "linked" / "other.parquet")
    entries = library.entries("placed", f"{library.home}data/linked/x.parquet")
    gone = Entry(f"{library.home}data/gone/y.parquet", 1, FileKind.DATA, DELETED, 7, 7)
    outcomes = library.read(library.write("placed", [*entries, gone]))
    return {place for outcome in outcomes.values() for place in outcome.places}


def test_spark_s_own_reader_takes_what_is_plain_and_leaves_the_rest(
    libraries: Callable[[str], Library],
) -> None:
    library = libraries("by Spark's own reader")
    plain = ReadRequest("t", library.write("plain", library.entries("p")))
    homes = {"t": (library.home,)}
    assert is_large(plain, homes, ENTRIES)
    assert not is_large(plain, homes, ENTRIES + 1)
    assert not is_large(plain, {}, ENTRIES)
    manifests: Any = library.ledger.manifests
    assert manifests._ingest_bulk([plain], homes, "m").keys() == {plain.manifest.path}


@pytest.mark.parametrize("way", WAYS)
def test_one_broken_manifest_costs_the_others_nothing(
    libraries: Callable[[str], Library], way: str
) -> None:
    library = libraries(way)
    good = library.write("good", library.entries("good"))
    noise = library.write("noise", library.entries("noise"))
    library.store.write(noise.path, os.urandom(noise.bytes))
    lying = library.write("lying", library.entries("lying"))
    lying = replace(lying, added_files=(lying.added_files or 0) + 1)
    missing = replace(good, path=f"{library.home}metadata/missing.avro")
    outcomes = library.read(good, noise, lying, missing)
    assert {name for name, of in outcomes.items() if not of.error} == {"good.avro", "lying.avro"}
    assert "missing" in outcomes["missing.avro"].error
    counted = library.ledger.manifests.counted([m.path for m in (good, noise, lying, missing)])
    assert counted.keys() == {good.path, lying.path}
    assert lying.contradiction(counted[lying.path]) and not good.contradiction(counted[good.path])
