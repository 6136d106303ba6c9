"""Random histories of random tables, and random lifecycle runs between them.

After every step the invariants I-1 to I-7 hold, and with I-2 so do ML-1 and ML-8; in the end, when
all is quiet, exactly what nobody needs is gone. `MELTLINE_EXAMPLES=2000` looks longer, `make soak`
for hours.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from meltline.app.expire.expire import apply_expirations
from meltline.app.expire.plan_expiration import PlannedFiles, plan_expiration
from meltline.app.observe.observe import observe
from meltline.app.purge.purge import apply_purges
from meltline.app.run.gate_step import run_gate
from meltline.app.run.lifecycle import Run
from meltline.app.run.summary import Summary
from meltline.app.safety.switches import arm, disarm
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan, PlanState
from meltline.domain.errors import LockHeld
from meltline.domain.iceberg.files import SWEPT, DepartureState
from tests.lake.accounts import check_accounts, check_owners_were_asked, check_sweeps
from tests.lake.gaps import Gap, with_gaps
from tests.lake.lake import DAY, MINUTE, T0
from tests.lives.random_engines import OTHERS, PEOPLE, REFS, WRITES, Engines
from tests.lives.recorded import RecordedLife, initialize, live, rule
from tests.lives.strangers import STRANGE, UNLISTED, allow_the_gone
from tests.lives.watched_changes import expired_a_sharer
from tests.lives.watched_lake import WatchedLake
from tests.seeds import beginnings
from tests.unit.lives.losing_lake import (
    LosingEngines,
    is_watched,
    outlast_what_was_set_back,
    recover_the_lost,
    vanished,
)
from tests.unit.lives.miscounted_lake import MiscountedLake, trust_the_miscounted

INSIDE_A_LOOK = (Gap.LISTED, Gap.SIGHTED)
GAPS = st.sampled_from([gap.name for gap in Gap if gap not in INSIDE_A_LOOK])
TABLE, NUMBER = st.integers(0, 3), st.integers(0, 99)
SPANS = (MINUTE, timedelta(hours=1), DAY, DAY, 3 * DAY, 8 * DAY, 8 * DAY, 20 * DAY)
LATER = st.sampled_from(SPANS)
FIRST = ("clone", "create", "create_outside")
BESIDE_A_TABLE = ("hold_all", "lease")
"""What does not move the table's metadata: a commit that was checked already cannot see it. The
commands for these wait for the commit; its files wait, and no purge takes what is held by then."""


def some(*actions: str) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """A few actions, each with a table and a number to choose with."""
    return st.lists(st.tuples(st.sampled_from(actions), TABLE, NUMBER), min_size=1, max_size=4)


class RandomLifecycles(RecordedLife):
    """One lake's life."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = WatchedLake(other_catalogs=("theirs",))
        self.engines = Engines(self.lake)

    @initialize(days=st.lists(some(*WRITES, *REFS, *FIRST), min_size=2, max_size=8))
    def a_past(self, days: list[list[tuple[str, int, int]]]) -> None:
        """Two tables, and what happened to them before Meltline came."""
        self.engines.create(1)
        self.engines.create(2)
        for day in days:
            self.happens(day, DAY)

    def happens(self, actions: list[tuple[str, int, int]], span: timedelta) -> None:
        """Time passes, then others act."""
        self.pass_time(span)
        for action, table, number in actions:
            self.engines.act(action, table, number)
            self.lake.check()

    def pass_time(self, span: timedelta) -> None:
        self.lake.check()
        self.lake.clock.moment += span

    # --- the world -----------------------------------------------------------------------------

    @rule(actions=some(*WRITES, *REFS), span=LATER)
    def engines_work(self, actions: list[tuple[str, int, int]], span: timedelta) -> None:
        self.happens(actions, span)

    @rule(actions=some(*OTHERS, *REFS), span=LATER)
    def other_tools_work(self, actions: list[tuple[str, int, int]], span: timedelta) -> None:
        self.happens(actions, span)

    @rule(actions=some(*PEOPLE), span=LATER)
    def people_change_their_minds(
        self, actions: list[tuple[str, int, int]], span: timedelta
    ) -> None:
        self.happens(actions, span)

    # --- the lifecycle -------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        self.lake.look()

    @rule(span=LATER)
    def run(self, span: timedelta) -> None:
        self.pass_time(span)
        summary = self.lake.run()
        check_owners_were_asked(summary)
        if summary.exit_code == 0:
            check_accounts(self.lake)

    @rule(span=LATER)
    def sweep(self, span: timedelta) -> None:
        """Files that nothing refers to depart once two listings have shown them."""
        self.pass_time(span)
        self.lake.sweep()

    @rule(span=LATER)
    def catalog_is_disarmed_for_a_night(self, span: timedelta) -> None:
        self.pass_time(span)
        assert disarm(self.lake.services(), "lake", "a look first").unnoted is None
        self.run_before_it_is_armed()

    def run_before_it_is_armed(self) -> None:
        """A run and a sweep take nothing; what was committed before may still begin to wait."""
        self.lake.is_armed, swept = False, self._swept()
        self.lake.run()
        self.lake.sweep()
        assert self._swept() <= swept, "a sweep of a catalog that nobody has armed"
        arm(self.lake.services(), "lake", "looked")
        self.lake.is_armed = True

    def _swept(self) -> set[str]:
        waiting = self.lake.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
        return {row.path for row in waiting if row.plan_id.startswith(SWEPT)}

    @rule(days=st.integers(1, 20))
    def run_for_a_past_day(self, days: int) -> None:
        self.lake.run(as_of=max(T0, self.lake.clock.moment - days * DAY))

    @rule(span=LATER)
    def run_twice(self, span: timedelta) -> None:
        """I-7: the second one changes nothing."""
        self.pass_time(span)
        unfinished = True
        while unfinished:
            # What a run commits at its end, the next one sees.
            commits = self.lake.last_commits()
            run = self.lake.run()
            if run.exit_code != 0:
                return
            unfinished = self.lake.last_commits() != commits or expired_a_sharer(
                self.lake, run.run_id
            )
        before = self.lake.evidence_of_work()
        again = self.lake.run()
        assert (again.plans, self.lake.evidence_of_work()) == ({}, before)

    @rule(span=LATER, actions=some(*WRITES, *REFS, *OTHERS, *PEOPLE))
    def expire_while_others_act(self, span: timedelta, actions: list[tuple[str, int, int]]) -> None:
        """Between the gate and the commit."""
        self.pass_time(span)
        services, request = self.lake.services(), self.lake.request()
        planned = plan_expiration(
            services, observe(services), run_id=request.run_id, as_of=request.as_of
        )
        self.lake.looked()
        plans = self._gated(planned)
        self.happens(actions, MINUTE)
        apply_expirations(self.lake.services(), plans, lambda _: None)
        self.lake.told()
        self.lake.look()

    @rule(span=LATER, actions=some(*WRITES, *REFS, *OTHERS, *PEOPLE))
    def purge_while_others_act(self, span: timedelta, actions: list[tuple[str, int, int]]) -> None:
        """Between the gate and the first delete."""
        self.pass_time(span)
        services = self.lake.services()
        planned = Run(services, self.lake.request()).plan_purge()
        self.lake.looked()
        plans = self._gated(planned)
        self.happens(actions, MINUTE)
        apply_purges(self.lake.services(), plans)
        self.lake.look()

    @rule(
        span=LATER,
        moments=st.lists(
            st.tuples(GAPS, some(*WRITES, *REFS, *OTHERS, *PEOPLE)), min_size=1, max_size=6
        ),
    )
    def run_while_others_act(
        self, span: timedelta, moments: list[tuple[str, list[tuple[str, int, int]]]]
    ) -> None:
        """In any gap of a whole run: each once, as soon as its gap is reached."""
        self.pass_time(span)
        left = list(moments)

        def act(gap: Gap) -> None:
            if gap is Gap.OBSERVED:
                self.lake.looked()
            if moment := next((one for one in left if one[0] == gap.name), None):
                left.remove(moment)
                late = BESIDE_A_TABLE if self.lake.is_committing() else ()
                with suppress(LockHeld):  # what a command would change is being changed
                    self.happens([act for act in moment[1] if act[0] not in late], MINUTE)

        self.lake.run(services=with_gaps(self.lake.services(), act))
        self.lake.look()

    def _gated(self, planned: Sequence[PlannedFiles]) -> list[Plan]:
        judged = run_gate(self.lake.services(), [p.plan for p in planned])
        return [plan for plan, _ in judged if plan.state is PlanState.PASSED]

    # --- what always holds ---------------------------------------------------------------------

    @invariant()
    def nothing_that_is_needed_is_missing(self) -> None:
        self.lake.check()

    def teardown(self) -> None:
        """On time: when all is quiet, exactly what nobody needs is gone."""
        if self.is_broken:
            return
        self.engines.make_peace()
        self.people_see_to_what_vanished()
        self.lake.check()
        self.busy_nights()
        for days in (0, 31, 31, 8, 8, 8):
            self.lake.clock.moment += days * DAY
            summary = self.night()
            self.lake.check()
        assert summary.exit_code == 0, summary.as_json()
        assert summary.plans == {}, summary.as_json()
        check_accounts(self.lake)
        self.lake.check_all_is_gone()
        check_sweeps(self.lake)

    def people_see_to_what_vanished(self) -> None:
        outlast_what_was_set_back(self.lake)

    def night(self, services: RunContext | None = None) -> Summary:
        """A run in the end, when it must end well, once a person has answered what it asks."""
        summary = self.lake.run(services=services)
        return self.lake.run() if allow_the_gone(self.lake) else summary

    def busy_nights(self) -> None:
        """On time although nobody rests: every table gets a commit in each gap of each night."""
        for night in range(3):
            self.pass_time(31 * DAY)
            needless = self.lake.needless()
            reached = set[Gap]()

            def act(gap: Gap, reached: set[Gap] = reached) -> None:
                if gap is Gap.OBSERVED:
                    self.lake.looked()
                if gap in reached:
                    return
                reached.add(gap)
                for table in range(len(self.lake.tables())):
                    self.engines.act("append", table, 0)
                self.lake.check()

            summary = self.night(with_gaps(self.lake.services(), act))
            self.lake.look()
            self.lake.check()
            assert summary.exit_code == 0, summary.as_json()
            now = self.lake.needless()
            left = {
                name: both for name, ids in needless.items() if (both := ids & now.get(name, set()))
            }
            # The first night finds what nobody rested from before.
            assert not night or not left, f"not expired on a busy night: {left}"


