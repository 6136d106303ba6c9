"""Snapshots of the index are in one of two sets, and each keeps its files."""

from typing import Any

import pyarrow as pa
import pytest

from meltline.adapters.index_tables.schema import TABLES
from meltline.adapters.index_tables.snapshot_cache import COLUMNS, KnownSnapshots, Split
from meltline.ports import SnapshotKey


def known(*rows: dict[str, Any]) -> KnownSnapshots:
    columns = [TABLES["snapshots"].field(name) for name in COLUMNS]
    numbered = [
        {"table_uuid": "t", "snapshot_id": number, "manifests": [], **row}
        for number, row in enumerate(rows)
    ]
    return KnownSnapshots(pa.Table.from_pylist(numbered, pa.schema(columns)))


@pytest.mark.parametrize("answer", [False, None])
def test_a_snapshot_that_is_not_known_by_its_changes_counts_as_read_completely(
    answer: bool | None,
) -> None:
    both = known({"by_changes": True}, {"by_changes": answer})
    assert both.on_lines.keys == [SnapshotKey("t", 0)]
    assert both.read_wholly.keys == [SnapshotKey("t", 1)]


def test_a_snapshot_of_unknown_age_may_be_older_than_any_that_leaves() -> None:
    """Else a file that it keeps, and that came back after it, would leave."""
    staying = known({"sequence_number": None}, {"sequence_number": 9})
    leaving = known({"sequence_number": 5})
    assert not Split(pa.table({}), {}, leaving, staying).leaves_the_newer(["t"])
