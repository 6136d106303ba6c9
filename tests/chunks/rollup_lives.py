"""Random lives of a table with rollups: `tests.chunks.rolled_up` says what these should say."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta

from hypothesis import strategies as st

from meltline.app.chunks.rollups.refresh import RefreshedRollup, refresh_rollups
from meltline.app.run.steps import CHUNK_STEPS
from meltline.app.services import RunContext
from meltline.domain.chunks.rollup import ROLLUP_SNAPSHOT, with_dependencies
from meltline.domain.errors import MeltlineError, RollupRefused
from tests.chunks.chunk_engines import OTHERS, PEOPLE, WRITES
from tests.chunks.chunk_lives import LATER, NUMBER, ChunkLives, some
from tests.chunks.rollup_engines import ABOUT_ROLLUPS, RollupEngines
from tests.lake.lake import MINUTE
from tests.lives.kills import Killed
from tests.lives.recorded import initialize, rule

_ON_ROLLUPS_AS_THEY_ARE = [step for step in CHUNK_STEPS[1:] if step.name != "refresh_rollups"]
LINES = st.one_of(
    st.tuples(st.just("rollups"), st.integers(1, 8)),
    st.tuples(st.just("catalog"), st.integers(1, 12)),
    st.tuples(st.just("control.rollups"), st.integers(1, 8)),
    st.tuples(st.just(""), st.integers(1, 90)),
)
MOMENTS = st.tuples(
    st.sampled_from(("rollups", "control.rollups", "chunk_files", "control.chunks")),
    st.integers(1, 6),
)


class RollupLives(ChunkLives):
    """One such life."""

    def __init__(self) -> None:
        super().__init__()
        self.about_rollups = RollupEngines(self.lake)

    @initialize(
        version=st.sampled_from([1, 2, 2, 3]),
        days=st.lists(some(*WRITES), min_size=1, max_size=3),
        said=some(*PEOPLE),
        declared=st.lists(NUMBER, min_size=1, max_size=3),
    )
    def a_past(
        self,
        version: int,
        days: list[list[tuple[str, int]]],
        said: list[tuple[str, int]],
        declared: list[int],
    ) -> None:
        """A table with some days and a policy, and rollups over it."""
        super().a_past(version=version, days=days, said=said)
        self.happens([("sync", 0), ("drop_after", 1)], MINUTE)
        self.about([("declare", number) for number in declared])

    def about(self, actions: Iterable[tuple[str, int]]) -> None:
        """People and other tools act on rollups."""
        for action, number in actions:
            self.about_rollups.act(action, number)
            self.lake.check()

    # --- the world -----------------------------------------------------------------------------

    @rule(actions=some(*ABOUT_ROLLUPS), span=LATER)
    def rollups_change(self, actions: Iterable[tuple[str, int]], span: timedelta) -> None:
        self.lake.clock.moment += span
        self.about(actions)

    # --- refreshes -----------------------------------------------------------------------------

    @rule(span=LATER)
    def refresh(self, span: timedelta) -> None:
        """All of them; each that could be refreshed is then at its source's head."""
        self.lake.clock.moment += span
        for done in self._refresh(self.lake.services()):
            self._require_at_head(done)

    @rule(number=NUMBER)
    def refresh_one(self, number: int) -> None:
        if rollup := self.about_rollups.rollup(number):
            for done in self._refresh(self.lake.services(), rollup.name):
                self._require_at_head(done)

    @rule(line=LINES, after=st.booleans(), number=NUMBER)
    def refresh_is_killed(self, line: tuple[str, int], after: bool, number: int) -> None:
        """Also the refresh that a declaration ends with."""
        services = self._process(line, after).of(self.lake.services())
        with suppress(Killed):
            if number % 4 == 0:
                with suppress(MeltlineError):
                    self.about_rollups.declare(number // 4, services)
            else:
                self._refresh(services)
        self.lake.let_leases_end()

    @rule(moment=MOMENTS, actions=some(*WRITES, *OTHERS, *PEOPLE))
    def refresh_while_others_act(
        self, moment: tuple[str, int], actions: list[tuple[str, int]]
    ) -> None:
        self._refresh(self._beside(moment, lambda: self.happens(actions, timedelta())))

    @rule(moment=MOMENTS, actions=some(*ABOUT_ROLLUPS))
    def refresh_while_rollups_change(
        self, moment: tuple[str, int], actions: list[tuple[str, int]]
    ) -> None:
        self._refresh(self._beside(moment, lambda: self.about(actions)))

    @rule(moment=MOMENTS)
    def refresh_while_chunks_go(self, moment: tuple[str, int]) -> None:
        self._refresh(self._beside(moment, lambda: self._run(self.lake.services())))

    @rule(moment=MOMENTS)
    def chunks_go_while_rollups_are_refreshed(self, moment: tuple[str, int]) -> None:
        self._run(self._beside(moment, lambda: self._refresh(self.lake.services())))

    @rule(span=LATER)
    def run_on_rollups_as_they_are(self, span: timedelta) -> None:
        """A replicated table whose rollups are behind: their chunks wait."""
        self.lake.clock.moment += span
        self._replicate(self.lake.services())
        self._run(self.lake.services(), steps=_ON_ROLLUPS_AS_THEY_ARE)

    def _refresh(self, services: RunContext, name: str = "") -> list[RefreshedRollup]:
        known = services.control.rollups.all()
        refreshed = refresh_rollups(services, with_dependencies(known, name) if name else known)
        self.lake.check()
        return refreshed

    def _require_at_head(self, done: RefreshedRollup) -> None:
        if done.error is not None:
            is_expected = isinstance(done.error, RollupRefused)
            assert is_expected, f"{done.error!r}: {done.error.found}"
            return
        rollup, oracle = done.rollup, self.lake.rolled_up
        own, source = oracle.rows_of(rollup.table_uuid), oracle.rows_of(rollup.source_uuid)
        assert own is not None and source is not None
        head = (source.document["refs"].get("main") or {}).get("snapshot-id", -1)
        assert own.document["properties"][ROLLUP_SNAPSHOT] == str(head)
        assert not rollup.invalidated, f"{rollup.name} still has {rollup.invalidated} to aggregate"

    def teardown(self) -> None:
        """In the end rollups are refreshed, too: no chunk waits for them in vain."""
        if not self.is_broken and self.lake.hot is not None:
            self._refresh(self.lake.services())
        super().teardown()
