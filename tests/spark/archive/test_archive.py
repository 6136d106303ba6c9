"""What is in cold is read by stock Spark, and by PyIceberg, with the hot warehouse gone."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from meltline.adapters.archive.archive import ColdArchive
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import FileDone
from meltline.adapters.archive.rewriting.manifests import Need, NeededFile
from meltline.adapters.archive.spark_archive import SparkCrew, SparkHands
from meltline.adapters.archive.workers import LocalHands
from meltline.adapters.catalogs.sql_catalog import SqlTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import load_config
from meltline.domain.archive.archive import Validity
from meltline.domain.clock import WallClock
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.ports import ChosenSnapshot, ControlLedger, HandedOver, HandoffRequest
from tests.doubles.control.ledger import memory_control_ledger
from tests.spark.setups import merge_on_read
from tests.spark.setups.walk import disk, local
from tests.spark.setups.warehouse import SPACE, Warehouse

pytestmark = pytest.mark.spark

MOST = 1_000_000
HISTORIES = {2: "old", 3: "new"}  # tables, by format


@dataclass(frozen=True)
class Tiers:
    """A hot warehouse and a cold one, and what hands over from one to the other."""

    hot: Warehouse
    cold: Warehouse
    ledger: ControlLedger = field(default_factory=lambda: memory_control_ledger(WallClock()))

    def __post_init__(self) -> None:
        self.ledger.database.prepare()

    def archive(self, few: int = 0) -> ColdArchive:
        """Executors do the work where there is more of it than `few` entries."""
        store = ObjectStores({})
        config = load_config(self.cold.yaml, {}, self.cold.root)
        catalog = SqlTables(config.catalogs[self.cold.catalog], store)
        crew = partial(SparkCrew, self.hot.spark, few=few)
        stores = Stores(store, store, f"file://{self.cold.folder}")
        return ColdArchive(stores, catalog, crew, self.ledger.copies, WallClock())

    def request(self, table: str, snapshots: Sequence[int]) -> HandoffRequest:
        """The snapshots asked for, else all but the head; each valid until the next one came."""
        name = TableName(self.hot.catalog, (SPACE,), table)
        state = parse_table(name, self.hot.location(table), 1, self.hot.document(table))
        ends = {entry.snapshot_id: after.at for entry, after in pairwise(state.snapshot_log)}
        chosen = (
            ChosenSnapshot(one, Validity(one.committed_at, ends.get(one.snapshot_id)))
            for id in snapshots or self.hot.snapshots(table)[:-1]
            for one in [state.snapshots[id]]
        )
        return HandoffRequest(state, replace(name, catalog=self.cold.catalog), tuple(chosen))

    def hand_off(self, table: str, *snapshots: int, few: int = MOST) -> list[HandedOver]:
        """Outcomes in the order of the commits."""
        request = self.request(table, snapshots)
        order = [chosen.snapshot.snapshot_id for chosen in request.snapshots]
        done = [one for _, one in self.archive(few).hand_off([request], lambda: True)]
        return sorted(done, key=lambda one: order.index(one.snapshot_id))

    @contextmanager
    def without_hot(self) -> Iterator[None]:
        """The hot warehouse is not there, for a while."""
        gone = self.hot.folder.rename(self.hot.folder.with_name("gone"))
        try:
            yield
        finally:
            gone.rename(self.hot.folder)

    def cold_contents(self, table: str) -> dict[int, list[str]]:
        """The rows of each cold snapshot, read with hot away."""
        with self.without_hot():
            return self.cold.contents(table)

    def count(self, table: str, version: str) -> int:
        """Rows of a cold table, as stock Spark sees them."""
        return int(self.cold.sql(f"SELECT count(*) FROM {{{table}}} {version}")[0][0])


@dataclass(frozen=True)
class Past:
    """Tables of all kinds of deletes, and the rows of each of their snapshots."""

    lake: Warehouse
    rows: dict[str, dict[int, list[str]]]

    def before(self, table: str, *snapshots: int) -> dict[int, list[str]]:
        """The rows of some snapshots, else of all but the head."""
        wanted = snapshots or list(self.rows[table])[:-1]
        return {one: self.rows[table][one] for one in wanted}


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    lake = Warehouse.empty(tmp_path_factory.mktemp("archive"), "archive_hot")
    for version, table in HISTORIES.items():
        merge_on_read.history(lake, table, version)
    return Past(lake, {table: lake.contents(table) for table in HISTORIES.values()})


@pytest.fixture
def tiers(past: Past, tmp_path: Path) -> Tiers:
    return Tiers(past.lake, Warehouse.empty(tmp_path, f"archive_cold_{next(COLD)}"))


COLD = count()
each_table = pytest.mark.parametrize("table", HISTORIES.values())


def errors(done: Sequence[HandedOver]) -> list[str]:
    return [one.error for one in done if one.error]


@each_table
@pytest.mark.parametrize("few", [0, MOST], ids=["on executors", "in this process"])
def test_with_hot_gone_every_cold_snapshot_returns_the_same_rows(
    past: Past, tiers: Tiers, table: str, few: int
) -> None:
    tagged = {tag: tiers.hot.heads()[table][tag] for tag in ("early", "late")}
    done = tiers.hand_off(table, few=few)
    assert errors(done) == []
    assert [one.snapshot_id for one in done] == tiers.hot.snapshots(table)[:-1]
    before = past.before(table)
    with tiers.without_hot():
        assert tiers.cold.contents(table) == before
        for tag, snapshot in tagged.items():
            assert tiers.count(table, f"VERSION AS OF '{tag}'") == len(before[snapshot])
        assert tiers.count(table, "") == len(list(before.values())[-1])


def test_rows_of_format_3_keep_their_ids_and_when_they_were_changed(tiers: Tiers) -> None:
    snapshot = tiers.hot.snapshots("new")[-2]
    query = (
        "SELECT id, _row_id, _last_updated_sequence_number FROM {new}"
        f" VERSION AS OF {snapshot} ORDER BY id"
    )
    assert errors(tiers.hand_off("new", snapshot)) == []
    expected = tiers.hot.sql(query)
    assert len({row["_row_id"] for row in expected}) == len(expected) > 100
    with tiers.without_hot():
        assert tiers.cold.sql(query) == expected


@each_table
def test_nothing_in_cold_names_a_place_in_hot(tiers: Tiers, table: str) -> None:
    # AR-32
    assert errors(tiers.hand_off(table)) == []
    hot = f"{tiers.hot.folder}/"
    named = list(named_paths(tiers.cold))
    assert sum(hot in path for path in named) > 50  # mirrored: the old path is part of the new one
    assert {path for path in named if local(path).startswith(hot)} == set()


def named_paths(cold: Warehouse) -> Iterator[str]:
    """Every text in cold's metadata, manifests, position deletes and Puffin footers, decoded."""
    for path in map(Path, disk(cold.folder)):
        if path.suffix == ".avro":
            with path.open("rb") as file:
                yield from texts(list(fastavro.reader(file)))
        elif path.suffix == ".json":
            yield from texts(json.loads(path.read_text()))
        elif path.suffix == ".puffin":
            yield from path.read_bytes().decode(errors="replace").split('"')
        elif path.name.endswith("-deletes.parquet"):
            deletes = pq.read_table(path)
            yield from texts(deletes.select(deletes.column_names[:1]).to_pylist())


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, dict | list):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from texts(inner)


