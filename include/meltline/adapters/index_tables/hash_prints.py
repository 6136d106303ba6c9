"""The first bits of each hash in a data file of the ledger, in the file's footer (decision 038).

Whether some hashes stand among millions is asked before every delete. Sorted, the first bits of the
hashes of a row group take less than three bytes each where the column takes eight, and tell of
nearly every row group that it holds none of those asked for. They can only say "perhaps" or "no".
"""

import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Hashes = npt.NDArray[np.int64]

COLUMN = "key_hash"
"""The column they are of."""
FOOTER_KEY = "meltline.key-hash-prints.1"
"""Under which a footer holds them: of another form, they would have another."""
_CUT = 28  # bits of 64: of two million hashes and ten thousand others, 0.3 have the same first 36
_CHECK = 4  # bytes of a checksum before them


def footer_prints(rows: pa.Table, group_rows: int) -> dict[str, bytes]:
    """What a file's footer is to hold; nothing where not every row has a hash.

    Args:
        rows: The file's rows, in their order.
        group_rows: So many of them make a row group.
    """
    if COLUMN not in rows.column_names or rows[COLUMN].null_count:
        return {}
    hashes = rows[COLUMN].to_numpy()
    starts = range(0, len(hashes), group_rows)
    prints = [np.sort(hashes[start : start + group_rows] >> _CUT) for start in starts]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"prints": pa.array(prints, pa.list_(pa.int64()))}),
        sink,
        use_dictionary=False,
        column_encoding={"prints.list.element": "DELTA_BINARY_PACKED"},
    )
    content = sink.getvalue().to_pybytes()
    return {FOOTER_KEY: _checksum(content) + content}


def groups_without(metadata: pq.FileMetaData, sought: Hashes) -> frozenset[int]:
    """Row groups of a file that hold none of the hashes, as far as its footer tells.

    Each row group's prints must be as many as it has rows, and begin and end with those of the
    least and the largest hash that its statistics tell of. Where they are not, whoever wrote the
    file took them over from another one: they tell nothing.
    """
    prints = _prints(metadata)
    if len(prints) != metadata.num_row_groups:
        return frozenset()
    cut = np.unique(sought >> _CUT)
    return frozenset(
        number
        for number, group in enumerate(prints)
        if _is_of(metadata.row_group(number), group) and not _any_among(cut, group)
    )


def _prints(metadata: pq.FileMetaData) -> Sequence[Hashes]:
    """By row group; none where the footer holds none, or damaged ones."""
    stored = (metadata.metadata or {}).get(FOOTER_KEY.encode(), b"")
    content = stored[_CHECK:]
    if len(stored) <= _CHECK or stored[:_CHECK] != _checksum(content):
        return ()
    lists = pq.read_table(pa.BufferReader(content), use_threads=False)["prints"].combine_chunks()
    values = lists.values.to_numpy()
    offsets = lists.offsets.to_numpy()
    return [values[start:end] for start, end in pairwise(offsets)]


def _is_of(group: pq.RowGroupMetaData, prints: Hashes) -> bool:
    columns = (group.column(number) for number in range(group.num_columns))
    statistics = next((c.statistics for c in columns if c.path_in_schema == COLUMN), None)
    if statistics is None or not statistics.has_min_max or len(prints) != group.num_rows:
        return False
    ends = (statistics.min >> _CUT, statistics.max >> _CUT)
    return bool(len(prints)) and ends == (prints[0], prints[-1])


def _any_among(sought: Hashes, prints: Hashes) -> bool:
    """Whether one of the first bits stands among those of a row group. Both are sorted."""
    at = np.searchsorted(prints, sought)
    inside = at < len(prints)
    return bool((prints[at[inside]] == sought[inside]).any())


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECK, "little")
