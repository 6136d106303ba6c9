"""Cache of the snapshots in the ledger, in the driver: manifest lists and manifests of each.

A row is small compared with the files behind it, and most queries start from these rows. In Spark,
each query would be a job of its own. The file index calls it (`file_index/entries.py`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.index_tables.lifetimes import Points
from meltline.adapters.index_tables.rows import tuples
from meltline.domain.iceberg.files import FileKind
from meltline.domain.iceberg.linear_history import IndexedHead
from meltline.ports import SnapshotKey

COLUMNS = (
    "table_uuid",
    "snapshot_id",
    "manifest_list",
    "list_hash",
    "manifest_list_bytes",
    "manifests",
    "sequence_number",
    "by_changes",
    "live_files",
    "live_bytes",
)


@dataclass(frozen=True)
class Split:
    """References of expired snapshots and of the others.

    Attributes:
        lists: Rows of manifest lists that only leaving snapshots have.
        manifests: Manifests that only leaving snapshots name, with these snapshots' tables.
        leaving: The snapshots that leave.
        staying: The others.
    """

    lists: pa.Table
    manifests: dict[int, set[str]]
    leaving: "KnownSnapshots"
    staying: "KnownSnapshots"

    def leaves_the_newer(self, tables: Collection[str]) -> bool:
        """Whether, in these tables, every snapshot that stays is newer than every one that leaves.

        If not, a file that was added again may be kept by a snapshot from before its removal.
        """
        oldest, newest = self.staying.numbers("min"), self.leaving.numbers("max")
        return all(newest.get(t, 0) < oldest.get(t, newest.get(t, 0) + 1) for t in tables)


@dataclass(frozen=True)
class KnownSnapshots:
    """Rows of `snapshots`, each snapshot once, without those whose manifest list has departed."""

    rows: pa.Table

    @classmethod
    def of(cls, rows: pa.Table, departed_lists: Collection[int]) -> "KnownSnapshots":
        """Reads the table's rows; a retried append may have written a snapshot twice.

        A snapshot may have been fully read at first, and be known by its changes since: either row
        is correct, and the one with changes is used.
        """
        if departed_lists:
            departed = pa.array(departed_lists, pa.int64())
            rows = rows.filter(pc.invert(pc.is_in(rows.column("list_hash"), departed)))
        snapshots = cls(rows)
        if len(set(snapshots.keys)) == rows.num_rows:
            return snapshots
        first: dict[SnapshotKey, int] = {}
        by_changes = snapshots._by_changes.to_pylist()
        for number, (key, changed) in enumerate(zip(snapshots.keys, by_changes, strict=True)):
            if changed:
                first[key] = number
            else:
                first.setdefault(key, number)
        return cls(rows.take(list(first.values())))

    @cached_property
    def _by_changes(self) -> pa.ChunkedArray:
        # An unknown row counts as read completely: a snapshot in neither set keeps no file.
        return pc.fill_null(self.rows.column("by_changes"), fill_value=False)

    @cached_property
    def on_lines(self) -> "KnownSnapshots":
        """Snapshots that are known by their changes."""
        return KnownSnapshots(self.rows.filter(self._by_changes))

    @cached_property
    def read_wholly(self) -> "KnownSnapshots":
        """Snapshots whose files are those that their manifests have in `entries`."""
        return KnownSnapshots(self.rows.filter(pc.invert(self._by_changes)))

    @cached_property
    def points(self) -> Points:
        """Positions in their linear histories of the snapshots that are known by their changes."""
        rows = self.on_lines.rows.combine_chunks()
        tables, numbers = (rows.column(name) for name in ("table_uuid", "sequence_number"))
        return Points(tables.combine_chunks(), numbers.combine_chunks())

    @property
    def tips(self) -> dict[str, IndexedHead]:
        """The newest snapshot of each linear history, by its table's UUID."""
        facts = ["snapshot_id", "sequence_number", "live_files", "live_bytes"]
        rows = self.rows.filter(self._by_changes).select(["table_uuid", *facts])
        newest = rows.group_by("table_uuid").aggregate([("sequence_number", "max")])
        of = ["table_uuid", "sequence_number"]
        heads = rows.join(newest.rename_columns(of), of, join_type="left semi").to_pylist()
        return {row["table_uuid"]: IndexedHead(*(row[fact] for fact in facts)) for row in heads}

    @cached_property
    def keys(self) -> list[SnapshotKey]:
        """The snapshot of each row, in their order."""
        return [SnapshotKey(*key) for key in tuples(self.rows, "table_uuid", "snapshot_id")]

    def lists_of(self, tables: Collection[str]) -> Iterable[tuple[SnapshotKey, str]]:
        """Paths of the manifest lists of some tables' snapshots; empty if a snapshot has none."""
        uuids, lists = frozenset(tables), self.rows.column("manifest_list").to_pylist()
        rows = zip(self.keys, lists, strict=True)
        return ((key, place or "") for key, place in rows if key.table_uuid in uuids)

    def numbers(self, which: Literal["min", "max"]) -> dict[str, int]:
        """The least or largest sequence number of each table; an unknown one counts as 0."""
        numbers = pc.fill_null(self.rows.column("sequence_number"), 0)
        rows = pa.table({"table": self.rows.column("table_uuid"), "number": numbers})
        extremes = rows.group_by("table").aggregate([("number", which)])
        return dict(zip(*(column.to_pylist() for column in extremes.columns), strict=True))

    def of_tables(self, uuids: Collection[str]) -> "KnownSnapshots":
        """Selects the snapshots of some tables."""
        chosen = pa.array(uuids, pa.string())
        return KnownSnapshots(self.rows.filter(pc.is_in(self.rows.column("table_uuid"), chosen)))

    def only(self, keys: Collection[SnapshotKey]) -> "KnownSnapshots":
        """Selects the snapshots that are among the keys."""
        return KnownSnapshots(self.rows.filter(self._among(keys)))

    def without(self, keys: Collection[SnapshotKey]) -> "KnownSnapshots":
        """Selects the snapshots that are not among the keys."""
        return KnownSnapshots(self.rows.filter(pc.invert(self._among(keys)))) if keys else self

    def _among(self, keys: Collection[SnapshotKey]) -> pa.Array:
        chosen = keys if isinstance(keys, set | frozenset) else set(keys)
        return pa.array([key in chosen for key in self.keys], pa.bool_())

    @cached_property
    def manifests(self) -> pa.Array:
        """Ids of the manifests that any snapshot names, each once."""
        flat = pc.list_flatten(self.rows.column("manifests"))
        return pc.unique(flat.combine_chunks() if isinstance(flat, pa.ChunkedArray) else flat)

    def manifests_by_snapshot(self) -> Iterable[tuple[SnapshotKey, list[int]]]:
        """Returns each snapshot with the ids of its manifests."""
        return zip(self.keys, self.rows.column("manifests").to_pylist(), strict=True)

    def naming(self, ids: Collection[int]) -> set[int]:
        """Selects the manifests that any snapshot names."""
        hashes = pa.array(ids, pa.int64())
        return set(hashes.filter(pc.is_in(hashes, self.manifests)).to_pylist())

    def lists_among(self, hashes: Collection[int]) -> set[int]:
        """Selects the hashes that belong to a manifest list of any snapshot."""
        return set(hashes).intersection(self.rows.column("list_hash").to_pylist())

    def split(self, candidates: Collection[SnapshotKey]) -> Split:
        """Separates references that only the candidates have from those of the other snapshots."""
        leaving, staying = self.only(candidates), self.without(candidates)
        staying_ids = set(staying.manifests.to_pylist())
        manifests_left: dict[int, set[str]] = {}
        for key, manifests in leaving.manifests_by_snapshot():
            for manifest in manifests:
                if manifest not in staying_ids:
                    manifests_left.setdefault(manifest, set()).add(key.table_uuid)
        hashes, staying_hashes = leaving.rows.column("list_hash"), staying.rows.column("list_hash")
        own = pc.and_(hashes.is_valid(), pc.invert(pc.is_in(hashes, staying_hashes.drop_null())))
        return Split(_list_rows(leaving.rows.filter(own)), manifests_left, leaving, staying)


def _list_rows(lists: pa.Table) -> pa.Table:
    return pa.table(
        {
            "table_uuid": lists.column("table_uuid"),
            "path": lists.column("manifest_list"),
            "key_hash": lists.column("list_hash"),
            "kind": pa.array([str(FileKind.MANIFEST_LIST)] * lists.num_rows, pa.string()),
            "bytes": lists.column("manifest_list_bytes"),
        }
    )
