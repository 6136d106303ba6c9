"""Random lives with bad luck: runs are killed at any line, and any call of theirs may fail."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from hypothesis import strategies as st

from meltline.domain.errors import MeltlineError, StoreRefused
from tests.lake.gaps import Gap, with_gaps
from tests.lives.kills import Killed, Process
from tests.lives.recorded import rule
from tests.unit.lives.test_random_lifecycles import LATER, RandomLifecycles

LINES = st.one_of(
    st.tuples(st.just(""), st.integers(1, 250)),
    st.tuples(st.sampled_from(("committer", "deleter", "files.record")), st.integers(1, 4)),
    st.tuples(st.sampled_from(("control", "catalog", "store", "files")), st.integers(1, 60)),
)
FAULTS: Mapping[str, type[Exception]] = {"store": StoreRefused, "time": TimeoutError}


class UnluckyLifecycles(RandomLifecycles):
    """One such lake's life."""

    def __init__(self) -> None:
        super().__init__()
        self.struck: list[Process] = []

    @rule(span=LATER, line=LINES, after=st.booleans(), is_known=st.booleans())
    def run_is_killed(
        self, span: timedelta, line: tuple[str, int], after: bool, is_known: bool
    ) -> None:
        self.pass_time(span)
        if is_known:
            self.lake.look()
        self._run_badly(Process(line[1], after, line[0]))
        if not is_known:
            self.lake.look()

    @rule(span=LATER, line=LINES, after=st.booleans(), fault=st.sampled_from(sorted(FAULTS)))
    def run_meets_a_fault(
        self, span: timedelta, line: tuple[str, int], after: bool, fault: str
    ) -> None:
        """One call fails, or only its answer is lost; a look sees what the run may have seen."""
        self.pass_time(span)
        self._run_badly(Process(line[1], after, line[0], FAULTS[fault]("no answer")))
        self.lake.look()

    def _run_badly(self, process: Process) -> None:
        """A run that may end anywhere. What it had noted of branches until then, it knows."""

        def note(gap: Gap) -> None:
            if gap is Gap.SIGHTED:
                self.lake.sighted()

        with suppress(Killed, MeltlineError, TimeoutError):
            self.lake.run(services=process.of(with_gaps(self.lake.services(), note)))
        self.lake.let_leases_end()
        self.struck.append(process)
