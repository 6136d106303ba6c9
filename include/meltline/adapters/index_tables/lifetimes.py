"""File lifetimes in columns: from the snapshot that added a file to the one that removed it.

In a linear history, the changes of each snapshot determine all its references: a file is alive from
the snapshot that added it until the one that removed it. The ledger's table `changes` has those two
facts. This module combines them for many files at once, for the file index, with Spark and without
it (decision 020).
"""

import pyarrow as pa
import pyarrow.compute as pc

CHANGES = (
    "table_uuid",
    "snapshot_id",
    "path",
    "key_hash",
    "part",
    "kind",
    "bytes",
    "since",
    "until",
)
"""The columns of `changes` that form a lifetime."""
REACH = ("table_uuid", "snapshot_id", "key_hash", "part", "bytes", "since", "until")
"""The columns that are enough to find the snapshots that reference a file."""
_SPAN = ("table_uuid", "key_hash", "part", "since")
# A key is a table's code times this, plus a sequence number: keys of one table are contiguous,
# in the order of its history. Sequence numbers must be below, and no commit rate reaches it.
_NUMBERS = 1 << 40


def spans_of(changes: pa.Table, recorded: pa.Table) -> pa.Table:
    """Returns each file's lifetime once: from `since`, until before `until`; null while it lives.

    A file with several deletion vectors has a lifetime for each, and so has each spelling of a path
    (`part`): it is needed while any is. A change counts only once its snapshot is recorded: a run
    that died, or was overtaken, may have left rows of a snapshot outside the linear history. One
    that died may also have written rows twice. Columns that are neither requested nor known here
    are copied from one of a lifetime's rows.

    Args:
        changes: Rows of `changes` with those of `REACH` at least.
        recorded: The snapshots that are known by their changes, departed ones too: `table_uuid`,
            `snapshot_id`.
    """
    # The least `until` is that of the removal, and null without one: null is skipped.
    # A file that was added again has another `since`, and is another span (decision 020).
    sound = changes.filter(_are_recorded(changes, recorded)).drop_columns("snapshot_id")
    bare = sound.select([*_SPAN, "until", "bytes"])
    rows = bare.append_column("row", pa.array(range(bare.num_rows), pa.int64()))
    spans = rows.group_by([*_SPAN]).aggregate([("until", "min"), ("bytes", "max"), ("row", "min")])
    # Strings are not aggregated, which takes many times as long, but looked up.
    more = sound.drop_columns([*_SPAN, "until", "bytes"]).take(spans["row_min"])
    columns = spans.drop_columns("row_min").rename_columns([*_SPAN, "until", "bytes"])
    for name in more.column_names:
        columns = columns.append_column(name, more[name])
    return columns


def _are_recorded(changes: pa.Table, recorded: pa.Table) -> pa.ChunkedArray:
    """Compares numbers: a join by strings takes many times as long."""
    tables = pc.unique(recorded["table_uuid"])
    ids = pc.unique(recorded["snapshot_id"])

    def keys(rows: pa.Table) -> pa.ChunkedArray:
        # A table or a snapshot that is not recorded has no index; its key is null, and in no set.
        of_table = pc.index_in(rows["table_uuid"], value_set=tables).cast(pa.int64())
        of_snapshot = pc.index_in(rows["snapshot_id"], value_set=ids).cast(pa.int64())
        return pc.add(pc.multiply(of_table, len(ids)), of_snapshot)

    return pc.is_in(keys(changes), value_set=keys(recorded).combine_chunks())


class Points:
    """Snapshots of many linear histories in one order, so that a lifetime finds its own by search.

    Attributes:
        order: The index of the given snapshot at each position.
    """

    def __init__(self, tables: pa.Array, numbers: pa.Array) -> None:
        """Takes each snapshot's table and its sequence number."""
        self._tables = pc.unique(tables)
        keys = self._keys(tables, numbers)
        self.order: pa.Array = pc.sort_indices(keys)
        self._sorted = keys.take(self.order)

    def places(self, spans: pa.Table) -> tuple[pa.Array, pa.Array]:
        """Returns for each lifetime the first snapshot that references its file, and the end.

        Both are positions in the order, the end exclusive; they are equal if no snapshot references
        it.
        """
        tables = spans["table_uuid"].combine_chunks()
        # A live file ends after the table's last snapshot, and before the next table's first.
        ends = pc.coalesce(spans["until"], _NUMBERS - 1).combine_chunks()
        first = self._place(self._keys(tables, spans["since"].combine_chunks()))
        return first, self._place(self._keys(tables, ends))

    def meets(self, spans: pa.Table) -> pa.Array:
        """Whether any of the snapshots references the file of each lifetime."""
        if not spans.num_rows:
            return pa.array([], pa.bool_())
        first, end = self.places(spans)
        return pc.less(first, end)

    def _keys(self, tables: pa.Array, numbers: pa.Array) -> pa.Array:
        codes = pc.index_in(tables, value_set=self._tables).cast(pa.int64())
        return pc.add(pc.multiply(codes, _NUMBERS), numbers)

    def _place(self, keys: pa.Array) -> pa.Array:
        """Returns the position of each key.

        A table without snapshots has no code. So both ends of its lifetimes are null and get the
        same position: no snapshot references its files.
        """
        return pc.search_sorted(self._sorted, pc.fill_null(keys, -1)).cast(pa.int64())