@each_table
def test_a_second_handoff_finds_everything_and_copies_nothing(tiers: Tiers, table: str) -> None:
    first = tiers.hand_off(table)
    before = data_of(tiers.cold)
    second = tiers.hand_off(table)
    assert sum(one.files_copied for one in first) == len(before)
    assert [replace(one, cold_location="") for one in second] == [
        replace(one, files_copied=0, bytes_copied=0, cold_location="") for one in first
    ]
    assert data_of(tiers.cold) == before


def data_of(cold: Warehouse) -> dict[str, tuple[int, int]]:
    """Length and time of every file in cold but metadata files."""
    return {
        path: (size, Path(path).stat().st_mtime_ns)
        for path, size in disk(cold.folder).items()
        if not path.endswith(".json")
    }


def test_files_that_snapshots_share_are_copied_once(tiers: Tiers) -> None:
    first, second = tiers.hot.snapshots("new")[:2]
    (one,) = tiers.hand_off("new", first)
    (other,) = tiers.hand_off("new", second)
    assert one.files_copied == one.files == 4  # two data files, their manifest, the list
    assert other.files == 7
    assert other.files_copied == 4


def test_executors_ask_for_no_file_that_replaced_manifests_name(tiers: Tiers) -> None:
    merging = ("commit.manifest.min-count-to-merge=2", "commit.manifest-merge.enabled=true")
    merge_on_read.create(tiers.hot, "merging", 2, *merging)
    for start in (0, 10, 20):
        merge_on_read.insert(tiers.hot, "merging", start, start + 10)
    *old, last = tiers.hot.snapshots("merging")
    tiers.hand_off("merging", *old)
    lost = next(path for path in disk(tiers.cold.folder) if path.endswith(".parquet"))
    Path(lost).unlink()  # that it is gone cannot be known without asking
    (done,) = tiers.hand_off("merging", last, few=0)
    assert done.error == ""
    assert done.files_copied == 4  # two data files, the merged manifest, the list
    assert not Path(lost).exists()


