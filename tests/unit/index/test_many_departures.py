"""What departed is many millions of files: the newest of each counts, and each takes few bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meltline.adapters.file_index.storage_usage import MANIFEST_COLUMNS, weigh
from meltline.adapters.index_tables.rows import newest_rows
from meltline.adapters.index_tables.schema import DEPARTURES
from meltline.adapters.index_tables.tombstone_rows import COLUMNS, TombstoneCache
from meltline.domain.deletion.storage import Stage
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.ports import UsageQuery, UsageTotals
from tests.lake.by_changes import columns

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COUNT, OF_A_FILE = 200_000, 20_000
OWNER = "0f8fad5b-d9cb-469f-a165-70867728950e"
MOST = 80
"""Bytes of a departure at most, besides its row: fifty million are four gigabytes."""


def departed(hashes: Sequence[int], written: Sequence[int] | None = None) -> pa.Table:
    """Rows of files that wait in failsafe, in as many parts as the ledger would have."""
    count = len(hashes)
    rows = pa.table(
        {
            "path": [f"file:///lake/t/{number}.parquet" for number in hashes],
            "key_hash": list(hashes),
            "kind": ["data"] * count,
            "bytes": [1] * count,
            "owner": [OWNER if number % 2 else "b" for number in hashes],
            "plan_id": [f"e{number % 7:015d}" for number in hashes],
            "departed_at": [NOW] * count,
            "due_at": [NOW] * count,
            "state": ["failsafe"] * count,
            "recorded_at": [NOW] * count,
            "written_ns": list(written or [1] * count),
            "marker": [""] * count,
        },
        schema=DEPARTURES,
    )
    parts = [rows.slice(first, OF_A_FILE) for first in range(0, count, OF_A_FILE)]
    return pa.concat_tables(parts) if parts else rows


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 9)), unique=True))
def test_the_row_that_was_written_last_tells_of_a_file(written: list[tuple[int, int]]) -> None:
    rows = departed([key for key, _ in written], [moment for _, moment in written])
    found = newest_rows(rows)
    newest = {key: moment for key, moment in sorted(written)}
    keys, moments = (found.column(name).to_pylist() for name in ("key_hash", "written_ns"))
    assert sorted(zip(keys, moments, strict=True)) == sorted(newest.items())


def weighed(rows: pa.Table) -> UsageTotals:
    query = UsageQuery(NOW, OwnerIndex([]), {}, [], ())
    return weigh(query, [], columns([], MANIFEST_COLUMNS), rows, OF_A_FILE)


def test_each_owner_has_what_departed_from_it_over_all_parts() -> None:
    even = departed(range(0, 10 * OF_A_FILE, 2))
    odd = departed([1])  # of an owner that no part before has
    found = weighed(pa.concat_tables([even, odd]))
    assert found.owned == {("b", Stage.FAILSAFE): 5 * OF_A_FILE, (OWNER, Stage.FAILSAFE): 1}


def waiting(rows: pa.Table) -> TombstoneCache:
    return TombstoneCache.of(rows.select(COLUMNS)).of_states([DepartureState.FAILSAFE])


@pytest.mark.parametrize("take", [waiting, weighed])
def test_a_departure_takes_few_bytes(take: Callable[[pa.Table], object]) -> None:
    scattered = np.random.default_rng(1).integers(-(2**62), 2**62, COUNT).tolist()
    rows = departed(scattered)
    with peak() as pool:
        take(rows)
    assert pool.max_memory() < MOST * COUNT


@contextmanager
def peak() -> Iterator[pa.MemoryPool]:
    """Counts what Arrow takes meanwhile."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)