class StrangeLifecycles(RandomLifecycles):
    """Lives in which owners whom no catalog shows write into the folders of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = WatchedLake(other_catalogs=("theirs",), unlisted=(UNLISTED,))
        self.engines = Engines(self.lake)

    @rule(actions=some(*STRANGE), span=LATER)
    def strangers_come(self, actions: list[tuple[str, int, int]], span: timedelta) -> None:
        self.happens(actions, span)

    @rule(table=TABLE, number=NUMBER, action=st.sampled_from(STRANGE))
    def a_stranger_comes_and_sweeps_follow(self, table: int, number: int, action: str) -> None:
        """Chance alone seldom has two sweeps and failsafe follow one."""
        self.happens([(action, table, number), ("overwrite", table, number)], DAY)
        for days in (4, 1, 8, 8):
            self.pass_time(days * DAY)
            self.lake.sweep()
            check_owners_were_asked(self.lake.run())


class MiscountedLifecycles(RandomLifecycles):
    """Lives in which an engine counts wrongly, and a person trusts its manifests in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.lake = MiscountedLake(other_catalogs=("theirs",))
        self.engines = Engines(self.lake)

    @rule(table=TABLE, number=NUMBER)
    def an_engine_counts_wrongly(self, table: int, number: int) -> None:
        """Its commit says that the table has as many files as it added, or far too many."""
        self.pass_time(DAY)
        tables = self.lake.tables()
        if tables:
            told = str(number if number % 2 else 0)
            tables[table % len(tables)].append(
                self.engines.new_file(), summary={"total-data-files": told}
            )
        self.lake.check()

    @rule()
    def a_person_trusts_it(self) -> None:
        self.lake.look()
        trust_the_miscounted(self.lake)

    def night(self, services: RunContext | None = None) -> Summary:
        summary = super().night(services)
        while trust_the_miscounted(self.lake):  # a share of a trusted table is a table of its own
            summary = super().night()
        return summary


