"""Archived history read by time and brought back, over tables with deletes of every kind."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_reader import StoreCopyReader
from meltline.adapters.archive.retrieval import ColdRetriever
from meltline.adapters.archive.spark_archive import SparkCrew
from meltline.app.restore.restore import Restored, restore
from meltline.app.restore.tiers import COLD, locate_anywhere
from meltline.app.services import ReadContext, Retrieval
from meltline.app.time_travel.query import SchemaChoice, query
from meltline.cli.main import run
from meltline.config.load import load_config
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.clock import NOW
from meltline.domain.iceberg.names import TableName
from meltline.domain.time_travel.timetravel import Moment, PointSide, TravelPoint
from meltline.domain.units import format_instant
from meltline.ports import ReadRows
from meltline.wiring import Wiring
from tests.spark.setups import merge_on_read, walk
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

CONFIG = """\
  reading_cold:
    type: sql
    uri: sqlite:///cold.db
    warehouse: cold
cold: reading_cold
deep: deep
account: {retention-days: 7, cold: all, cold-retention-days: 20}
"""
TABLES = {"old": 2, "new": 3}
each_table = pytest.mark.parametrize("table", TABLES)


@dataclass(frozen=True)
class Tiers:
    """A hot warehouse whose history has gone to cold, and what its snapshots held."""

    hot: Warehouse
    wiring: Wiring
    ledgers: ReadContext
    before: dict[str, dict[int, list[str]]]

    @property
    def cold_folder(self) -> Path:
        return self.hot.root / "cold"

    def name(self, table: str) -> TableName:
        return TableName(self.hot.catalog, (SPACE,), table)

    def archived(self, table: str) -> list[ArchivedSnapshot]:
        return [c for c in self.ledgers.control.archived.all() if c.table == self.name(table)]

    def retrieval(self, few: int) -> Retrieval:
        """As wired, but that executors do the work where there is more of it than `few`."""
        assert self.ledgers.cold is not None
        cold, hot = self.ledgers.cold.store, self.ledgers.store
        retriever = ColdRetriever(
            Stores(cold, hot, "file:///unused"), partial(SparkCrew, self.hot.spark, few=few)
        )
        return Retrieval(retriever, StoreCopyReader(cold, hot))

    def restore(self, target: str, copy: ArchivedSnapshot, few: int) -> Restored:
        return restore(
            self.ledgers,
            lambda: self.retrieval(few),
            str(self.name(target)),
            copy.table,
            snapshot_id=copy.snapshot_id,
        )


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """A warehouse is not there, for a while."""
    gone = folder.rename(folder.with_name(f"{folder.name}-gone"))
    try:
        yield
    finally:
        gone.rename(folder)


@pytest.fixture(scope="module")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Tiers:
    hot = Warehouse.empty(tmp_path_factory.mktemp("reading"), "reading_hot", CONFIG)
    hot.init()
    for table, version in TABLES.items():
        merge_on_read.history(hot, table, version)
        hot.sql(f"ALTER TABLE {{{table}}} DROP TAG early")
        hot.stage(table, 30 * DAY, 20 * DAY)
    before = hot.all_contents()
    assert hot.run(TODAY).exit_code == 0
    environ = {**os.environ, NOW: TODAY.isoformat(), "MELTLINE_USER": "tester"}
    wiring = Wiring(load_config(hot.yaml, environ, hot.root), environ, lambda line: None)
    return Tiers(hot, wiring, wiring.ledgers(), before)


def as_stock(read: ReadRows) -> list[dict[str, Any]]:
    names = [column.name for column in read.columns]
    rows = [dict(zip(names, row, strict=True)) for row in read.rows]
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["id"]))


@each_table
def test_with_hot_gone_each_archived_time_has_its_rows(tiers: Tiers, table: str) -> None:
    copies = [c for c in tiers.archived(table) if c.validity.start != c.validity.end]
    assert len(copies) > 5
    find = partial(locate_anywhere, allow_cold=True)
    reader = tiers.wiring.snapshot_reader
    for copy in copies:
        point = TravelPoint(PointSide.AT, Moment(copy.validity.start))
        with away(tiers.hot.folder):
            answer = query(
                tiers.ledgers, reader, tiers.name(table), point, schema=SchemaChoice.SNAPSHOT,
                find=find,
            )  # fmt: skip
        assert answer.located.tier == COLD
        assert answer.located.resolved.valid_to == copy.validity.end
        expected = [json.loads(row) for row in tiers.before[table][copy.snapshot_id]]
        assert in_order(as_stock(answer.read)) == in_order(expected)


@each_table
@pytest.mark.parametrize("few", [0, 1000], ids=["executors", "here"])
def test_a_restored_table_has_the_rows_and_needs_nothing_of_cold(
    tiers: Tiers, table: str, few: int
) -> None:
    copy, target = tiers.archived(table)[-1], f"{table}_{few}"
    cold = walk.disk(tiers.cold_folder)
    tiers.restore(target, copy, few)
    assert walk.disk(tiers.cold_folder) == cold
    hot = tiers.hot
    with away(tiers.cold_folder):
        assert hot.contents(target) == {copy.snapshot_id: tiers.before[table][copy.snapshot_id]}
        hot.sql(
            f"INSERT INTO {{{target}}} SELECT * FROM {{{target}}} WHERE id < 20",
            f"DELETE FROM {{{target}}} WHERE id % 3 = 0",
            f"CALL expire_snapshots(table => '{SPACE}.{target}', retain_last => 1,"
            f" older_than => TIMESTAMP '2999-01-01 00:00:00')",
        )
        (rows,) = hot.contents(target).values()
    kept = [json.loads(row) for row in tiers.before[table][copy.snapshot_id]]
    left = [row["id"] for row in kept if row["id"] % 3]
    assert sorted(json.loads(row)["id"] for row in rows) == sorted(
        [*left, *(id for id in left if id < 20)]
    )


@dataclass(frozen=True)
class Command:
    """Runs commands some days from now, and reads their one JSON document."""

    lake: Warehouse
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str, days: int = 0) -> tuple[int, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MELTLINE_CONFIG", str(self.lake.yaml))
            patch.setenv(NOW, format_instant(TODAY + days * DAY))
            self.capsys.readouterr()
            code = run([*words, "--json"])
        return code, json.loads(self.capsys.readouterr().out)


def test_the_commands_read_restore_deepen_and_prune(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Warehouse.empty(tmp_path, "pruned_hot", CONFIG.replace("reading_cold", "pruned_cold"))
    lake.init()
    merge_on_read.history(lake, "t", 2)
    lake.sql("ALTER TABLE {t} DROP TAG early", "ALTER TABLE {t} DROP TAG late")
    lake.stage("t", 30 * DAY, 20 * DAY)
    before = lake.contents("t")
    assert lake.run(TODAY).exit_code == 0
    meltline, name = Command(lake, capsys), f"pruned_hot.{SPACE}.t"
    _, listed = meltline("cold", "list", name)
    first, *_, last = [copy["snapshot_id"] for copy in listed["snapshots"]]
    point = ("--at", "--timestamp", format_instant(TODAY - 30 * DAY))

    code, refused = meltline("query", name, *point)
    assert code == 2 and "--allow-cold" in refused["error"]["next"]
    code, answer = meltline("query", name, *point, "--allow-cold")
    assert (code, answer["resolved"]["tier"]) == (0, "cold")
    assert (answer["resolved"]["snapshot_id"], len(answer["rows"])) == (first, len(before[first]))

    restored = ("restore", f"{name}_back", "--from-cold", name, "--snapshot", str(last))
    code, done = meltline(*restored, "--dry-run")
    assert (code, done["snapshot_id"], done["dry_run"]) == (0, last, True)
    code, done = meltline(*restored)
    assert code == 0 and lake.contents("t_back") == {last: before[last]}

    code, deep = meltline("cold", "deepen", name)
    assert code == 0 and deep["tables"][0]["snapshots"] == len(listed["snapshots"])
    kept = walk.disk(tmp_path / "deep")
    assert len(kept) == deep["tables"][0]["files"] > 10

    prune = (
        "cold",
        "prune",
        name,
        "--before",
        format_instant(TODAY),
        "--reason",
        "enough",
        "--yes",
    )
    code, early = meltline(*prune)
    assert (code, early["error"]["type"]) == (3, "HoldInForce")
    code, gone = meltline(*prune, days=21)
    assert (code, len(gone["prunes"][0]["snapshots"])) == (0, len(listed["snapshots"]) - 1)
    assert gone["prunes"][0]["deleted"] > 0 and walk.disk(tmp_path / "deep") == kept
    cold = Warehouse(tmp_path, "pruned_cold", lake.spark)
    left = cold.spark.sql(f"SELECT to_json(struct(*)) FROM {cold.name('t')} VERSION AS OF {last}")
    assert sorted(row[0] for row in left.collect()) == before[last]
    code, whole = meltline("cold", "verify", name, days=21)
    assert code == 0 and [one["snapshot_id"] for one in whole["snapshots"]] == [last]


@each_table
def test_a_restored_table_has_the_columns_and_partitions_of_its_snapshot(
    tiers: Tiers, table: str
) -> None:
    copies = tiers.archived(table)
    for copy, columns, fields in ((copies[0], 3, 1), (copies[-1], 4, 2)):
        target = f"{table}_shape_{columns}"
        tiers.restore(target, copy, 1000)
        document = tiers.hot.document(target)
        (schema,) = (
            s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"]
        )
        (spec,) = (
            s for s in document["partition-specs"] if s["spec-id"] == document["default-spec-id"]
        )
        assert (len(schema["fields"]), len(spec["fields"])) == (columns, fields)
        assert document["format-version"] == TABLES[table]
        assert copy.snapshot_id == document["current-snapshot-id"]
