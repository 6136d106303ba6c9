"""What streaming engines do when they restart: their walks, by the behaviour of their sources.

Nothing of Meltline is used. Each walk begins at a branch's head and ends at the first snapshot with
the writer's mark, or, without an answer, where a parent is missing. See
`meltline.domain.retention.writers` for where the walks stand in Apache Iceberg.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tests.lives.oracle import MAIN, Document, ancestry, when

Summary = Mapping[str, str]


def flink_mark(job: str, checkpoint: int, operator: str | None = "sink") -> dict[str, str]:
    """What Flink's committer sets; versions before 1.2 set no operator."""
    mark = {"flink.job-id": job, "flink.max-committed-checkpoint-id": str(checkpoint)}
    return mark if operator is None else {**mark, "flink.operator-id": operator}


def kafka_mark(group: str, offset: int, topic: str = "control") -> dict[str, str]:
    """What the coordinator of Kafka Connect sets."""
    return {
        f"kafka.connect.offsets.{topic}.{group}": json.dumps({"0": offset}),
        "kafka.connect.commit-id": f"commit-{offset}",
    }


def spark_mark(query: str, epoch: int) -> dict[str, str]:
    """What Spark's streaming write sets."""
    return {"spark.sql.streaming.queryId": query, "spark.sql.streaming.epochId": str(epoch)}


def flink_checkpoint(document: Document, job: str, operator: str, branch: str = MAIN) -> int:
    """The newest checkpoint that a restarted job takes for committed; -1: none."""
    for summary, _ in _line(document, branch):
        at = summary.get("flink.max-committed-checkpoint-id")
        ours = summary.get("flink.operator-id") in (None, operator)
        if summary.get("flink.job-id") == job and ours and at is not None:
            return int(at)
    return -1


def kafka_offsets(
    document: Document, group: str, branch: str = MAIN, topic: str = "control"
) -> dict[str, int]:
    """The offsets from which a restarted connector takes events; empty: it takes all again."""
    for summary, _ in _line(document, branch):
        if (offsets := summary.get(f"kafka.connect.offsets.{topic}.{group}")) is not None:
            return dict(json.loads(offsets))
    return {}


def spark_epoch(document: Document, query: str, branch: str = MAIN) -> int | None:
    """The newest epoch that a restarted query does not commit again; None: it commits any."""
    for summary, _ in _line(document, branch):
        if summary.get("spark.sql.streaming.queryId") == query:
            return int(summary["spark.sql.streaming.epochId"])
    return None


@dataclass(frozen=True)
class Answer:
    """What a writer's walk finds: its words, and the snapshot that has them."""

    words: str
    snapshot_id: int
    at: datetime


def answers(document: Document, of: Document | None = None) -> dict[tuple[str, ...], Answer]:
    """What every writer that ever left a mark finds on every branch where it still finds one.

    `of` is a table that knows the writers: one of which nothing is left asks all the same.
    """
    walkers = _walkers(of or document)
    found: dict[tuple[str, ...], Answer] = {}
    for branch, ref in document["refs"].items():
        if ref["type"] == "branch":
            for who, ends in walkers.items():
                if answer := _walked(document, branch, ends):
                    found[branch, *who] = answer
    return found


Ends = Callable[[Summary], str | None]


def _walkers(document: Document) -> dict[tuple[str, ...], Ends]:
    """Every writer, and what makes its walk end."""
    walkers: dict[tuple[str, ...], Ends] = {}
    for snapshot in document["snapshots"]:
        said = snapshot["summary"]
        if job := said.get("flink.job-id"):
            operator = said.get("flink.operator-id", "any")
            walkers["flink", job, operator] = _flink(job, operator)
        if query := said.get("spark.sql.streaming.queryId"):
            walkers["spark", query] = _spark(query)
        for key in (key for key in said if key.startswith("kafka.connect.offsets.")):
            walkers["kafka", key] = _kafka(key)
    return walkers


def _flink(job: str, operator: str) -> Ends:
    def ends(said: Summary) -> str | None:
        ours = said.get("flink.job-id") == job and said.get("flink.operator-id", operator)
        return said.get("flink.max-committed-checkpoint-id") if ours == operator else None

    return ends


def _spark(query: str) -> Ends:
    def ends(said: Summary) -> str | None:
        ours = said.get("spark.sql.streaming.queryId") == query
        return said.get("spark.sql.streaming.epochId") if ours else None

    return ends


def _kafka(key: str) -> Ends:
    return lambda said: said.get(key)


def _walked(document: Document, branch: str, ends: Ends) -> Answer | None:
    for summary, snapshot in _line(document, branch):
        if (words := ends(summary)) is not None:
            return Answer(words, snapshot["snapshot-id"], when(snapshot["timestamp-ms"]))
    return None


def _line(document: Document, branch: str) -> Iterator[tuple[Summary, Document]]:
    """From a branch's head along the parents, as far as they are there."""
    for snapshot in ancestry(document, document["refs"][branch]["snapshot-id"]):
        yield snapshot["summary"], snapshot
