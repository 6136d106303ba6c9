"""Hash prefixes in the footer of a ledger data file, to skip row groups (decision 038).

Before every delete, the ledger is searched for some hashes among millions. Sorted, the first bits
of a row group's hashes take less than three bytes each; the column takes eight. They rule out
nearly every row group that has none of the hashes. Their answer is only "perhaps" or "no".
`tables_io.py` writes them, and `parquet_scan.py` reads them.
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
"""The column with the hashes."""
FOOTER_KEY = "meltline.key-hash-prints.1"
"""The key in the footer; another format gets another key."""
_CUT = 28  # bits of 64: of two million hashes and ten thousand others, 0.3 have the same first 36
_CHECK = 4  # bytes of a checksum before them


def footer_prints(rows: pa.Table, group_rows: int) -> dict[str, bytes]:
    """Returns the entry for a file's footer; nothing if a row lacks a hash.

    Args:
        rows: The file's rows, in their order.
        group_rows: How many of them form a row group.
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
    """Returns row groups of a file without any of the hashes, as far as its footer shows.

    Each row group must have as many prints as rows. They must begin and end with those of the least
    and the largest hash in its statistics. Otherwise the writer of the file copied them from
    another one, and they are ignored.
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
    """Reads the prints by row group; none if the footer lacks them or they are damaged."""
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
    """Whether one of the first bits is among those of a row group. Both are sorted."""
    at = np.searchsorted(prints, sought)
    inside = at < len(prints)
    return bool((prints[at[inside]] == sought[inside]).any())


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECK, "little")
