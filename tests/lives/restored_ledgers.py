"""Random lives in which an old backup of the control ledger comes back."""

import copy
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from meltline.app.doctor.init import init
from meltline.app.safety.preconditions import require_generation
from meltline.app.safety.switches import go, stop
from meltline.domain.errors import LedgerOutOfStep
from meltline.domain.iceberg.files import DepartureState
from tests.lake.lake import DAY, Lake
from tests.lives.kills import Killed, Process
from tests.lives.recorded import rule
from tests.lives.unlucky_lives import UnluckyLifecycles

NOT_DATA = {"clock", "own_clock", "lease_time", "database", "locks", "plans", "chunks", "_guard"}
"""What a part has of other parts, and what is no row of the database."""


def backup_of(lake: Lake) -> dict[str, Any]:
    """A copy of the control ledger's rows."""
    return {
        part: copy.deepcopy({k: v for k, v in vars(port).items() if k not in NOT_DATA})
        for part, port in _parts(lake).items()
    }


def restore(lake: Lake, backup: dict[str, Any]) -> None:
    """Puts a backup in the control ledger's place."""
    for part, port in _parts(lake).items():
        vars(port).update(copy.deepcopy(backup[part]))


def _parts(lake: Lake) -> dict[str, Any]:
    return {**vars(lake.control), "locks": lake.control.locks.rows}


class RestoredLedgers(UnluckyLifecycles):
    """One such lake's life.

    What a ledger has forgotten no run can keep to: that a branch was seen, that a lease was taken.
    Files that something needs it must keep all the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self.backup: dict[str, Any] = {}

    @rule()
    def ledger_is_backed_up(self) -> None:
        self.backup = backup_of(self.lake)

    @rule(line=st.integers(0, 12), after=st.booleans())
    def everything_is_stopped(self, line: int, after: bool) -> None:
        """The command may be killed at any line; then it is given again."""
        with suppress(Killed):
            stop(Process(line, after).of(self.lake.services()), "a fire")
        assert stop(self.lake.services(), "a fire").unnoted is None
        self.lake.is_stopped = True

    @rule(line=st.integers(0, 12), after=st.booleans())
    def everything_goes_on(self, line: int, after: bool) -> None:
        self.lake.is_stopped = False
        with suppress(Killed):
            go(Process(line, after).of(self.lake.services()))
        go(self.lake.services())

    @rule()
    def a_word_is_taken_back(self) -> None:
        self.engines.take_back_the_word()

    @rule(adopted=st.booleans())
    def backup_comes_back(self, adopted: bool) -> None:
        """With `init --adopt` after it; or without: what it then does not know of stops a run."""
        if not self.backup:
            return
        restore(self.lake, self.backup)
        self.lake.returns.clear()
        for story in self.lake.stories.values():
            story.side.clear()
        if not adopted and self._is_refused():
            with suppress(LedgerOutOfStep):
                self.lake.run()
                raise AssertionError("a ledger that is out of step was not refused")
        if init(self.lake.services(), adopt=True).adopted:
            self._files_wait_anew()
            self.run_before_it_is_armed()

    def _files_wait_anew(self) -> None:
        """Longer than before, never less long."""
        told = self.lake.departed
        for path, due in self.lake.waiting().items():
            assert path not in told or due >= told[path][1], f"I-4: {path} waits less long"
            told[path] = (DepartureState.FAILSAFE, due)

    def _is_refused(self) -> bool:
        try:
            require_generation(self.lake.services())
        except LedgerOutOfStep:
            return True
        return False

    def teardown(self) -> None:
        """Of the accounts nothing is said, and not that runs end well: files are what counts."""
        if self.is_broken:
            return
        self.everything_goes_on(line=0, after=False)
        self.engines.make_peace()
        self.lake.check()
        for days in (0, 31, 31, 8, 8, 8):
            self.lake.clock.moment += days * DAY
            self.lake.run()
            self.lake.check()