class LosingLifecycles(RandomLifecycles):
    """Lives in which engines lose commits; a person recovers each in the end."""

    engines: LosingEngines

    def __init__(self) -> None:
        super().__init__()
        self.engines = LosingEngines(self.lake)

    @rule(table=TABLE, number=NUMBER, span=LATER)
    def an_engine_loses_a_commit(self, table: int, number: int, span: timedelta) -> None:
        """A head that was seen vanishes, and the next observation says so."""
        self.pass_time(span)
        self.lake.look()
        tables = [t for t in self.lake.tables() if is_watched(self.lake, t)]
        lost = self.engines.lose(tables[table % len(tables)], number) if tables else ""
        self.lake.look()
        assert not lost or lost in {i.object for i in vanished(self.lake)}, f"not said: {lost}"
        self.lake.check()

    @rule()
    def a_person_recovers_what_was_lost(self) -> None:
        self.lake.look()
        recover_the_lost(self.lake)

    @invariant()
    def nothing_is_said_to_have_vanished_that_has_not(self) -> None:
        said = {incident.object for incident in vanished(self.lake)}
        assert said <= self.engines.lost, f"a false alarm: {said - self.engines.lost}"

    @invariant()
    def what_vanished_is_kept_until_a_person_has_seen_to_it(self) -> None:
        lists = {self.engines.lists.get(incident.object, "") for incident in vanished(self.lake)}
        purged = lists & set(self.lake.deleter.deleted)
        assert not purged, f"purged before a person saw to it: {purged}"

    def people_see_to_what_vanished(self) -> None:
        recover_the_lost(self.lake)
        super().people_see_to_what_vanished()


