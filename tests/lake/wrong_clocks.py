"""Random lives in which Meltline's own clock is wrong for a while; engines keep theirs."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

import pytest
from hypothesis import strategies as st

from meltline.app.observe.observe import observe
from meltline.app.retention.clock_override import disown
from meltline.app.retention.leases import acquire_lease
from meltline.app.services import RunContext
from meltline.domain.clock import CLOCK_TOLERANCE
from meltline.domain.errors import ClockRefused, MeltlineError
from tests.lake.lake import DAY, MovingClock
from tests.lives.recorded import rule
from tests.lives.unlucky_lives import UnluckyLifecycles
from tests.unit.lives.test_random_lifecycles import LATER


class WrongClocks(UnluckyLifecycles):
    """One such lake's life.

    A clock that is ahead only looks and leases here: that it may not expire or purge is told by
    the database's or the store's clock, and in a sandbox there is none.
    """

    @rule(days=st.integers(1, 400), later=LATER)
    def the_clock_is_ahead_for_a_look(self, days: int, later: timedelta) -> None:
        """Nothing is done until a person says that it was wrong, and then all goes on."""
        with self._by(self.lake.clock.moment + days * DAY) as services:
            observe(services)
            for table in self.lake.tables()[:1]:
                with suppress(MeltlineError):
                    acquire_lease(services, table.name, None, timedelta(hours=1))
        self.lake.looked()
        self.pass_time(later)
        newest = self._newest()
        if newest - CLOCK_TOLERANCE <= self.lake.clock.moment:
            return
        with pytest.raises(ClockRefused):
            self.lake.run()
        disown(self.lake.services(), newest, "it was ahead")

    @rule(days=st.integers(1, 40))
    def the_clock_is_behind_for_a_run(self, days: int) -> None:
        """As far as the ledger can tell: what it last wrote was later."""
        wrong = self.lake.clock.moment - days * DAY
        if wrong < self._newest() - CLOCK_TOLERANCE:
            with self._by(wrong) as services, pytest.raises(ClockRefused):
                self.lake.run(as_of=wrong, services=services)

    @contextmanager
    def _by(self, moment: datetime) -> Iterator[RunContext]:
        clock, database = MovingClock(moment), self.lake.control.database
        right, database.clock = database.clock, clock
        try:
            yield self.lake.services(clock=clock)
        finally:
            database.clock = right

    def _newest(self) -> datetime:
        newest = self.lake.control.database.newest_time()
        assert newest is not None
        return newest
