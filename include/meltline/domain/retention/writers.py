"""Marks of streaming writers: where Flink, Kafka Connect and Spark resume after a restart.

Each writes its progress into the summary of the snapshot that it commits. After a restart it walks
from the head of its branch along the parents until it finds its own mark, and stops at the first
parent that is missing. A walk that ends early treats nothing as committed: data in flight is
written twice, or the job does not start. So the snapshots from the head to the mark are kept.

The walks are implemented in Apache Iceberg:

- Flink: `SinkUtil.getMaxCommittedCheckpointId` of `org.apache.iceberg.flink.sink`, and the same in
  `DynamicCommitter`: from `table.snapshot(branch)` to the first snapshot with the job's id, a
  checkpoint, and the operator's id or none. Old versions wrote no operator.
- Kafka Connect: `Coordinator.lastCommittedOffsetsForTable` of `org.apache.iceberg.connect.channel`:
  from the branch to the first snapshot with `kafka.connect.offsets.TOPIC.GROUP`. Tabular's
  connector, from which it comes, has the same key.
- Spark: `SparkWrite.BaseStreamingWrite.findLastCommittedEpochId` of
  `org.apache.iceberg.spark.source`: from `table.currentSnapshot()` to the first snapshot with the
  query's id. It may be configured to write to another branch, so every branch counts here as well.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata

FLINK_JOB = "flink.job-id"
FLINK_OPERATOR = "flink.operator-id"
FLINK_CHECKPOINT = "flink.max-committed-checkpoint-id"
KAFKA_OFFSETS = "kafka.connect.offsets."
SPARK_QUERY = "spark.sql.streaming.queryId"
_PREFIXES = ("flink.", KAFKA_OFFSETS, SPARK_QUERY)


class Engine(StrEnum):
    """The engines whose streaming writers leave marks."""

    FLINK = "Flink"
    KAFKA_CONNECT = "Kafka Connect"
    SPARK = "Spark"


@dataclass(frozen=True)
class Writer:
    """The identity of one streaming writer.

    Attributes:
        engine: The engine it runs on.
        id: A Flink job, a Kafka Connect control topic and group, a Spark query.
        operator: Flink's operator; empty if the snapshot has none, which ends any operator's walk.
    """

    engine: Engine
    id: str
    operator: str = ""

    def __str__(self) -> str:
        id_kinds = {Engine.FLINK: "job ", Engine.KAFKA_CONNECT: "", Engine.SPARK: "query "}
        operator = f" operator {self.operator}" if self.operator else ""
        return f"{self.engine} {id_kinds[self.engine]}{self.id}{operator}"


@dataclass(frozen=True)
class WriterMark:
    """The snapshot at which a writer's walk along a branch ends.

    Attributes:
        writer: The writer that left the mark.
        branch: The branch.
        snapshot_id: The newest snapshot there that carries its mark.
        seen_at: When that was committed: the writer's last sign of life there.
        steps: How many snapshots the walk reads, including the head and this one.
    """

    writer: Writer
    branch: str
    snapshot_id: int
    seen_at: datetime
    steps: int


def marks_on(state: TableMetadata, branches: Mapping[str, int]) -> Iterator[WriterMark]:
    """Yields every writer's newest mark on each branch, as far as the chain of parents is complete.

    Args:
        state: The table.
        branches: Heads by branch.
    """
    for branch, head in branches.items():
        met: set[Writer] = set()
        for steps, snapshot in enumerate(state.ancestry(head), start=1):
            for writer in writers_of(snapshot):
                if met.isdisjoint((writer, replace(writer, operator=""))):
                    met.add(writer)
                    yield WriterMark(
                        writer, branch, snapshot.snapshot_id, snapshot.committed_at, steps
                    )


def still_counting(
    marks: Iterable[WriterMark], as_of: datetime, keep: timedelta
) -> tuple[WriterMark, ...]:
    """Returns the marks of writers that are not silent; a mark exactly as old as `keep` counts."""
    return tuple(mark for mark in marks if mark.seen_at >= as_of - keep)


def walks(state: TableMetadata, marks: Iterable[WriterMark]) -> dict[str, list[int]]:
    """Returns by branch the snapshots on the longest walk to one of the marks, newest first."""
    longest: dict[str, int] = {}
    for mark in marks:
        longest[mark.branch] = max(mark.steps, longest.get(mark.branch, 0))
    ids: dict[str, list[int]] = {}
    for branch, steps in longest.items():
        line = state.ancestry(state.refs[branch].snapshot_id)
        ids[branch] = [
            snapshot.snapshot_id for _, snapshot in zip(range(steps), line, strict=False)
        ]
    return ids


def writers_of(snapshot: Snapshot) -> list[Writer]:
    """Returns the writers whose marks a snapshot carries."""
    summary = snapshot.summary
    keys = [key for key in summary if key.startswith(_PREFIXES)]
    writers: list[Writer] = []
    if FLINK_JOB in keys and FLINK_CHECKPOINT in keys:
        operator = summary[FLINK_OPERATOR] if FLINK_OPERATOR in keys else ""
        writers.append(Writer(Engine.FLINK, summary[FLINK_JOB], operator))
    for key in keys:
        if key.startswith(KAFKA_OFFSETS):
            writers.append(Writer(Engine.KAFKA_CONNECT, key.removeprefix(KAFKA_OFFSETS)))
    if SPARK_QUERY in keys:
        writers.append(Writer(Engine.SPARK, summary[SPARK_QUERY]))
    return writers
