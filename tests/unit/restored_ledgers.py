"""Random lives in which an old backup of the control ledger comes back, and nobody notices."""

import copy
from typing import Any

from hypothesis import strategies as st

from meltline.app.init import init
from tests.unit.lake import DAY
from tests.unit.recorded import rule
from tests.unit.unlucky_lives import UnluckyLifecycles

NOT_DATA = {"_clock", "_database", "_lease_time", "_guard"}


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
        rows = vars(self.lake.control).items()
        self.backup = copy.deepcopy({k: v for k, v in rows if k not in NOT_DATA})

    @rule(adopted=st.booleans())
    def backup_comes_back(self, adopted: bool) -> None:
        """With `init --adopt` after it, or without."""
        if not self.backup:
            return
        vars(self.lake.control).update(copy.deepcopy(self.backup))
        self.lake.returns.clear()
        for story in self.lake.stories.values():
            story.side.clear()
        if adopted:
            init(self.lake.services(), adopt=True)

    def teardown(self) -> None:
        """Of the accounts nothing is said, and not that runs end well: files are what counts."""
        if self.is_broken:
            return
        self.engines.make_peace()
        self.lake.check()
        for days in (0, 31, 31, 8, 8, 8):
            self.lake.clock.moment += days * DAY
            self.lake.run()
            self.lake.check()
