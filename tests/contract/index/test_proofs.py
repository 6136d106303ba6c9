"""One suite for every proof reader, and what the one on Spark keeps between two gates."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.stores import ObjectStores
from meltline.adapters.proofs.proof_cache import ProofTable
from meltline.adapters.proofs.proof_reader import SparkProofReader
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.ports import ProofReader, ProofResult, ProofSnapshot
from tests.contract.index.collisions import colliding
from tests.doubles.proofs import MemoryProofReader
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes
from tests.spark.setups.warehouse import Warehouse

pytestmark = pytest.mark.spark

EXISTING, ADDED, DELETED = EntryStatus
TODAY = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MONTH = 30 * DAY


@dataclass
class Watched(ObjectStores):
    """A store that tells what was read from it."""

    seen: list[str] = field(default_factory=list)

    def __init__(self) -> None:
        super().__init__({})
        self.seen = []

    def __reduce__(self) -> tuple[type[ObjectStores], tuple[dict[str, str]]]:
        return ObjectStores, ({},)  # for executors

    def read(self, path: str) -> bytes:
        self.seen.append(path)
        return super().read(path)


@dataclass
class Clock:
    """Shows what it is set to."""

    time: datetime = TODAY

    def now(self) -> datetime:
        return self.time


@dataclass
class Lake:
    """Snapshots of one table, and a reader that has read none of them."""

    root: str
    store: Watched
    ledger: LedgerTables
    opened: Callable[["Lake"], ProofReader]
    clock: Clock = field(default_factory=Clock)
    snapshots: list[ProofSnapshot] = field(default_factory=list)
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def manifest(self, name: str, *files: str, status: EntryStatus = ADDED) -> None:
        """Writes a manifest of files of 7 bytes; a second time, in place of the first."""
        entries = [Entry(self.path(f), 7, FileKind.DATA, status, 1, 1) for f in files]
        content = manifest_bytes(2, entries)
        self.store.write(self.path(name), content)
        self.manifests[name] = Manifest(self.path(name), len(content), 1, 1, tuple(entries))

    def snapshot(self, *manifests: str) -> None:
        number = len(self.snapshots) + 1
        path = self.path(f"list{number}")
        self.store.write(path, list_bytes(2, [self.manifests[name] for name in manifests]))
        self.snapshots.append(ProofSnapshot("t", number, path))

    def prove(self, *wanted: str, since: datetime | None = TODAY - MONTH) -> ProofResult:
        """What a gate does, in a process of its own."""
        self.store.seen.clear()
        return self.opened(self).prove(self.snapshots, [self.path(one) for one in wanted], since)

    def hits(self, *wanted: str, since: datetime | None = TODAY - MONTH) -> dict[str, set[str]]:
        found = self.prove(*wanted, since=since)
        assert not found.errors
        return {
            path.rpartition("/")[2]: {hit.removeprefix(f"{self.root}/") for hit in hits}
            for path, hits in found.hits.items()
        }

    @property
    def read(self) -> set[str]:
        """What the last gate read of this table; reads of Spark's tasks are not seen here."""
        here = f"{self.root}/"
        return {path.removeprefix(here) for path in self.store.seen if path.startswith(here)}

    def proofs(self) -> str:
        return f"{self.ledger.namespace}.proofs"


def on_spark(lake: Lake) -> SparkProofReader:
    spark = lake.ledger.spark
    tables = LedgerTables(spark, lake.store, "proofs", "meltline")
    book = ProofTable(tables, lake.clock)
    return SparkProofReader(spark, lake.store, book)


def on_executors(lake: Lake) -> SparkProofReader:
    """As where there is far more than this process could hold."""
    reader = on_spark(lake)
    reader.job_start, reader.entries_here, reader._book.local_bytes = -math.inf, 0, 0
    return reader


def in_memory(lake: Lake) -> MemoryProofReader:
    return MemoryProofReader(lake.store)


READERS = [in_memory, on_spark, on_executors]
REMEMBERING = [on_spark, on_executors]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> LedgerTables:
    warehouse = Warehouse.empty(tmp_path_factory.mktemp("proofs"), "proofs")
    made = LedgerTables(warehouse.spark, ObjectStores({}), "proofs", "meltline")
    made.prepare()
    return made


@pytest.fixture
def lake(ledger: LedgerTables, tmp_path: Path) -> Lake:
    """Two snapshots: of the manifests `old`, and of `old` and `new`."""
    ledger.spark.sql(f"DELETE FROM {ledger.namespace}.proofs")
    made = Lake(f"file://{tmp_path}/t", Watched(), ledger, on_spark)
    made.manifest("old", "a", "b", status=EXISTING)
    made.manifest("new", "c")
    made.snapshot("old")
    made.snapshot("old", "new")
    return made


