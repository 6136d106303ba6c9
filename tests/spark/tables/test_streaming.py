"""Streaming writers of the engines themselves, restarted after an expiration.

Of Spark a structured-streaming query, from its checkpoint; of Flink the walk alone, by the class of
its own jar. Kafka Connect's is in a class that needs all of Kafka: its model is in
`tests.lake.streaming`.

A query that dies between its commit to the table and the end of its batch in the checkpoint runs
that batch again. What keeps it from writing the rows twice is its mark in the table's history.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from meltline.jars.jar_paths import jar_folder
from tests.lake.streaming import Answer, answers, flink_checkpoint, flink_mark
from tests.spark.faults.test_known_wrecks import java_table
from tests.spark.setups.warehouse import DAY, TODAY, Warehouse, rows_from

pytestmark = pytest.mark.spark

TABLE = "sink"
ACCOUNT = """
account: {{profile: lakehouse, retention-days: 1, failsafe-days: 0, reader-grace: 0s,
          writer-keep: {days}d}}
limits: {{max-delete-ratio: 1, max-growth: 1000}}
"""


@dataclass
class Stream:
    """A query from a folder of JSON files to a table, one file per batch."""

    w: Warehouse
    received: int = 0

    @property
    def checkpoint(self) -> Path:
        return self.w.root / "checkpoint"

    def receive(self, *ids: int) -> None:
        """A file arrives."""
        source = self.w.root / "source"
        source.mkdir(exist_ok=True)
        lines = (json.dumps({"id": id, "part": 0}) for id in ids)
        self.received += 1
        (source / f"{self.received:03}.json").write_text("\n".join(lines))

    def run(self) -> None:
        """The query starts from its checkpoint, and ends when there is nothing more to read."""
        source = self.w.spark.readStream.schema("id BIGINT, part INT")
        files = source.option("maxFilesPerTrigger", 1).json(str(self.w.root / "source"))
        started = (
            files.writeStream.format("iceberg")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .toTable(self.w.name(TABLE))
        )
        started.awaitTermination()

    def die_before_the_end_of_its_last_batch(self) -> None:
        """The table has the batch; that it is done was not written down any more."""
        last = max((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def rows(self) -> Counter[int]:
        """How often each row stands in the table that came through the stream."""
        return Counter(row.id for row in self.w.sql(f"SELECT id FROM {{{TABLE}}} WHERE part = 0"))

    def walks(self) -> dict[tuple[str, ...], Answer]:
        """What the query's walk finds."""
        return answers(self.w.document(TABLE))


@pytest.mark.parametrize(("days", "twice"), [(30, False), (0, True)])
def test_a_query_that_died_writes_its_last_batch_once_although_history_has_expired(
    tmp_path: Path, days: int, twice: bool
) -> None:
    """With marks that count for nothing, as before they did, the same rows come twice."""
    w = Warehouse.empty(tmp_path, f"streams{days}", ACCOUNT.format(days=days))
    w.init()
    w.create(TABLE)
    stream = Stream(w)
    stream.receive(2, 4)
    stream.run()
    stream.receive(6, 8)
    stream.run()
    stream.die_before_the_end_of_its_last_batch()
    mark = w.snapshots(TABLE)[-1]
    for start in range(4):  # others go on writing: rows of another part
        w.sql(f"INSERT INTO {{{TABLE}}} VALUES ({start}, 1)")
    options = "options => map('rewrite-all', 'true')"
    w.sql(f"CALL rewrite_data_files(table => '{w.catalog}.n.{TABLE}', {options})")
    w.stage(TABLE, 20 * DAY, 2 * DAY)
    (before,) = stream.walks().values()
    assert (before.words, before.snapshot_id) == ("1", mark)

    summary = w.run(TODAY)

    assert summary.exit_code == 0, summary.as_json()
    assert len(w.snapshots(TABLE)) == (1 if twice else 6)
    assert stream.walks() == ({} if twice else {("main", *_query(w)): before})
    stream.receive(10)
    stream.run()
    again = 2 if twice else 1
    assert stream.rows() == Counter({2: 1, 4: 1, 6: again, 8: again, 10: 1})
    assert not w.reachable() - w.disk().keys()