def test_what_executors_have_listed_is_never_listed_anew(
    tiers: Tiers,
) -> None:
    """What an executor has read may be lost with it, and be read anew: here by a cleared cache."""
    merge_on_read.create(tiers.hot, "twice", 2)
    merge_on_read.insert(tiers.hot, "twice", 0, 10)
    merge_on_read.insert(tiers.hot, "twice", 10, 20)
    folder = tiers.hot.folder / SPACE / "twice" / "metadata"
    (manifest,) = sorted(folder.glob("*-m0.avro"), key=lambda path: path.stat().st_mtime_ns)[:1]
    hidden = manifest.rename(manifest.with_suffix(".hidden"))

    asked = count()

    def come_back() -> bool:
        if next(asked) == 1:  # first before anything is read, then before files are brought
            tiers.hot.spark.catalog.clearCache()
            hidden.rename(manifest)
        return True

    request = tiers.request("twice", ())
    ((_, done),) = tiers.archive(few=0).hand_off([request], come_back)
    assert manifest.name in done.error and manifest.exists()
    assert not list(tiers.cold.folder.glob(f"{SPACE}/twice/**/*.parquet"))
    (again,) = tiers.hand_off("twice", few=0)
    assert not again.error and again.files_copied == again.files


def test_executors_bring_and_read_files_as_this_process_does(tiers: Tiers, tmp_path: Path) -> None:
    files = []
    for number in range(9):
        path = tmp_path / "hot" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x" * number)
        files.append(NeededFile(f"file:{path}", number + (number == 4), Need.COPY))
    files.append(NeededFile(f"file:{tmp_path}/hot/none.parquet", 1, Need.COPY))
    store = ObjectStores({})
    answers = []
    for few in (MOST, 0):
        stores = Stores(store, store, f"file://{tmp_path}/cold-{few}")
        hands = SparkHands(tiers.hot.spark, stores, LocalHands(stores), few)
        brought = list(hands.bring(files))
        damaged = Path(stores.target(files[7].path).removeprefix("file://"))
        damaged.write_bytes(b"y" * 7)
        again = list(hands.read_again(dict(zip(files, [b.proof for b in brought], strict=True))))
        answers.append([_gist(done, str(few)) for done in (*brought, *again)])
        assert damaged.read_bytes() == b"x" * 7
        assert [bool(done.error) for done in brought] == [n in (4, 9) for n in range(10)]
    assert answers[0] == answers[1]


def _gist(done: FileDone, cold: str) -> tuple[object, ...]:
    sha256 = done.proof.sha256 if done.proof else ""
    error = done.error.replace(f"cold-{cold}", "cold")
    return done.path, done.bytes, done.is_new, sha256, error


@each_table
def test_snapshots_may_come_in_any_order(past: Past, tiers: Tiers, table: str) -> None:
    ids = tiers.hot.snapshots(table)
    order = (ids[6], ids[1], ids[7], ids[3])
    counters = []
    for snapshot in order:
        assert errors(tiers.hand_off(table, snapshot)) == []
        document = tiers.cold.document(table)
        counters.append((document["last-sequence-number"], document.get("next-row-id", 0)))
        newest = max(document["snapshots"], key=lambda one: one["timestamp-ms"])
        assert document["current-snapshot-id"] == newest["snapshot-id"]
    assert counters == sorted(counters)
    assert raw_snapshots(tiers.cold, table, order) == raw_snapshots(tiers.hot, table, order)
    assert tiers.cold_contents(table) == past.before(table, *order)


