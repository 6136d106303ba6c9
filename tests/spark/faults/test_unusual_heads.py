"""Heads that Iceberg's own library refuses: ours says of which, and nothing tries to load them.

The library tries to load such a head twenty times, for a minute and a half, before it gives up.
"""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from meltline.adapters.spark.jvm import ENGINE_FAILURES
from meltline.domain.deletion.refused_heads import load_refusal
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.timeline import current_at
from meltline.domain.units import from_millis
from tests.seeds import SEED, examples
from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse, tables_of

pytestmark = pytest.mark.spark

SHIFTS = (-180_000, -60_001, -60_000, -1_000, 0, 0, 0, 0, 30_000, 90_000)  # milliseconds


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    w = Warehouse.empty(tmp_path_factory.mktemp("unusual"), "unusual")
    for table in ("late", "well"):
        w.create(table)
        w.overwrite(table, 0, 10, 20)
        w.stage(table, 30 * DAY, 20 * DAY)
    return w


def shifted(document: walk.Document, chance: random.Random) -> walk.Document:
    """The same head with other times in its logs."""
    for entry in (*document["snapshot-log"], *document["metadata-log"]):
        entry["timestamp-ms"] += chance.choice(SHIFTS)
    document["last-updated-ms"] += chance.choice(SHIFTS)
    return document


def test_exactly_the_heads_that_iceberg_refuses_are_said_to_be_refused(lake: Warehouse) -> None:
    chance = random.Random(SEED)
    parser = lake.spark._jvm.org.apache.iceberg.TableMetadataParser  # type: ignore[union-attr]
    refused = 0
    for _ in range(examples(60, 300)):
        document = shifted(lake.document("late"), chance)
        told = load_refusal(parse_table(TableName("c", ("n",), "t"), "file:/x", 1, document))
        try:
            parser.fromJson("file:/x", json.dumps(document))
            assert not told, document
        except ENGINE_FAILURES as failure:
            assert told, failure
            refused += 1
    assert refused


def put_head(w: Warehouse, table: str, change: Callable[[walk.Document], None]) -> None:
    """Leaves another head in the catalog, as a foreign writer does."""
    before = w.location(table)
    document = walk.document(before)
    change(document)
    head = Path(walk.local(before)).with_name(f"00099-{change.__name__}.metadata.json")
    head.write_text(json.dumps(document))
    with closing(sqlite3.connect(w.db)) as connection:
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?",
            (f"file://{head}", table),
        )
        connection.commit()


def committed_late(document: walk.Document) -> None:
    """A head as PyIceberg leaves it whose transaction began before somebody else's commit."""
    document["last-updated-ms"] = document["metadata-log"][-1]["timestamp-ms"] - 120_000
    document["snapshot-log"] = []


def logged_late(document: walk.Document) -> None:
    """The second of three commits came by a clock that is half a minute ahead."""
    second = document["snapshot-log"][-2]
    second["timestamp-ms"] = document["snapshot-log"][-1]["timestamp-ms"] + 30_000


def test_an_instant_means_what_iceberg_says_where_clocks_differ(lake: Warehouse) -> None:
    lake.create("clocks")
    lake.overwrite("clocks", 0, 10, 20)
    put_head(lake, "clocks", logged_late)
    document, jvm = lake.document("clocks"), lake.spark._jvm
    assert jvm is not None
    state = parse_table(TableName("c", ("n",), "t"), lake.location("clocks"), 1, document)
    times = [entry["timestamp-ms"] for entry in document["snapshot-log"]]
    assert times != sorted(times)
    name = f"{lake.catalog}.{SPACE}.clocks"
    lake.spark.sql(f"REFRESH TABLE {name}")
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        lake.spark._jsparkSession, name
    )
    for instant in [time + after for time in times for after in (0, 1, 10_000, 40_000)]:
        theirs = jvm.org.apache.iceberg.util.SnapshotUtil.snapshotIdAsOfTime(table, instant)
        assert current_at(state, from_millis(instant), from_millis(instant)) == theirs


def test_a_table_whose_head_iceberg_refuses_is_left_out_and_the_others_expire(
    lake: Warehouse,
) -> None:
    put_head(lake, "late", committed_late)
    lake.init()
    summary = lake.run(TODAY)
    tables = tables_of(summary)
    assert "Iceberg's Java library" in tables["late"]["skipped"]
    assert tables["late"]["snapshots_expired"] == 0
    assert tables["well"]["snapshots_expired"] == 2
    assert {plan.table for plan in summary.plans.values()} == {
        TableName(lake.catalog, (SPACE,), "well")
    }
    assert summary.exit_code == 4
