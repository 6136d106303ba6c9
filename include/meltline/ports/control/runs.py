"""Runs, what holds them back and what allows them, statements, and what was stored day by day."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from meltline.domain.arming import Arming
from meltline.domain.deletion.plan import PlanTotals
from meltline.domain.deletion.storage import StorageRow


@dataclass(frozen=True)
class RunRecord:
    """One execution with a logical date. `summary` is the JSON that `run --json` prints."""

    id: str
    as_of: datetime
    started_at: datetime
    ended_at: datetime | None = None
    summary: str = ""


class RunLog(Protocol):
    """Runs."""

    def start(self, run: RunRecord) -> None:
        """Stores a run; one of the same id that is there already stays (a retry is no new run)."""
        ...

    def finish(self, run: RunRecord) -> None:
        """Stores a run's end and summary, and the run itself where it was never started."""
        ...

    def newest(
        self, limit: int | None, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[RunRecord]:
        """The newest runs, newest first.

        Args:
            limit: So many; None is all.
            since: Started then or later.
            until: Started before then.
        """
        ...

    def get(self, id_or_prefix: str) -> RunRecord:
        """A run by id, unique prefix or `last`. Raises RunNotFound."""
        ...

    def plan_totals(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[PlanTotals]]:
        """What became of the plans of each of these runs, added up by kind and state."""
        ...


@dataclass(frozen=True)
class StopSwitch:
    """That somebody holds back every destructive step."""

    who: str
    reason: str
    at: datetime


class SwitchLedger(Protocol):
    """The one stop switch, and whether the catalog is armed."""

    def stopped(self) -> StopSwitch | None:
        """Who holds back every destructive step, if anybody."""
        ...

    def set(self, switch: StopSwitch | None) -> None:
        """Sets the switch, or with None lets everything go on."""
        ...

    def arming(self) -> Arming | None:
        """The word that scheduled runs may destroy, if anybody has given it."""
        ...

    def arm(self, arming: Arming | None) -> None:
        """Stores the word in place of any other, or with None takes it back."""
        ...


class StatementState(StrEnum):
    """How far a statement has come."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class StatementRecord:
    """A statement that `meltline sql` has run (TT-30, TT-31).

    Attributes:
        id: As the summaries of its snapshots have it.
        kind: Its first word; the text may hold what is nobody's business.
        completed_at: When it ended, well or not; None while it runs.
    """

    id: str
    kind: str
    who: str
    state: StatementState
    started_at: datetime
    completed_at: datetime | None = None


class StatementLog(Protocol):
    """Statements."""

    def save(self, statement: StatementRecord) -> None:
        """Stores a statement, or how far it has come."""
        ...

    def get(self, id: str) -> StatementRecord | None: ...


class StorageHistory(Protocol):
    """Totals of storage, a row per day and table."""

    def save(self, day: str, rows: Sequence[StorageRow]) -> None:
        """Upserts a day's totals; `day` is `YYYY-MM-DD` in UTC."""
        ...

    def of(self, day: str) -> Sequence[StorageRow]:
        """A day's totals, by table name."""
        ...