def raw_snapshots(lake: Warehouse, table: str, only: Sequence[int]) -> dict[int, dict[str, Any]]:
    """What a table's metadata says of snapshots, their lists aside."""
    return {
        one["snapshot-id"]: {key: value for key, value in one.items() if key != "manifest-list"}
        for one in lake.document(table)["snapshots"]
        if one["snapshot-id"] in only
    }


def test_reading_by_time_is_right_or_refused(past: Past, tiers: Tiers) -> None:
    ids, log = tiers.hot.snapshots("old"), tiers.hot.document("old")["snapshot-log"]
    archived = (ids[1], ids[2], ids[5])
    assert errors(tiers.hand_off("old", *archived)) == []
    with tiers.without_hot():
        for entry in log:
            snapshot, at = entry["snapshot-id"], moment(entry["timestamp-ms"])
            if snapshot in archived:
                assert tiers.count("old", at) == len(past.rows["old"][snapshot])
            else:
                with pytest.raises(Exception, match=r"Cannot find (a )?snapshot"):
                    tiers.count("old", at)
        with pytest.raises(Exception, match="Cannot find snapshot"):
            tiers.count("old", moment(log[-1]["timestamp-ms"] + 86_400_000))


def moment(millis: int) -> str:
    at = datetime.fromtimestamp(millis / 1000, UTC)
    return f"TIMESTAMP AS OF '{at.isoformat(sep=' ')}'"


def test_pyiceberg_reads_what_it_can_of_cold(past: Past, tiers: Tiers) -> None:
    inserted, _, by_position = tiers.hot.snapshots("old")[:3]
    tiers.hand_off("old")
    with tiers.without_hot():
        cold = StaticTable.from_metadata(tiers.cold.location("old"))
        for snapshot in (inserted, by_position):
            rows = cold.scan(snapshot_id=snapshot).to_arrow().to_pylist()
            found = sorted(json.dumps(row, separators=(",", ":")) for row in rows)
            assert found == past.rows["old"][snapshot]


def test_a_partition_column_that_hot_dropped_does_not_lock_cold(tiers: Tiers) -> None:
    table = "narrowed"
    merge_on_read.create(tiers.hot, table, 2)
    merge_on_read.insert(tiers.hot, table, 0, 10)
    merge_on_read.insert(tiers.hot, table, 10, 20)
    first, second = tiers.hot.snapshots(table)
    before = tiers.hot.contents(table)
    assert errors(tiers.hand_off(table, first)) == []
    tiers.hot.sql(
        f"ALTER TABLE {{{table}}} DROP PARTITION FIELD odd",
        f"ALTER TABLE {{{table}}} DROP COLUMN odd",
        f"INSERT INTO {{{table}}} VALUES (1, 'one')",
    )
    assert errors(tiers.hand_off(table, second)) == []
    assert tiers.cold_contents(table) == before


@pytest.mark.parametrize(
    ("granularity", "file_format"), [("file", "parquet"), ("partition", "avro")]
)
def test_position_deletes_of_each_kind_hit_the_same_rows(
    tiers: Tiers, granularity: str, file_format: str
) -> None:
    table = f"by_{granularity}"
    merge_on_read.create(
        tiers.hot, table, 2, f"write.delete.granularity={granularity}",
        f"write.delete.format.default={file_format}",
    )  # fmt: skip
    for start in range(0, 60, 20):
        merge_on_read.insert(tiers.hot, table, start, start + 20)
    tiers.hot.sql(f"DELETE FROM {{{table}}} WHERE id % 7 = 0")
    assert errors(tiers.hand_off(table, *tiers.hot.snapshots(table))) == []
    found = tiers.cold_contents(table)
    assert found == tiers.hot.contents(table)
    assert len(list(found.values())[-1]) == 51


def test_position_deletes_in_orc_keep_their_snapshots_hot(tiers: Tiers) -> None:
    merge_on_read.create(tiers.hot, "orc", 2, "write.delete.format.default=orc")
    merge_on_read.insert(tiers.hot, "orc", 0, 40)
    tiers.hot.sql("DELETE FROM {orc} WHERE id = 3")
    ids = tiers.hot.snapshots("orc")
    for few in (0, MOST):
        first, second = tiers.hand_off("orc", *ids, few=few)
        assert first.error == ""
        assert "position deletes in ORC" in second.error
    assert tiers.cold.snapshots("orc") == ids[:1]
