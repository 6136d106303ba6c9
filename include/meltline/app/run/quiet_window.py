"""The quiet window of a run: outside it no new work on the stores begins, and the rest is reported.

`Run` asks it before each step that reads or writes much. The hours are in `IoSettings`; this module
adds the notices to the summary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meltline.app.run.summary import Summary
from meltline.domain.clock import Clock
from meltline.domain.deletion.limits import IoSettings
from meltline.domain.deletion.plan import Plan

_LATER = "it is outside io.quiet-window; the next run inside it goes on, or one with --any-hour"


@dataclass(frozen=True)
class QuietWindow:
    """Decides whether work may begin (AR-38).

    Attributes:
        any_hour: Whether the operator has overridden the window for this run.
        summary: Receives a notice about work that is left.
    """

    io: IoSettings
    clock: Clock
    any_hour: bool
    summary: Summary

    def is_open(self) -> bool:
        """Whether work on the stores may begin now."""
        return self.any_hour or self.io.may_begin(self.clock.now())

    def allows(self, done: str, plans: Sequence[Plan]) -> bool:
        """Whether work on these plans may begin now; if not, they wait for another run."""
        if not plans or self.is_open():
            return True
        self.summary.with_plans(plans)
        self.summary.notices.append(f"{len(plans)} plans are not {done}: {_LATER}")
        return False

    def allows_sweep(self) -> bool:
        """Whether a sweep may begin now."""
        if self.is_open():
            return True
        self.summary.notices.append(f"nothing is swept: {_LATER}")
        return False
