"""The file ledger on Spark: Iceberg tables in the namespace `ledger-namespace` of the hot catalog.

`wiring.py` builds it for all steps. It answers the question of every plan: which files do only
these snapshots reference? It anti-joins manifests first, then hashes of locations; a collision can
only keep a file. `index_reader.py` reads the ledger without Spark.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.file_index.entries import LIVE, SideFileRows, SnapshotRows
from meltline.adapters.file_index.history_tables import SETTLE_FROM, TableUpkeep
from meltline.adapters.index_tables.lifetimes import CHANGES, REACH
from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.snapshot_cache import KnownSnapshots, Split
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.index_tables.tombstone_rows import DepartureRows, ItemRows
from meltline.adapters.ingest.bulk_rows import places_there
from meltline.adapters.ingest.ingest import ManifestRows, ReadingLimits
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.iceberg.files import EntryStatus, FileKind
from meltline.ports import DepartingFile, FileLedger, Neighbourhood, ObjectReader, SnapshotKey

_PUSHED = 200  # ids a filter may name: row groups without them are skipped; above, a join
_PUSHED_TABLES = 100
_ADDED: Sequence[Condition] = [("until", "is null", None)]

_LEAVING = ("table_uuid", "manifest_id", "path", "key_hash", "kind", "bytes", "sequence_number")
Row = Mapping[str, Any]


def spark_file_ledger(
    tables: LedgerTables,
    store: ObjectReader,
    limits: ReadingLimits | None = None,
    settle_from: int = SETTLE_FROM,
) -> FileLedger:
    """Builds the file ledger's parts over one set of tables.

    Args:
        tables: The tables, which `upkeep.prepare` creates.
        store: The store of the manifests.
        limits: Selects how manifests are read.
        settle_from: See `TableUpkeep`.
    """
    limits = limits or ReadingLimits()
    departures = DepartureRows(tables)
    snapshots = SnapshotRows(tables, departures)
    return FileLedger(
        manifests=ManifestRows(tables, store, limits),
        snapshots=snapshots,
        references=ReferenceRows(tables, store, snapshots, departures, limits.driver_rows),
        side_files=SideFileRows(tables, departures),
        items=ItemRows(tables),
        departures=departures,
        upkeep=TableUpkeep(tables, snapshots, departures, settle_from),
    )


class ReferenceRows:
    """Implements the port `FileReferences` over the rows of the other parts.

    A fully read snapshot references the files that its manifests have in `entries`. A snapshot that
    is known by its changes references the files whose lifetimes include it. Every search for
    references asks both.
    """

    def __init__(
        self,
        tables: LedgerTables,
        store: ObjectReader,
        snapshots: SnapshotRows,
        departures: DepartureRows,
        driver_rows: int,
    ) -> None:
        """Takes the rows, and how many rows of leaving manifests this process may compare."""
        self._tables = tables
        self._store = store
        self._snapshots = snapshots
        self._departures = departures
        self._driver_rows = driver_rows

    def departing(
        self, candidates: Sequence[SnapshotKey], within: Neighbourhood | None = None
    ) -> Sequence[DepartingFile]:
        """Returns files, manifests and manifest lists that only these snapshots reference."""
        if not candidates:
            return ()
        standing = self._snapshots.standing()
        if within is not None:
            standing = standing.of_tables(within.tables)
        split = standing.split(set(candidates))
        manifests = self._manifests(split.manifests)
        files = self._files(split, manifests, within)
        rows = [*_rows(split.lists), *manifests, *files]
        waiting = set(self._departures.waiting().among(_hashes(rows)).hashes.to_pylist())
        return _gathered((row for row in rows if row["key_hash"] not in waiting), split.manifests)

    def _files(
        self, split: Split, manifests: Sequence[Row], within: Neighbourhood | None
    ) -> list[Row]:
        """Returns files that only leaving snapshots reference, by lifetimes or these manifests."""
        read_wholly = [row for row in manifests if row["whole"]]
        ids = [row["manifest_id"] for row in read_wholly]
        is_little = sum(row["files"] for row in read_wholly) <= self._driver_rows
        files = self._ended_spans(split)
        if ids and is_little:
            files += _rows(self._tables.look("entries", _LEAVING, LIVE, ("manifest_id", ids)))
        referenced = self._kept_among(files, split, within)
        if not is_little:
            many = self._many_files(ids, split, within)
            referenced |= self._on_lines(_hashes(many), split.staying)
            files += many
        return [row for row in files if row["key_hash"] not in referenced]

    def _live(self) -> DataFrame:
        return self._tables.read("entries").where(F.col("status") < int(EntryStatus.DELETED))

    def _live_in(self, manifests: Sequence[int]) -> DataFrame:
        if len(manifests) <= _PUSHED:
            return self._live().where(F.col("manifest_id").isin(list(manifests)))
        return self._live().join(
            self._tables.ids("manifest_id", manifests), "manifest_id", "leftsemi"
        )

    def _manifests(self, leaving: Mapping[int, set[str]]) -> list[Row]:
        """Returns manifests that only leaving snapshots reference, marked if fully read."""
        if not leaving:
            return []
        columns = ("manifest_id", "path", "bytes", "added", "existing", "whole")
        stored = self._tables.look("manifests", columns, among=("manifest_id", list(leaving)))
        rows: dict[int, Row] = {}
        for row in _rows(stored):
            if row["manifest_id"] not in rows or row["whole"]:
                rows[row["manifest_id"]] = {
                    **row,
                    "key_hash": row["manifest_id"],
                    "kind": str(FileKind.MANIFEST),
                    "files": row["added"] + row["existing"],
                }
        return list(rows.values())

    def _ended_spans(self, split: Split) -> list[Row]:
        """Returns files that, in their linear history, only leaving snapshots reference.

        If the newest snapshot of a history stays, only files that were removed can be such.
        """
        leaving, staying = split.leaving.on_lines, split.staying.on_lines
        if not leaving.rows.num_rows:
            return []
        tips, stay = leaving.tips, staying.tips
        ending = {
            u
            for u, t in tips.items()
            if u not in stay or stay[u].sequence_number < t.sequence_number
        }
        look = partial(self._tables.look, "changes", CHANGES, of_any_size=True)
        rows = [look(_of(ending))] if ending else []
        if removing := sorted(tips.keys() - ending):
            oldest = pc.min(leaving.rows.column("sequence_number")).as_py()
            rows.append(look((*_of(removing), ("until", ">", oldest))))
        spans = self._snapshots.spans(pa.concat_tables(rows))
        ended = pc.and_(leaving.points.meets(spans), pc.invert(staying.points.meets(spans)))
        return _rows(spans.filter(ended))

    def _kept_among(
        self, files: Sequence[Row], split: Split, within: Neighbourhood | None
    ) -> set[int]:
        """Hashes of leaving files that staying snapshots reference, wherever these may be found."""
        if not files:
            return set()
        floors: dict[str, int] = {}
        for row in files:
            first = row["since"] if "since" in row else row["sequence_number"]
            floors[row["table_uuid"]] = min(first, floors.get(row["table_uuid"], first))
        hashes = list(set(_hashes(files)))
        narrow = _is_narrow(floors, within) and split.leaves_the_newer(floors)
        floor = min(floors.values()) if narrow else 0
        referenced = self._on_lines(hashes, split.staying, floor)
        if wholly := split.staying.read_wholly.manifests:
            # A rewritten file keeps the older number of its rows there; a lifetime has none.
            by_rows = floor if not any("since" in row for row in files) else 0
            referenced |= self._in_entries(hashes, wholly, by_rows)
        return referenced

    def _on_lines(self, hashes: Sequence[int], of: KnownSnapshots, floor: int = 0) -> set[int]:
        """Selects hashes that snapshots known by their changes reference.

        Args:
            hashes: Hashes of locations.
            of: The snapshots.
            floor: The search skips files that were added under a smaller sequence number.
        """
        if not hashes or not of.on_lines.rows.num_rows:
            return set()
        since: list[Condition] = [("since", ">=", floor)] if floor else []
        changes = self._tables.look("changes", REACH, since, among=("key_hash", hashes))
        spans = self._snapshots.spans(changes)
        return set(spans.filter(of.points.meets(spans)).column("key_hash").to_pylist())

    def _in_entries(self, hashes: Sequence[int], manifests: pa.Array, floor: int = 0) -> set[int]:
        """Selects hashes that are live in one of the manifests; `floor` as in `_on_lines`."""
        where: list[Condition] = [*LIVE, ("sequence_number", ">=", floor)] if floor else [*LIVE]
        columns, among = ("manifest_id", "key_hash"), ("key_hash", hashes)
        rows = self._tables.look_here("entries", columns, where, among)
        if rows is None:
            hits = self._live().join(self._tables.ids("key_hash", hashes), "key_hash", "leftsemi")
            alive = hits.join(self._tables.ids("manifest_id", manifests), "manifest_id", "leftsemi")
            rows = alive.where(F.col("sequence_number") >= floor).select(*columns).toArrow()
        matching = pc.is_in(rows.column("manifest_id"), manifests)
        return set(rows.filter(matching).column("key_hash").to_pylist())

    def _many_files(
        self, wholly: Sequence[int], split: Split, within: Neighbourhood | None
    ) -> list[Row]:
        """Returns files that only leaving manifests have: executors compare the hashes."""
        leave = self._tables.ids("manifest_id", wholly).withColumn("kept", F.lit(0))
        stay = self._tables.ids("manifest_id", split.staying.manifests).withColumn("kept", F.lit(1))
        floors = self._live_in(wholly).groupBy("table_uuid").agg(F.min("sequence_number"))
        first = {row[0]: row[1] for row in floors.collect()}
        near = self._near(first, within if split.leaves_the_newer(first) else None)
        alone = (
            near.join(F.broadcast(leave.unionByName(stay)), "manifest_id")
            .groupBy("key_hash")
            .agg(F.max("kept").alias("kept"))
            .where("kept = 0")
            .select("key_hash")
        )
        hashes = self._tables.ids("key_hash", alone.toArrow().column(0).combine_chunks())
        rows = self._live_in(wholly).join(hashes, "key_hash", "leftsemi")
        return _rows(rows.select(*_LEAVING).toArrow())

    def _near(self, floors: Mapping[str, int], within: Neighbourhood | None) -> DataFrame:
        """Returns the rows that may name a leaving file (see `Neighbourhood`).

        `floors` has the first sequence number of leaving files, by the table that named them.
        """
        if not _is_narrow(floors, within):
            return self._live()
        may_be = F.lit(False)
        for uuid, floor in floors.items():
            may_be = may_be | ((F.col("table_uuid") == uuid) & (F.col("sequence_number") >= floor))
        return self._live().where(may_be)

    def among(self, paths: Sequence[str], dead: Sequence[SnapshotKey]) -> set[str]:
        """Selects paths that any known snapshot except the dead ones references."""
        if not paths:
            return set()
        standing = self._snapshots.standing().without(set(dead))
        by_hash = {key_hash(path): path for path in paths}
        referenced = self._on_lines(list(by_hash), standing)
        if wholly := standing.read_wholly.manifests:
            referenced |= self._in_entries(list(by_hash), wholly)
        referenced |= standing.naming(by_hash) | standing.lists_among(by_hash)
        return {path for path in paths if key_hash(path) in referenced}

    def places(self) -> set[str]:
        """Returns the locations of all files in the index, with those that are links."""
        columns = (
            ("entries", "path"),
            ("changes", "path"),
            ("manifests", "path"),
            ("snapshots", "manifest_list"),
            ("side_files", "path"),
        )
        paths = (
            self._tables.read(table).select(F.col(name).alias("path")) for table, name in columns
        )
        rows = reduce(DataFrame.unionByName, paths).where("path IS NOT NULL")
        return places_there(self._store, rows)

    def waiting_in(self, manifests: Sequence[str]) -> set[str]:
        """Returns files in failsafe that are these manifests, or are live in one of them."""
        waiting = self._departures.waiting()
        if not manifests or not waiting.rows.num_rows:
            return set()
        ids = pa.array(map(key_hash, manifests), pa.int64())
        few = len(ids) <= len(waiting.hashes)
        among = ("manifest_id", ids) if few else ("key_hash", waiting.hashes)
        waiting_hashes = {*waiting.among(ids).hashes.to_pylist()}
        for table, alive in (("entries", LIVE), ("changes", _ADDED)):
            rows = self._tables.look(table, ("manifest_id", "key_hash"), alive, among=among)
            matching = pc.and_(
                pc.is_in(rows.column("manifest_id"), ids),
                pc.is_in(rows.column("key_hash"), waiting.hashes),
            )
            waiting_hashes.update(rows.filter(matching).column("key_hash").to_pylist())
        if not waiting_hashes:
            return set()
        rows = self._tables.look("departures", ("path",), among=("key_hash", list(waiting_hashes)))
        return set(rows.column("path").to_pylist())

    def unknown(self, paths: Sequence[str]) -> set[str]:
        """Selects paths that no row of the index or of the side files names."""
        if not paths:
            return set()
        hashes = list(map(key_hash, paths))
        stored: set[int] = set()
        for table, column in (
            ("changes", "key_hash"),
            ("entries", "key_hash"),
            ("manifests", "manifest_id"),
            ("snapshots", "list_hash"),
            ("side_files", "key_hash"),
        ):
            missing = [h for h in hashes if h not in stored]
            stored.update(
                self._tables.look(table, [column], among=(column, missing)).column(0).to_pylist()
            )
        return {path for path in paths if key_hash(path) not in stored}


def _of(uuids: Collection[str]) -> tuple[Condition, ...]:
    return (("table_uuid", "in", sorted(uuids)),) if len(uuids) <= _PUSHED_TABLES else ()


def _is_narrow(floors: Mapping[str, int], within: Neighbourhood | None) -> bool:
    """Whether rows older than the leaving files may be skipped (see `Neighbourhood`)."""
    few = len(floors) <= _PUSHED_TABLES
    return within is not None and few and within.linear.issuperset(floors)


def _rows(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.to_pylist()
    return rows


def _hashes(rows: Iterable[Row]) -> list[int]:
    return [row["key_hash"] for row in rows]


def _gathered(rows: Iterable[Row], leaving: Mapping[int, set[str]]) -> list[DepartingFile]:
    """Returns each file once, with all tables whose leaving snapshots named it."""
    files: dict[int, tuple[str, str, int]] = {}
    tables: dict[int, set[str]] = {}
    for row in rows:
        key, path, kind, size = row["key_hash"], row["path"], row["kind"], row["bytes"]
        manifest = row.get("manifest_id")
        uuids = {row["table_uuid"]} if manifest is None else leaving[manifest]
        if key in files:  # the same answer in any order of the rows: it is part of a plan's digest
            first_path, _, largest = files[key]
            path, size = min(path, first_path), max(size, largest)
            uuids = tables[key] | uuids
        files[key], tables[key] = (path, kind, size), uuids
    return [
        DepartingFile(path, kind, size, tuple(sorted(tables[key])))
        for key, (path, kind, size) in files.items()
    ]
