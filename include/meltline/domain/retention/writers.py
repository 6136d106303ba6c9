"""The marks of streaming writers: where Flink, Kafka Connect and Spark go on when they restart.

Each writes how far it has come into the summary of the snapshot that it commits. When it starts
again it walks from the head of its branch along the parents until it meets its own mark, and stops
at the first parent that is not there. A walk that ends early takes nothing for committed: what was
in flight comes twice, or the job does not start. So the way from the head to the mark is kept.

The walks stand in Apache Iceberg:

- Flink: `SinkUtil.getMaxCommittedCheckpointId` of `org.apache.iceberg.flink.sink`, and the same in
  `DynamicCommitter`: from `table.snapshot(branch)` to the first snapshot with the job's id, a
  checkpoint, and the operator's id or none. Old versions wrote no operator.
- Kafka Connect: `Coordinator.lastCommittedOffsetsForTable` of `org.apache.iceberg.connect.channel`:
  from the branch to the first snapshot with `kafka.connect.offsets.TOPIC.GROUP`. Tabular's
  connector, from which it comes, has the same key.
- Spark: `SparkWrite.BaseStreamingWrite.findLastCommittedEpochId` of
  `org.apache.iceberg.spark.source`: from `table.currentSnapshot()` to the first snapshot with the
  query's id. It may be told to write to another branch, so every branch counts here as well.
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
    """Who leaves marks."""

    FLINK = "Flink"
    KAFKA_CONNECT = "Kafka Connect"
    SPARK = "Spark"


@dataclass(frozen=True)
class Writer:
    """One streaming writer, as it knows itself.

    Attributes:
        engine: Which one it runs on.
        id: A Flink job, a Kafka Connect control topic and group, a Spark query.
        operator: Of Flink; empty where the snapshot does not say, which ends any operator's walk.
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
        writer: Whose it is.
        branch: Along which branch.
        snapshot_id: The newest snapshot there that carries its mark.
        seen_at: When that was committed: the last that was heard of the writer there.
        steps: How many snapshots the walk meets, the head and this one included.
    """

    writer: Writer
    branch: str
    snapshot_id: int
    seen_at: datetime
    steps: int


def marks_on(state: TableMetadata, branches: Mapping[str, int]) -> Iterator[WriterMark]:
    """Every writer's newest mark on each branch, as far as the chain of parents is whole.

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
    """Those of writers that are not silent; a mark exactly as old as `keep` counts."""
    return tuple(mark for mark in marks if mark.seen_at >= as_of - keep)


def walks(state: TableMetadata, marks: Iterable[WriterMark]) -> dict[str, list[int]]:
    """By branch, the snapshots that the longest walk to one of the marks meets, newest first."""
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
    """The writers whose marks a snapshot carries."""
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
