"""Hashes that proofs keep: checked and searched all at once, as one by one."""

from functools import reduce
from operator import xor

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.proofs.hash_sets import (
    PACKED,
    fingerprint,
    packed,
    searched,
    searcher,
    sound,
)

SCHEMA = pa.schema(
    [*((name, pa.int64()) for name in PACKED[:3]), ("hashes", pa.binary())],
)
HASH = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
MANIFESTS = st.lists(st.lists(HASH, max_size=6), max_size=6)


def row(number: int, of: list[int], **changes: object) -> dict[str, object]:
    found = np.array(of, np.int64)
    made = {"key_hash": number, "live_files": len(of), "fingerprint": fingerprint(found)}
    return {**made, "hashes": packed(found), **changes}


def rows(*found: dict[str, object], chunks: int = 1) -> pa.Table:
    parts = [pa.Table.from_pylist(found[n::chunks], schema=SCHEMA) for n in range(chunks)]
    return pa.concat_tables(parts)


@settings(deadline=None)
@given(manifests=MANIFESTS, wanted=st.frozensets(HASH), chunks=st.integers(1, 3))
def test_each_manifest_has_the_wanted_ones_among_its_own(
    manifests: list[list[int]], wanted: frozenset[int], chunks: int
) -> None:
    there = rows(*(row(n, of) for n, of in enumerate(manifests)), chunks=chunks)
    assert sorted(sound(there)["key_hash"].to_pylist()) == [*range(len(manifests))]
    found = searched(there, pa.array(sorted(wanted), pa.int64())).to_pylist()
    assert len(found) == len(manifests)
    for one in found:
        of = manifests[one["key_hash"]]
        assert one["hits"] == sorted(hashed for hashed in of if hashed in wanted)
        assert (one["live_files"], one["fingerprint"]) == (len(of), reduce(xor, of, 0))


@settings(deadline=None)
@given(
    hashes=st.lists(HASH, min_size=1, max_size=5),
    others=MANIFESTS,
    at=st.integers(0, 39),
    bit=st.integers(0, 7),
)
def test_one_wrong_bit_or_byte_and_only_that_manifest_counts_no_more(
    hashes: list[int], others: list[list[int]], at: int, bit: int
) -> None:
    whole = row(-1, hashes)["hashes"]
    assert isinstance(whole, bytes)
    at %= len(whole)
    flipped = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    for blob in (flipped, whole[:at], whole + whole[:8], whole + bytes(8), b"", None):
        odd = row(-1, hashes, hashes=blob)
        good = [row(n, of) for n, of in enumerate(others)]
        middle = len(good) // 2
        found = sound(rows(*good[:middle], odd, *good[middle:]))
        assert found["key_hash"].to_pylist() == [*range(len(others))]


def test_a_fingerprint_of_nothing_is_zero() -> None:
    assert sound(rows(row(1, []))).num_rows == 1
    assert sound(rows(row(1, [], fingerprint=3))).num_rows == 0
    assert sound(rows()).num_rows == searched(rows(), pa.array([1])).num_rows == 0


def test_on_executors_too_what_is_unsound_is_left_out() -> None:
    there = rows(row(1, [7, 8]), row(2, [7], fingerprint=8), row(3, [9, 9, 7]))
    search = searcher(lambda: pa.array([7, 9], pa.int64()))
    (found,) = search(there.to_batches())
    assert dict(zip(*(found[name].to_pylist() for name in ("key_hash", "hits")), strict=True)) == {
        1: [7],
        3: [7, 9, 9],
    }
