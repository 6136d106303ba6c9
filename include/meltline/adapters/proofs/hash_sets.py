"""Packed hashes of a manifest's live files: packing, integrity check, search.

Proof cache and manifest proofs use it. Packed hashes are little-endian signed 64-bit numbers,
sorted, each as often as a path with that hash occurs. Their number and their exclusive-or reveal
whether they are still what was read.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes: TypeAlias = npt.NDArray[np.int64]
Packed: TypeAlias = bytes

PACKED = ("key_hash", "live_files", "fingerprint", "hashes")
"""Columns of `proofs` that a search needs."""
HITS = pa.schema(
    [
        ("key_hash", pa.int64()),
        ("live_files", pa.int64()),
        ("fingerprint", pa.int64()),
        ("hits", pa.list_(pa.int64())),
    ]
)
_WIDTH = 8
_ORDER = np.dtype("<i8")


def packed(hashes: Hashes) -> Packed:
    """Packs hashes to bytes."""
    return np.sort(hashes).astype(_ORDER).tobytes()


def fingerprint(hashes: Hashes) -> int:
    """Returns the exclusive-or of hashes; zero for none."""
    return int(np.bitwise_xor.reduce(hashes))


def sound(rows: pa.Table) -> pa.Table:
    """Returns the rows whose hashes match their recorded number and fingerprint."""
    lengths = pc.binary_length(rows["hashes"])
    rows = rows.filter(pc.equal(lengths, pc.multiply(rows["live_files"], _WIDTH)))
    ends, hashes = _laid_out(rows)
    starts = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    prints = np.zeros(len(ends), np.int64)
    if (filled := starts < ends).any():
        prints[filled] = np.bitwise_xor.reduceat(hashes, starts[filled])
    return rows.filter(pc.equal(rows["fingerprint"], pa.array(prints)))


def searched(rows: pa.Table, sought: pa.Array) -> pa.Table:
    """Returns for each sound row its sought hashes."""
    ends, hashes = _laid_out(rows)
    at = np.flatnonzero(pc.is_in(pa.array(hashes), value_set=sought).to_numpy(zero_copy_only=False))
    # Each hit belongs to the first row that ends after it.
    until = np.searchsorted(np.searchsorted(ends, at, side="right"), np.arange(len(ends) + 1))
    hits = pa.ListArray.from_arrays(pa.array(until, pa.int32()), pa.array(hashes[at]))
    return pa.table([*(rows[name] for name in HITS.names[:3]), hits], schema=HITS)


def searcher(
    sought: Callable[[], pa.Array],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the search as a function for executors; unsound rows are left out."""

    def search(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            hits = searched(sound(pa.Table.from_batches([batch])), sought())
            yield from hits.combine_chunks().to_batches()

    return search


def _laid_out(rows: pa.Table) -> tuple[Hashes, Hashes]:
    """Returns where the hashes of each row end, and the hashes of all rows in one array."""
    ends = np.cumsum(rows["live_files"].to_numpy(), dtype=np.int64)
    parts = [np.zeros(0, np.int64)]
    for chunk in rows["hashes"].cast(pa.binary()).chunks:
        _, offsets, content = chunk.buffers()
        if content is not None and len(chunk):
            at = np.frombuffer(offsets, np.int32)[chunk.offset :]
            length = int(at[len(chunk)] - at[0])
            parts.append(np.frombuffer(content, _ORDER, length // _WIDTH, int(at[0])))
    return ends, np.concatenate(parts)