@pytest.fixture(params=READERS, ids=lambda opened: opened.__name__)
def any_lake(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    lake.opened = request.param
    return lake


@pytest.fixture(params=REMEMBERING, ids=lambda opened: opened.__name__)
def remembering(request: pytest.FixtureRequest, lake: Lake) -> Lake:
    lake.opened = request.param
    return lake


# --- every reader --------------------------------------------------------------------------------


def test_what_a_manifest_keeps_alive_is_found_the_first_time_and_the_second(any_lake: Lake) -> None:
    for _ in range(2):
        assert any_lake.hits("a", "c", "elsewhere") == {"old": {"a"}, "new": {"c"}}
        assert any_lake.hits("elsewhere") == {}


def test_files_and_bytes_and_lengths_are_told_of_each_manifest(any_lake: Lake) -> None:
    for _ in range(2):
        found = any_lake.prove("a")
        old, new = any_lake.path("old"), any_lake.path("new")
        assert (found.live_files, found.live_bytes) == ({old: 2, new: 1}, {old: 14, new: 7})
        assert [*found.manifests.values()] == [(old,), (old, new)]
        sizes = {name: any_lake.store.size(any_lake.path(name)) for name in ("old", "list1")}
        assert {name: found.sizes[any_lake.path(name)] for name in sizes} == sizes


def test_removed_files_are_no_hits(any_lake: Lake) -> None:
    any_lake.manifest("gone", "x", status=DELETED)
    any_lake.snapshot("gone")
    for _ in range(2):
        assert any_lake.hits("x", "c") == {"new": {"c"}}


def test_a_file_is_found_in_the_plans_spelling(any_lake: Lake) -> None:
    for _ in range(2):
        assert any_lake.hits("./a") == {"old": {"./a"}}


def test_an_unreadable_manifest_is_an_error_of_its_table_until_it_is_mended(
    any_lake: Lake,
) -> None:
    good = any_lake.store.read(any_lake.path("new"))
    any_lake.store.write(any_lake.path("new"), b"?" * len(good))
    for _ in range(2):
        assert "new" in any_lake.prove("a").errors["t"][0]
    any_lake.store.write(any_lake.path("new"), good)
    assert any_lake.hits("c") == {"new": {"c"}}


# --- those that remember -------------------------------------------------------------------------


def test_a_second_gate_opens_no_manifest_and_no_list_again(remembering: Lake) -> None:
    assert remembering.prove("a").read == 2
    assert remembering.prove("a").read == 0
    assert remembering.read == set()
    remembering.manifest("newest", "d")
    remembering.snapshot("old", "new", "newest")
    assert remembering.hits("a", "d") == {"old": {"a"}, "newest": {"d"}}
    assert remembering.read <= {"list3", "newest"}


def test_a_planned_file_is_found_though_the_index_knows_nothing(remembering: Lake) -> None:
    """The gate stands on its own: `entries` and `changes` are empty here from the beginning."""
    for table in ("entries", "changes", "manifests", "snapshots"):
        assert remembering.ledger.read(table).isEmpty()
    remembering.prove()
    assert remembering.hits("b") == {"old": {"b"}}
    assert remembering.read == set()


DAMAGE = {
    "gone": "CAST(NULL AS BINARY)",
    "another": "unhex(reverse(hex(hashes)))",
    "shorter": "substr(hashes, 1, octet_length(hashes) - 8)",
    "cut": "substr(hashes, 1, octet_length(hashes) - 3)",
    "empty": "CAST('' AS BINARY)",
    "longer": "CAST(concat(hashes, unhex('0000000000000000')) AS BINARY)",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_where_the_hashes_are_damaged_the_file_is_read_again(
    remembering: Lake, damage: str
) -> None:
    remembering.prove()
    where = f"key_hash = {key_hash(remembering.path('old'))}"
    sql = f"UPDATE {remembering.proofs()} SET hashes = {DAMAGE[damage]} WHERE {where}"
    remembering.ledger.spark.sql(sql)
    found = remembering.prove("a", "c")
    assert found.read == 1
    assert found.hits.keys() == {remembering.path("old"), remembering.path("new")}
    assert remembering.prove("a").read == 0  # what was read again is kept again


def test_a_list_that_names_a_damaged_proof_is_read_again_and_counts_its_entries(
    lake: Lake,
) -> None:
    lake.prove()
    lake.ledger.spark.sql(f"UPDATE {lake.proofs()} SET hashes = NULL WHERE kind = 'manifest'")
    lake.manifest("old", "a", status=EXISTING)  # shorter, and its list says two entries
    assert "old" in lake.prove("c").errors["t"][0]
    assert lake.read == {"list1", "list2", "old", "new"}


def test_a_manifest_of_another_length_than_its_list_says_is_read(remembering: Lake) -> None:
    remembering.prove()
    old = remembering.manifests["old"]
    remembering.manifests["old"] = replace(old, length=old.length + 1)
    remembering.snapshot("old")
    assert remembering.prove("a").errors["t"]


def test_a_full_proof_finds_a_manifest_replaced_by_one_of_the_same_length(
    remembering: Lake,
) -> None:
    remembering.prove()
    before = remembering.manifests["old"].length
    remembering.manifest("old", "a", "z", status=EXISTING)
    assert remembering.manifests["old"].length == before
    assert remembering.hits("z") == {}  # until then what was read of it before is believed
    assert remembering.hits("z", since=None) == {"old": {"z"}}
    # Two readings of a file that never changes disagree: from now on it is read each time.
    assert remembering.hits("z", "b") == {"old": {"z"}}
    assert remembering.prove("z").read == 1


def test_what_was_read_too_long_ago_is_read_again(remembering: Lake) -> None:
    remembering.prove()
    assert remembering.prove(since=TODAY).read == 0
    assert remembering.prove(since=TODAY + timedelta(seconds=1)).read == 2


def test_a_session_opens_the_hashes_once(lake: Lake) -> None:
    lake.prove()
    reader = on_spark(lake)
    wanted = [lake.path("a")]
    for _ in range(2):
        found = reader.prove(lake.snapshots, wanted, TODAY - MONTH)
        assert (found.read, [*found.hits]) == (0, [lake.path("old")])
    (kept,) = reader._book._opened
    assert kept.num_rows == 2
    lake.ledger.spark.sql(f"DELETE FROM {lake.proofs()}")
    # What no proof of the ledger stands for is not believed either.
    assert reader.prove(lake.snapshots, wanted, TODAY - MONTH).read == 2


def test_old_proofs_are_deleted_once_they_are_half_of_all(lake: Lake) -> None:
    def left() -> int:
        return lake.ledger.read("proofs").count()

    def prove_on(day: int, *manifests: str) -> ProofReader:
        lake.clock.time = TODAY + day * DAY
        for name in manifests:
            lake.manifest(name, f"file of {name}")
        lake.snapshot(*manifests)
        reader = lake.opened(lake)
        reader.prove(lake.snapshots[-1:], [], TODAY - MONTH)
        return reader

    assert lake.opened(lake).forget(TODAY) == ""
    prove_on(0, "m1", "m2")
    reader = prove_on(9, "m3", "m4", "m5", "m6")
    assert (reader.forget(TODAY), left()) == ("", 8)
    assert (reader.forget(TODAY + DAY), left()) == ("", 8)
    assert "8" in reader.forget(TODAY + 10 * DAY)
    assert left() == 0
    prove_on(10, "m1", "m2")
    reader = prove_on(20, "m3")
    assert "3" in reader.forget(TODAY + 15 * DAY)
    assert left() == 2
    assert lake.prove("file of m3").read == len({"old", "new", "m1", "m2", "m4", "m5", "m6"})


# --- paths with one hash -------------------------------------------------------------------------


def in_folder(lake: Lake, paths: tuple[str, str]) -> tuple[str, str]:
    one, other = (path.removeprefix(f"{lake.root}/") for path in paths)
    return one, other


def test_a_manifest_whose_paths_hash_another_one_has_is_read_for_itself(remembering: Lake) -> None:
    first, second = in_folder(remembering, colliding(remembering.root, "-m0.avro"))
    remembering.manifest(first, "x")
    remembering.snapshot(first)
    remembering.prove("x")
    remembering.manifest(second, "y")  # as long as the first
    remembering.snapshot(second)
    for _ in range(2):
        assert remembering.hits("x", "y") == {first: {"x"}, second: {"y"}}


def test_a_list_whose_paths_hash_another_one_has_is_read_for_itself(remembering: Lake) -> None:
    lists = colliding(remembering.root, "-snap.avro")
    for path, name in zip(lists, ("old", "new"), strict=True):
        remembering.store.write(path, list_bytes(2, [remembering.manifests[name]]))
    remembering.snapshots[:] = [ProofSnapshot("t", 1, lists[0])]
    remembering.prove("a")
    remembering.snapshots[:] = [ProofSnapshot("t", 2, lists[1])]
    assert remembering.hits("a", "c") == {"new": {"c"}}
