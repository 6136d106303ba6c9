"""A structured-streaming query of real Spark, restarted from its checkpoint after an expiration.

A query that dies between its commit to the table and the end of its batch in the checkpoint runs
that batch again. What keeps it from writing the rows twice is its mark in the table's history.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spark.warehouse import DAY, TODAY, Warehouse
from tests.unit.streaming import Answer, answers

pytestmark = pytest.mark.spark

TABLE = "sink"
ACCOUNT = """
account: {{profile: lakehouse, retention-days: 1, failsafe-days: 0, reader-grace: 0s,
          writer-keep-days: {days}}}
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