def _query(w: Warehouse) -> tuple[str, str]:
    """How the query calls itself in the table."""
    metadata = json.loads((w.root / "checkpoint" / "metadata").read_text())
    return "spark", metadata["id"]


def flink_jar() -> Path:
    """Iceberg's jar for Flink, that set-up fetched; else the test is skipped."""
    folder = jar_folder(os.environ)
    if jars := sorted(folder.glob("iceberg-flink-*.jar")):
        return jars[-1]
    pytest.skip(f"no iceberg-flink-*.jar in {folder}: set up with MELTLINE_FEATURES=test")


@dataclass
class FlinkSink:
    """What Flink's sink does to the table: commits with its marks, and the walk of a restart."""

    w: Warehouse
    job: str = "5c1f0e9a"
    operator: str = "sink-1"

    def commit(self, checkpoint: int, branch: str) -> None:
        """Rows, with the mark of a checkpoint."""
        marks = flink_mark(self.job, checkpoint, self.operator)
        rows = self.w.spark.sql(f"SELECT {checkpoint}L AS id, 0 AS part")
        into = rows.writeTo(f"{self.w.name(TABLE)}.branch_{branch}")
        for key, value in marks.items():
            into = into.option(f"snapshot-property.{key}", value)
        into.append()

    def committed(self, branch: str) -> int:
        """`SinkUtil.getMaxCommittedCheckpointId`, which Flink calls when a job is restored."""
        jvm: Any = self.w.spark._jvm
        table = java_table(self.w, TABLE)
        urls = self._array(jvm.java.net.URL, jvm.java.io.File(str(flink_jar())).toURI().toURL())
        iceberg = table.getClass().getClassLoader()
        loader = jvm.java.net.URLClassLoader(urls, iceberg)
        text = loader.loadClass("java.lang.String")
        kinds = (iceberg.loadClass("org.apache.iceberg.Table"), text, text, text)
        util = loader.loadClass("org.apache.iceberg.flink.sink.SinkUtil")
        walk = util.getDeclaredMethod(
            "getMaxCommittedCheckpointId", self._array(jvm.java.lang.Class, *kinds)
        )
        walk.setAccessible(True)
        asked = self._array(jvm.java.lang.Object, table, self.job, self.operator, branch)
        return int(walk.invoke(None, asked))

    def _array(self, kind: Any, *items: Any) -> Any:
        gateway: Any = self.w.spark.sparkContext._gateway
        made = gateway.new_array(kind, len(items))
        for place, item in enumerate(items):
            made[place] = item
        return made


@pytest.mark.parametrize(("days", "found"), [(30, 7), (0, -1)])
def test_flinks_own_walk_finds_its_checkpoint_on_every_branch_after_an_expiration(
    tmp_path: Path, days: int, found: int
) -> None:
    w = Warehouse.empty(tmp_path, f"flinks{days}", ACCOUNT.format(days=days))
    w.init()
    w.create(TABLE)
    w.append(TABLE, 0)
    w.sql(f"ALTER TABLE {{{TABLE}}} CREATE BRANCH side")
    sink = FlinkSink(w)
    branches = ("main", "side")
    for branch in branches:
        sink.commit(6, branch)
        sink.commit(7, branch)
    for start in (10, 20, 30):  # others go on writing
        for branch in branches:
            w.sql(f"INSERT INTO {w.name(TABLE)}.branch_{branch} {rows_from(start)}")
    w.stage(TABLE, 20 * DAY, 2 * DAY)
    assert [sink.committed(branch) for branch in branches] == [7, 7]

    summary = w.run(TODAY)

    assert summary.exit_code == 0, summary.as_json()
    assert len(w.snapshots(TABLE)) == (8 if found > 0 else 2)
    assert [sink.committed(branch) for branch in branches] == [found, found]
    model = [flink_checkpoint(w.document(TABLE), sink.job, sink.operator, b) for b in branches]
    assert model == [found, found]
