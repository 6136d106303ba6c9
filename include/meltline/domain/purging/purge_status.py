"""Status of purging in the whole lake: whether, since when and why it is halted, and what is due.

The status command, the pages and the metrics show it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum

from meltline.domain.deletion.withheld import Why


class HaltReason(StrEnum):
    """A cause for which nothing is deleted in the whole lake; a label of the metrics."""

    STOPPED = "stopped"
    NOT_ARMED = "not_armed"
    LEDGER = "ledger_refused"
    CLOCK = "clock_refused"
    CATALOG = "catalog_unlistable"
    TABLES = "tables_unread"
    REFUSED = "plans_refused"
    NO_RUN = "no_good_run"


@dataclass(frozen=True)
class Halt:
    """One cause for which purging is halted.

    Attributes:
        why: The obstacle, in a sentence without a full stop.
        next: The next step for an operator.
        since: When it was first observed.
    """

    reason: HaltReason
    why: str
    next: str
    since: datetime

    @property
    def is_chosen(self) -> bool:
        """Whether an operator chose it: `meltline stop`, or a catalog that is not armed."""
        return self.reason in (HaltReason.STOPPED, HaltReason.NOT_ARMED)


@dataclass(frozen=True)
class DueBytes:
    """Bytes in failsafe, by when they may be deleted.

    Attributes:
        overdue: Past their due time, and not deleted yet.
        next_day: The next day in UTC on which some are due; None if none is in the next weeks.
        next_bytes: How many are due on that day.
    """

    overdue: int = 0
    next_day: date | None = None
    next_bytes: int = 0


@dataclass(frozen=True)
class Waiting:
    """Purges that wait for an operator's approval."""

    plans: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class PurgeStatus:
    """The state of purging in the whole lake at one moment.

    Attributes:
        at: When it was read.
        last_success: When the last good run ended: it was complete, and no table failed.
        halts: Why nothing is deleted anywhere; empty while purging works.
        due: As in the last report.
        held_back: Bytes that are unreferenced and kept, by reason.
        tables: The number of tables, by state.
        plans_refused: Plans that a gate refused and that are still refused.
        stage_bytes: By stage, as in the last report.
        chunks_unknown: Chunks with an unknown drop: it may have been undone.
        catching_up: Tables whose backlog expires in portions, as in the last report.
    """

    at: datetime
    last_success: datetime | None = None
    halts: Sequence[Halt] = ()
    due: DueBytes = field(default_factory=DueBytes)
    held_back: Mapping[Why, int] = field(default_factory=dict)
    waiting: Waiting = field(default_factory=Waiting)
    tables: Mapping[str, int] = field(default_factory=dict)
    plans_refused: int = 0
    stage_bytes: Mapping[str, int] = field(default_factory=dict)
    chunks_unknown: int = 0
    catching_up: int = 0

    @property
    def has_stopped(self) -> bool:
        """Whether nothing is deleted in the whole lake."""
        return bool(self.halts)

    @property
    def is_armed(self) -> bool:
        """Whether scheduled runs may destroy."""
        return all(halt.reason is not HaltReason.NOT_ARMED for halt in self.halts)

    @property
    def defects(self) -> Sequence[Halt]:
        """The causes that no operator chose."""
        return [halt for halt in self.halts if not halt.is_chosen]
