"""Random lives of a table that is cut into chunks: `tests.chunks.chunked_lake` says what holds."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import ChunkRun, run_chunks
from meltline.app.chunks.settle import doubtful_chunks
from meltline.app.doctor.init import init
from meltline.app.run.steps import CHUNK_STEPS, Step
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import ChunkStatus
from meltline.domain.chunks.cold.cold_rows import COLD_CHANGED
from meltline.domain.chunks.sync import MIXED_FILES, Deletes, SyncState
from meltline.domain.errors import LedgerOutOfStep, LockHeld, MeltlineError, NotChunked, SyncRefused
from tests.chunks.chunk_engines import COLD_OWNER, OTHERS, PEOPLE, WRITES, ChunkEngines
from tests.chunks.chunk_kills import Bystander, ChunkProcess
from tests.chunks.chunk_tables import ID
from tests.chunks.chunked_lake import Accepted, ChunkedLake
from tests.doubles.chunks.rows import chunk_of
from tests.lake.lake import DAY, MINUTE, T0
from tests.lives.kills import Killed
from tests.lives.recorded import RecordedLife, initialize, rule
from tests.lives.second_lakes import second_lake, see_cold_of

_ON_COLD_AS_IT_IS = CHUNK_STEPS[1:]
"""A run without the pass of replication that it begins with: lives have that where they choose."""
NUMBER = st.integers(0, 99)
SPANS = (MINUTE, timedelta(hours=1), timedelta(hours=1), DAY, DAY, 3 * DAY, 8 * DAY)
LATER = st.sampled_from(SPANS)
LINES = st.one_of(
    st.tuples(st.just(""), st.integers(1, 150)),
    st.tuples(st.sampled_from(("replicator", "dropper", "cold", "chunk_rows")), st.integers(1, 6)),
    st.tuples(
        st.sampled_from(("control.chunks", "control.plans", "control.syncs")), st.integers(1, 9)
    ),
)
MOMENTS = st.tuples(
    st.sampled_from(("dropper", "control.verdicts", "control.plans", "chunk_rows", "replicator",
                     "chunk_files", "control.chunks", "control.syncs")),
    st.integers(1, 6),
)  # fmt: skip
READING = st.tuples(st.sampled_from(("control.chunks", "control.syncs")), st.integers(1, 3))
DECISIONS = st.sampled_from(["", "", "mirror", "keep", "anew"])


def some(*actions: str) -> st.SearchStrategy[list[tuple[str, int]]]:
    """A few actions, each with a number to choose with."""
    return st.lists(st.tuples(st.sampled_from(actions), NUMBER), min_size=1, max_size=4)


class ChunkLives(RecordedLife):
    """One such life."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = ChunkedLake(has_cold=True)
        self.engines = ChunkEngines(self.lake)
        self.kept = 0
        self.foreign = 0

    @initialize(
        version=st.sampled_from([1, 2, 2, 3]),
        days=st.lists(some(*WRITES), min_size=2, max_size=5),
        said=some(*PEOPLE),
    )
    def a_past(
        self, version: int, days: list[list[tuple[str, int]]], said: list[tuple[str, int]]
    ) -> None:
        """A table with some days, and what people have said of it."""
        self.lake.begin(version)
        self.happens([("append_across", 9)], 9 * DAY)
        for day in days:
            self.happens(day, DAY)
        self.happens(said, MINUTE)

    def happens(self, actions: list[tuple[str, int]], span: timedelta) -> None:
        """Time passes, then others act."""
        self.lake.clock.moment += span
        for action, number in actions:
            self.engines.act(action, number)
            self.lake.check()

    # --- the world -----------------------------------------------------------------------------

    @rule(actions=some(*WRITES), span=LATER)
    def engines_work(self, actions: list[tuple[str, int]], span: timedelta) -> None:
        self.happens(actions, span)

    @rule(actions=some(*OTHERS), span=LATER)
    def other_tools_work(self, actions: list[tuple[str, int]], span: timedelta) -> None:
        self.happens(actions, span)

    @rule(actions=some(*PEOPLE), span=LATER)
    def people_change_their_minds(self, actions: list[tuple[str, int]], span: timedelta) -> None:
        self.happens(actions, span)

    @rule(span=LATER)
    def the_lifecycle_runs(self, span: timedelta) -> None:
        """What was dropped becomes history, and goes in the end."""
        self.lake.clock.moment += span
        self.lake.run()

    # --- chunks --------------------------------------------------------------------------------

    @rule(said=DECISIONS, span=LATER)
    def replicate(self, said: str, span: timedelta) -> None:
        self.lake.clock.moment += span
        if said == "anew":
            self.engines.act("sync", 0)
        self._replicate(self.lake.services(), said if said in set(Deletes) else "")

    @rule(line=LINES, after=st.booleans())
    def replicate_is_killed(self, line: tuple[str, int], after: bool) -> None:
        with suppress(Killed):
            self._replicate(self._process(line, after).of(self.lake.services()))
        self.lake.let_leases_end()

    @rule(moment=MOMENTS, actions=some(*WRITES, *OTHERS, *PEOPLE))
    def replicate_while_others_act(
        self, moment: tuple[str, int], actions: list[tuple[str, int]]
    ) -> None:
        self._replicate(self._beside(moment, lambda: self.happens(actions, timedelta())))

    def _replicate(self, services: RunContext, said: str = "") -> list[MeltlineError]:
        """A pass; returns why it could not go on."""
        passes = replicate(services, chunked_tables(services), Deletes(said) if said else None)
        return [one.error for one in passes if one.error]

    @rule(span=LATER, is_fresh=st.booleans())
    def run(self, span: timedelta, is_fresh: bool) -> None:
        """As the daily DAG does it, or without a pass of replication before."""
        self.lake.clock.moment += span
        if is_fresh:
            self._replicate(self.lake.services())
        self._run(self.lake.services())

    @rule(days=st.integers(1, 9))
    def run_for_a_past_day(self, days: int) -> None:
        self._run(self.lake.services(), days)

    @rule(line=LINES, after=st.booleans(), is_fresh=st.booleans())
    def run_is_killed(self, line: tuple[str, int], after: bool, is_fresh: bool) -> None:
        if is_fresh:
            self._replicate(self.lake.services())
        with suppress(Killed):
            self._run(self._process(line, after).of(self.lake.services()))
        self.lake.let_leases_end()

    @rule(moment=MOMENTS, actions=some(*WRITES, *OTHERS, *PEOPLE), is_fresh=st.booleans())
    def run_while_others_act(
        self, moment: tuple[str, int], actions: list[tuple[str, int]], is_fresh: bool
    ) -> None:
        if is_fresh:
            self._replicate(self.lake.services())
        self._run(self._beside(moment, lambda: self.happens(actions, timedelta())))

    @rule(moment=MOMENTS, is_replication=st.booleans())
    def two_runs_at_once(self, moment: tuple[str, int], is_replication: bool) -> None:
        """A second one comes in the middle of the first one."""
        self._replicate(self.lake.services())

        def second() -> None:
            with suppress(LockHeld):
                work = self._replicate if is_replication else self._run
                work(self.lake.services())

        self._run(self._beside(moment, second))

    @rule(replaced=NUMBER)
    def main_is_replaced_as_a_run_dies(self, replaced: int) -> None:
        """Between the commit of a drop and the note of it in the ledger."""
        self._replicate(self.lake.services())
        with suppress(Killed):
            self._run(self._process(("dropper", 1), after=True).of(self.lake.services()))
        self.lake.let_leases_end()
        self.happens([("replace_table", 3 * replaced)], MINUTE)

    @rule(number=NUMBER, is_seen=st.booleans())
    def a_drop_is_undone_and_its_history_expires(self, number: int, is_seen: bool) -> None:
        """Nobody is asked about what a run has seen; else nobody guesses."""
        self._replicate(self.lake.services())  # what it has read by now is not kept in hot
        self.happens([("undo_drop", number), ("append", number)], MINUTE)
        if is_seen:
            self.lake.run()
        asked = self._asked()
        self.happens([("expire_history", 0)], MINUTE)
        news = self._asked() - asked
        assert not (is_seen and news), f"asked about {sorted(news)}, and a run has seen them"

    def _asked(self) -> set[str]:
        """The chunks that wait for a person's answer."""
        table = self.lake.hot
        with suppress(NotChunked):
            lines = doubtful_chunks(self.lake.services(), table.name) if table else ()
            return {line.chunk for line in lines}
        return set()

    @rule(moment=READING, is_run=st.booleans(), is_fresh=st.booleans(), back=st.booleans())
    def all_rows_are_read_while_others_act(
        self, moment: tuple[str, int], is_run: bool, is_fresh: bool, back: bool
    ) -> None:
        """A pass, a drop, a rollback with a new copy come between looks at hot, cold, ledger."""

        def act() -> None:
            if back:
                self.engines.act("rollback", moment[1])
                self.engines.act("sync", 0)
            if is_fresh:
                self._replicate(self.lake.services())
            if is_run:
                self._run(self.lake.services())

        self.lake.check_complete(self._beside(moment, act))

    @rule(number=NUMBER)
    def a_chunk_is_dropped_by_force(self, number: int) -> None:
        table, name = self.lake.hot, self.engines.chunk(number // 5)
        if table is None or not name or number % 5:
            return
        self.lake.forced = frozenset({name})
        try:
            request = self.lake.request(tables=(str(table.name),))
            request = replace(request, chunks=(name,), force="nobody needs it")
            with suppress(MeltlineError):
                run_chunks(self.lake.services(), request, at_once=True)
            self.lake.check()
        finally:
            self.lake.forced = frozenset()

    @rule(number=NUMBER, before=some(*WRITES))
    def keep_must_keep(self, number: int, before: list[tuple[str, int]]) -> None:
        """Another tool empties days in the same pass; a person has cold keep their rows."""
        self.engines.act("sync", 0)
        self._replicate(self.lake.services(), "mirror")
        self.lake.check()
        if not self.lake.has_caught_up():
            return
        accepted = self.lake.accepted
        self.happens(before, MINUTE)
        table = self.lake.hot
        if table is None or not table.rows_now():
            return
        gone = self.engines.empty_days(table, number)
        errors = self._replicate(self.lake.services(), "keep")
        sync = self.lake.sync
        if errors or sync is None or table.head not in sync.kept_deletes:  # small: mirrored
            accepted.rows -= gone
        accepted.took(table.head)
        self.lake.check()
        self.kept += not errors

    # --- others in cold ------------------------------------------------------------------------

    @rule(number=NUMBER)
    def others_write_in_cold(self, number: int) -> None:
        """Others change rows that cold alone has: nothing goes on until cold is set back."""
        self.engines.act("sync", 0)
        errors = [self._replicate(self.lake.services(), "mirror") for _ in range(2)][1]
        if errors or not self.lake.has_caught_up():
            return
        before, hot = self.engines.change_cold(number), self.lake.hot
        if before is None or hot is None:
            return
        self._replicate(self.lake.services(), "mirror")
        assert self.lake.sync and self.lake.sync.reason == COLD_CHANGED, self.lake.sync
        self._run(self.lake.services())
        assert self.lake.hot and self.lake.hot.head == hot.head, "dropped though cold was changed"
        with suppress(SyncRefused):
            complete_rows(self.lake.services(), hot.name)
            raise AssertionError("all rows are read though cold was changed")
        with self.lake.cold_owner() as cold:
            assert cold is not None
            cold.point("main", before)
        assert not self._replicate(self.lake.services()), "cold was set back, and nothing goes on"
        self.foreign += 1

    @rule(number=NUMBER)
    def a_second_lake_comes_to_the_same_cold(self, number: int) -> None:
        """A copy of the lake that somebody has adopted syncs the table, copies and drops."""
        with self.lake.cold_owner() as synced:
            if synced is None:
                return
            before = synced.metadata_location
        lake = second_lake(self.lake)
        lake.uuid, lake.former = self.lake.uuid, self.lake.former
        init(lake.services(), adopt=True)
        engines, table = ChunkEngines(lake), lake.hot
        with suppress(LedgerOutOfStep):
            assert not (table and start_sync(lake.services(), table.name)), "it is not refused"
        for action in ("append", "tier_and_drop"):
            with suppress(MeltlineError):
                engines.act(action, number)
        self._replicate(lake.services(), "mirror")
        with suppress(MeltlineError):
            run_chunks(lake.services(), lake.request(), at_once=True)
        with lake.cold_owner() as now:
            assert now is not None and now.metadata_location == before, "it wrote to cold"
        see_cold_of(self.lake, lake)

    @rule(number=NUMBER)
    def hot_is_replaced_with_other_types(self, number: int) -> None:
        """Cold stays as it is, and the table goes on under another name there."""
        lake = self.lake
        self._replicate(lake.services(), "mirror")
        if (table := lake.hot) is None or lake.rolled_up.rollups() or not lake.has_caught_up():
            return
        assert lake.sync is not None
        former, location = lake.sync.cold, lake.cold.location(lake.sync.cold)
        self.engines.replace_types(table)
        if number % 2:
            self._run(lake.services())
        for _ in range(2):
            assert self._replicate(lake.services()), "cold got rows of another type"
            assert lake.cold.location(former) == location, "a pass that refuses has written to cold"
            self.engines.act("sync", 0)
        self._replicate(lake.services())
        lake.former[former] = location
        lake.accepted, lake.in_cold = Accepted(set(table.rows_now())), set()
        start_sync(lake.services(), table.name, f"rows.again{len(lake.former)}")
        assert not self._replicate(lake.services()), "it does not go on under another name"
        lake.check()

    def _run(
        self, services: RunContext, days: int = 0, steps: Sequence[Step] = _ON_COLD_AS_IT_IS
    ) -> ChunkRun:
        as_of = max(T0, self.lake.clock.moment - days * DAY) if days else None
        run = ChunkRun(services, self.lake.request(as_of=as_of), at_once=True)
        run.visit(steps)
        return run

    def _separate(self) -> None:
        """Does as the error says where nothing tells late rows in cold from dropped ones."""
        lake, table, accepted = self.lake, self.lake.hot, self.lake.accepted
        assert table is not None
        chunks = lake.chunks().values()
        names = {chunk.name for chunk in chunks if chunk.status is ChunkStatus.REOPENED}
        aside = [row for row in table.rows_now() if chunk_of(lake.layout, row) in names]
        if aside:
            table.put([dict(row)[ID] for row in aside])
        accepted.forgone |= set(lake.cold_rows()) - accepted.rows  # it keeps all that it has
        self._replicate(lake.services(), "keep")
        if lake.sync and lake.sync.state is SyncState.FAILED:  # of others history tells no more
            accepted.forgone |= set(lake.cold_rows()) - set(table.rows_now())
            accepted.rows -= accepted.forgone
            self._replicate(lake.services(), "mirror")
        if missing := set(aside) - set(lake.cold_rows()):
            table.append_rows(*sorted(missing))
        accepted.rows |= set(aside)
        accepted.took(table.head)

    def _process(self, line: tuple[str, int], after: bool) -> ChunkProcess:
        return ChunkProcess(line[1], after, line[0], lake=self.lake)

    def _beside(self, moment: tuple[str, int], act: Callable[[], object]) -> RunContext:
        return Bystander(moment[1], moment[0], act).of(self.lake, self.lake.services())

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def no_row_is_lost(self) -> None:
        self.lake.check()

    def teardown(self) -> None:
        """In the end all is copied, what is due goes, and nothing is left to do."""
        if self.is_broken or not self.lake.uuid:
            return
        if self.lake.hot is None:
            return
        self.engines.act("let_go", 0)
        self.engines.act("sync", 0)
        for _ in range(4):
            self._replicate(self.lake.services(), "mirror")
            self.lake.check()
            self.engines.act("settle", 0)
            self.engines.act("settle", 0)
            sync = self.lake.sync
            if sync is not None and sync.reason == MIXED_FILES:
                self._separate()
            elif sync is not None and sync.state is not SyncState.STREAMING:
                self.engines.act("sync", 0)
        sync = self.lake.sync
        assert sync is not None and sync.state is SyncState.STREAMING, f"it never streams: {sync}"
        assert self.lake.has_caught_up() or self.lake.hot.head < 0
        self._run(self.lake.services())
        self.lake.check()
        before = self.lake.hot.head
        again = self._run(self.lake.services())
        assert self.lake.hot.head == before, "a second run drops more"
        assert not again.summary.plans, again.summary.as_json()


class ReopenedChunkLives(ChunkLives):
    """Lives in which days go and come back again and again: cold gets copies of late rows."""

    @rule(number=NUMBER, late=some("append_late", "append_late", "update_rows", "delete_row"))
    def days_go_and_come_back(self, number: int, late: list[tuple[str, int]]) -> None:
        """What is old is dropped, rows of it come late, and cold gets copies of these."""
        self.happens([("let_go", 0), ("sync", 0), ("tier_and_drop", number)], 4 * DAY)
        self._replicate(self.lake.services(), "mirror")
        self._run(self.lake.services())
        self.happens([("append_late", 2 * number + 1), *late], MINUTE)
        self._replicate(self.lake.services(), "mirror")

    @rule(upkeep=some(*COLD_OWNER), changes=some("append_late", "update_rows", "delete_row"))
    def colds_owner_works_beside_late_rows(
        self, upkeep: list[tuple[str, int]], changes: list[tuple[str, int]]
    ) -> None:
        """A compaction mixes late rows with dropped ones, and hot changes before the next pass."""
        self.happens([*upkeep, *changes], MINUTE)
        self._replicate(self.lake.services(), "mirror")

    @rule(number=NUMBER, line=LINES, after=st.booleans())
    def main_returns_to_a_drop(self, number: int, line: tuple[str, int], after: bool) -> None:
        """It was undone, and the copy of what is back may have died on its way."""
        head = self.lake.hot.head if self.lake.hot else -1
        self.happens([("undo_drop", number)], MINUTE)
        self._replicate(self.lake.services())
        self.happens([("sync", 0)], MINUTE)
        self.replicate_is_killed(line=line, after=after)
        self.happens([("return_to", head)], MINUTE)
        self._replicate(self.lake.services())
        self.happens([("sync", 0)], MINUTE)
        self._replicate(self.lake.services())
