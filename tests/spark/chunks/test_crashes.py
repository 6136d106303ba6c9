"""A run or a pass that is killed at a line of its protocol: the next one ends where it would have.

The lines are those of `meltline.app.chunks.drop` and of one pass of replication. A process is
killed by its ports: from that line on none of its calls does anything.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.app.chunks.drop import begun_drops
from meltline.app.chunks.replication.declare import CONSUMER
from meltline.app.retention.consumers import find_consumers
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Chunk, ChunkStatus
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import SyncState, read_dropped
from meltline.ports import CopyOutcome, CopyRequest, Prove
from tests.lives.kills import Killed, Port, Process
from tests.spark.chunks.lake_of_chunks import ChunkLake, dropped

pytestmark = pytest.mark.spark

_CONTROL = ("plans", "verdicts", "chunks", "syncs", "audit")
EPOCH_OF_AGES = 6  # days: the drop age of these tests' policies
DAYS = tuple(range(40, 20, -1))
"""A chunk for each case; a run of a past date drops only those that were old enough then."""
DROP_LINES: Mapping[str, tuple[str, int]] = {
    "items": ("items.store", 1),
    "header": ("control.plans.add", 1),
    "verdict": ("control.verdicts.save", 1),
    "passed": ("control.plans.move_all", 1),
    "cold told": ("cold.edit_table", 1),
    "chunks told": ("control.chunks.move", 1),
    "applying": ("control.plans.move", 3),  # `move_all` is counted with it, twice by now
    "commit": ("dropper.drop", 1),
    "stamps": ("control.chunks.advance", 1),
    "applied": ("control.plans.move", 4),
}
PASS_LINES: Mapping[str, tuple[str, int]] = {
    "shape carried": ("cold.edit_table", 1),
    "chunks stamped": ("control.chunks.advance", 1),
    "published": ("replicator.copy", 1),
    "ledger saved": ("control.syncs.save", 1),
    "consumer moved": ("hot.edit_table", 1),
}


def mortal(context: RunContext, process: Process) -> RunContext:
    """Services all of whose writes go through a process."""
    control = {p: Port(getattr(context.control, p), f"control.{p}", process) for p in _CONTROL}
    assert context.cold is not None
    ports: dict[str, Any] = {
        "control": replace(context.control, **control),
        "files": replace(context.files, items=_port(context.files.items, "items", process)),
        "cold": replace(context.cold, editor=_port(context.cold.editor, "cold", process)),
        "editors": {n: Port(e, "hot", process) for n, e in context.editors.items()},
        "dropper": Port(context.dropper, "dropper", process),
        "replicator": Port(context.replicator, "replicator", process),
    }
    return replace(context, **ports)


def _port(target: object, name: str, process: Process) -> Any:
    return Port(target, name, process)


def killed(lake: ChunkLake, line: tuple[str, int], work: Callable[[RunContext], object]) -> None:
    """Does something in a process that dies once this line has taken effect."""
    process = Process(line[1], after=True, about=line[0])
    with pytest.raises(Killed):
        work(mortal(lake.services(), process))
    assert process.struck_at == line[0]


# --- the drop -------------------------------------------------------------------------------------


@dataclass
class Months:
    """A table of many old days, each of which one case drops."""

    lake: ChunkLake
    left: list[int]

    def oldest(self) -> tuple[str, dict[str, Any]]:
        """The next chunk that is old enough, and the request that finds it so, and no other."""
        ago = self.left.pop(0)
        as_of = self.lake.today - timedelta(days=ago - EPOCH_OF_AGES - 1)
        return self.lake.day(ago), {"as_of": as_of}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChunkLake]:
    yield ChunkLake.empty(tmp_path_factory.mktemp("crashes"))


@pytest.fixture(scope="module")
def months(lake: ChunkLake) -> Iterator[Months]:
    lake.create("months")
    lake.insert("months", *DAYS, 0)
    lake.sync("months")
    lake.follow("months")
    lake.policy("months", PolicyType.RETENTION)
    yield Months(lake, list(DAYS))


@pytest.fixture(scope="module")
def unharmed(months: Months) -> tuple[object, ...]:
    """What a chunk is after a run that nobody has killed."""
    name, asked = months.oldest()
    assert dropped(months.lake.run("months", **asked)) == [name]
    return gist(months.lake, name)


def gist(lake: ChunkLake, name: str) -> tuple[object, ...]:
    chunk: Chunk = lake.chunks("months")[name]
    told = read_dropped(lake.cold_document("months")["properties"])
    assert chunk.cold_base == told[name] and chunk.drop_plan and chunk.dropped_at
    return (chunk.status, chunk.rows, chunk.files, chunk.dropped_rows, chunk.last_write)


@pytest.mark.parametrize("line", DROP_LINES)
def test_a_run_killed_at_a_line_of_the_drop_is_finished_by_the_next_one(
    months: Months, unharmed: tuple[object, ...], line: str
) -> None:
    lake = months.lake
    name, asked = months.oldest()
    everything, cold = lake.both("months"), lake.cold_files("months")
    killed(lake, DROP_LINES[line], lambda context: lake.run("months", services=context, **asked))
    assert lake.both("months") == everything
    again = lake.run("months", **asked)
    assert again.summary.exit_code == 0
    assert gist(lake, name) == unharmed and name not in lake.hot_days("months")
    assert (dropped(again) == [name]) == (line != "applied")
    assert begun_drops(lake.services()) == []
    assert lake.both("months") == lake.cold("months") == everything
    assert lake.cold_files("months") == cold
    lake.follow("months")
    assert lake.cold("months") == everything
    drops = [s["summary"] for s in lake.w.document("months")["snapshots"]]
    plans = [summary["meltline.plan-id"] for summary in drops if "meltline.plan-id" in summary]
    assert len(plans) == len(set(plans)) == sum(_is_gone(c) for c in lake.chunks("months").values())


def _is_gone(chunk: Chunk) -> bool:
    return chunk.status is ChunkStatus.DROPPED


# --- replication ----------------------------------------------------------------------------------


def changed(lake: ChunkLake, table: str) -> None:
    """Rows that come, go and change, and a new column."""
    lake.insert(table, 9, 0)
    first, width = lake.hot(table)[0][0], len(lake.hot(table)[0])
    lake.w.sql(
        f"ALTER TABLE {{{table}}} ADD COLUMN c{width} INT",
        f"UPDATE {{{table}}} SET v = 'changed' WHERE id = {first}",
        f"DELETE FROM {{{table}}} WHERE id = {lake.hot(table)[-1][0]}",
    )


@pytest.fixture(scope="module")
def followed(lake: ChunkLake) -> Iterator[str]:
    """A table one chunk of which cold alone has."""
    lake.synced("followed", 10, 9, 8, 0, type=PolicyType.RETENTION, mode="merge-on-read")
    lake.run("followed", as_of=lake.today - timedelta(days=3))
    assert lake.hot_days("followed") == lake.days(9, 8, 0)
    yield "followed"


def consumed(lake: ChunkLake, table: str) -> list[int | None]:
    found = find_consumers(lake.services(), lake.name(table)).consumers
    return [consumer.snapshot_id for consumer in found if consumer.name == CONSUMER]


def same_in_cold(lake: ChunkLake, table: str, only_in_cold: int) -> None:
    """Cold has exactly what hot has, each row once, and what was dropped."""
    hot, cold = lake.hot(table), lake.cold(table)
    assert len(cold) == len(hot) + only_in_cold and set(hot) <= set(cold)
    sync = lake.sync_of(table)
    assert sync.state is SyncState.STREAMING and sync.committed
    assert sync.committed.snapshot_id == lake.head(table)
    assert sync.cold_snapshot == lake.cold_document(table)["current-snapshot-id"]
    assert list(lake.cold_document(table)["refs"]) == ["main"]
    assert consumed(lake, table) == [lake.head(table)]


@pytest.mark.parametrize("line", PASS_LINES)
def test_a_pass_killed_at_a_line_is_finished_by_the_next_one(
    lake: ChunkLake, followed: str, line: str
) -> None:
    changed(lake, followed)
    killed(lake, PASS_LINES[line], lambda context: lake.replicate(followed, services=context))
    lake.follow(followed)
    same_in_cold(lake, followed, only_in_cold=2)


@dataclass
class KilledBeforePublishing:
    """A replicator that dies when all is written to the branch.

    What it would tidy up in dying is undone: a process that is killed tidies nothing.

    Attributes:
        database: The cold catalog's.
    """

    real: Any
    database: Path

    def copy(self, request: CopyRequest, prove: Prove | None = None) -> CopyOutcome | None:
        then = self.database.with_suffix(".then")

        def die(snapshot: int) -> Mapping[str, str]:
            if prove is not None:
                prove(snapshot)
            shutil.copy(self.database, then)
            raise Killed

        try:
            outcome: CopyOutcome | None = self.real.copy(request, die)
        finally:
            shutil.copy(then, self.database)
        return outcome


def test_a_pass_killed_with_its_branch_written_leaves_colds_main_as_it_was(
    lake: ChunkLake, followed: str
) -> None:
    changed(lake, followed)
    lake.replicate(followed)  # cold has the new column by now
    lake.w.sql(f"DELETE FROM {{{followed}}} WHERE id = {lake.hot(followed)[0][0]}")
    lake.insert(followed, 8)
    before = lake.cold(followed)
    context = lake.services()
    dying = KilledBeforePublishing(context.replicator, lake.w.root / "cold.db")
    with pytest.raises(Killed):
        lake.replicate(followed, services=replace(context, replicator=dying))
    assert "meltline_pass" in lake.cold_document(followed)["refs"]
    assert lake.cold(followed) == before
    lake.follow(followed)
    same_in_cold(lake, followed, only_in_cold=2)


FIRST_LINES = {line: PASS_LINES[line] for line in ("published", "ledger saved")}


@pytest.mark.parametrize("line", FIRST_LINES)
def test_a_first_copy_that_is_killed_is_made_anew_and_no_row_stands_twice(
    lake: ChunkLake, line: str
) -> None:
    table = f"first_{line.replace(' ', '_')}"
    lake.create(table)
    lake.insert(table, 9, 0)
    lake.sync(table)
    assert lake.sync_of(table).state is SyncState.COPYING
    killed(lake, FIRST_LINES[line], lambda context: lake.replicate(table, services=context))
    lake.follow(table)
    same_in_cold(lake, table, only_in_cold=0)
