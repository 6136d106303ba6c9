"""What a footer says of hashes: it may say "perhaps" too often, and "no" never wrongly."""

import io
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.index_tables.hash_prints import FOOTER_KEY, footer_prints, groups_without
from tests.seeds import examples

HASH = st.integers(-(2**63), 2**63 - 1)
NEAR = st.builds(lambda start, more: start + more, st.sampled_from([-(2**40), 0, 2**40]), HASH.map(
    lambda number: number % 2**30))  # fmt: skip
"""Many of these have the same first bits."""
EDGES = st.sampled_from([-(2**63), -(2**28), -1, 0, 2**28 - 1, 2**28, 2**63 - 1])


def stored(
    hashes: Sequence[int | None], group: int, footer: Mapping[str, bytes] | None = None
) -> pq.FileMetaData:
    """The footer of a file with these hashes; with other prints than its own, if given."""
    rows = pa.table({"path": ["x"] * len(hashes), "key_hash": pa.array(hashes, pa.int64())})
    content = io.BytesIO()
    with pq.ParquetWriter(content, rows.schema) as writer:
        writer.write_table(rows, row_group_size=group)
        writer.add_key_value_metadata(footer_prints(rows, group) if footer is None else footer)
    return pq.read_metadata(io.BytesIO(content.getvalue()))


def prints(*hashes: int, group: int = 2) -> bytes:
    return footer_prints(pa.table({"key_hash": pa.array(hashes, pa.int64())}), group)[FOOTER_KEY]


def without(footer: pq.FileMetaData, *sought: int) -> set[int]:
    return set(groups_without(footer, np.array(sought, np.int64)))


@settings(deadline=None, max_examples=examples(few=75, many=300))
@given(
    held=st.lists(HASH | NEAR | EDGES, max_size=40),
    group=st.integers(1, 9),
    others=st.lists(HASH | NEAR | EDGES, max_size=9),
    picked=st.lists(st.integers(0, 39), max_size=3),
)
def test_no_row_group_is_passed_over_that_holds_a_hash_asked_for(
    held: list[int], group: int, others: list[int], picked: list[int]
) -> None:
    sought = others + [held[at] for at in picked if at < len(held)]
    passed = without(stored(held, group), *sought)
    groups = [set(held[start : start + group]) for start in range(0, len(held), group)]
    assert all(groups[number].isdisjoint(sought) for number in passed)
    firsts = {number >> 28 for number in sought}
    assert passed >= {
        n for n, values in enumerate(groups) if firsts.isdisjoint(v >> 28 for v in values)
    }


def test_each_hash_of_a_row_group_is_found_and_what_lies_beside_it_is_not() -> None:
    held = [number << 28 for number in (-9, -4, 0, 3, 8)]
    footer = stored(held, 5)
    for number in held:
        assert without(footer, number) == set()
        assert without(footer, number + 2**28 - 1) == set(), "perhaps: the first bits are the same"
        assert without(footer, number - 1) == {0}
        assert without(footer, number + 2**28) == {0}


def test_prints_take_less_than_three_bytes_a_hash() -> None:
    hashes = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 200_000, np.int64)
    footer = footer_prints(pa.table({"key_hash": hashes}), 100_000)
    assert len(footer[FOOTER_KEY]) < 3 * len(hashes)


def test_a_file_without_prints_or_with_rows_without_a_hash_tells_nothing() -> None:
    assert without(stored([1, 2], 1, {}), 2**60) == set()
    assert without(stored([1, None], 1), 2**60) == set()
    assert footer_prints(pa.table({"path": ["x"]}), 1) == {}


OWN = (-(7 << 40), 2 << 40, 5 << 40, 9 << 40)


@pytest.mark.parametrize(
    "other",
    [
        prints(*OWN[:2]),
        prints(*OWN, 1 << 50),
        prints(*OWN, group=4),
        prints(OWN[0], OWN[1], 4 << 40, OWN[3]),
        prints(OWN[0], OWN[1], OWN[2], 8 << 40),
        prints(OWN[2], OWN[3], OWN[0], OWN[1]),
    ],
    ids=["of fewer row groups", "of more", "of larger ones", "with another least hash",
         "with another largest", "in another order"],
)  # fmt: skip
def test_prints_that_are_not_this_files_are_not_believed(other: bytes) -> None:
    """A tool that joins or splits files may take over what stands in a footer."""
    sought = 3 << 50
    assert without(stored(OWN, 2), sought) == {0, 1}
    assert len(without(stored(OWN, 2, {FOOTER_KEY: other}), sought)) < 2
    lost = without(stored(OWN, 2, {FOOTER_KEY: other}), *OWN)
    assert not lost, "a hash that is there was not found"


@settings(deadline=None, max_examples=examples(few=25, many=100))
@given(at=st.integers(0), to=st.integers(1, 255), cut=st.integers(0, 3))
def test_damaged_prints_are_not_believed(at: int, to: int, cut: int) -> None:
    sound = bytearray(prints(*OWN))
    sound[at % len(sound)] ^= to
    damaged = bytes(sound[: len(sound) - cut])
    assert without(stored(OWN, 2, {FOOTER_KEY: damaged}), 3 << 50) == set()


@pytest.mark.parametrize("length", [0, 1, 4])
def test_prints_cut_short_are_not_believed(length: int) -> None:
    assert without(stored(OWN, 2, {FOOTER_KEY: prints(*OWN)[:length]}), 3 << 50) == set()


def test_a_group_of_another_number_of_rows_is_read() -> None:
    other = prints(OWN[0], 1 << 40, OWN[1], group=3)
    content = other[4:]
    assert other[:4] == zlib.crc32(content).to_bytes(4, "little")
    assert without(stored(OWN[:2], 2, {FOOTER_KEY: other}), 3 << 50) == set()