class FollowedLifecycles(RandomLifecycles):
    """Lives in which readers fall behind: chance alone seldom has one stand for long enough."""

    @rule(table=TABLE, number=NUMBER, actions=some(*WRITES, *REFS, *OTHERS), span=LATER)
    def a_reader_falls_behind(
        self, table: int, number: int, actions: list[tuple[str, int, int]], span: timedelta
    ) -> None:
        """A consumer stands still while writers go on, and runs come when what it skips is old."""
        self.happens([("append", table, number)], DAY)
        self.happens([("read_from_the_beginning", table, number)], MINUTE)
        for _ in range(3):
            self.happens([("overwrite", table, number)], DAY)
        self.happens(actions, span)
        self.pass_time(9 * DAY)
        self.lake.run()


@pytest.mark.slow("random lives")
def test_random_lives_keep_every_invariant() -> None:
    for begin, lives in beginnings(few=2, many=20):
        live(RandomLifecycles, lives=lives, moves=30, begin=begin)


@pytest.mark.slow("random lives")
def test_lives_with_strangers_lose_nothing_of_theirs_and_go_on_purging() -> None:
    for begin, lives in beginnings(few=2, many=20):
        live(StrangeLifecycles, lives=lives, moves=20, begin=begin)


@pytest.mark.slow("random lives")
def test_lives_with_readers_that_fall_behind_keep_every_invariant() -> None:
    for begin, lives in beginnings(few=2, many=15):
        live(FollowedLifecycles, lives=lives, moves=30, begin=begin)


@pytest.mark.slow("random lives")
def test_lives_with_engines_that_count_wrongly_keep_every_invariant_and_go_on_purging() -> None:
    for begin, lives in beginnings(few=2, many=15, draws_new=False):
        live(MiscountedLifecycles, lives=lives, moves=30, begin=begin)


@pytest.mark.slow("random lives")
def test_lives_with_engines_that_lose_commits_say_each_and_nothing_else() -> None:
    for begin, lives in beginnings(few=2, many=15, draws_new=False):
        live(LosingLifecycles, lives=lives, moves=20, begin=begin)
