"""Protocols of runs, the stop switch and arming, SQL statements, and storage history.

`app` and the pages use them; `adapters/sql_ledger` implements them.
"""

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
    """Stores runs."""

    def start(self, run: RunRecord) -> None:
        """Stores a run unless its id is stored already (a retry is no new run)."""
        ...

    def finish(self, run: RunRecord) -> None:
        """Stores a run's end and summary, and the run itself if its start was not stored."""
        ...

    def newest(
        self, limit: int | None, since: datetime | None = None, until: datetime | None = None
    ) -> Sequence[RunRecord]:
        """Returns the newest runs, newest first.

        Args:
            limit: The greatest number of runs; None is all.
            since: Started then or later.
            until: Started before then.
        """
        ...

    def get(self, id_or_prefix: str) -> RunRecord:
        """Returns a run by id, unique prefix or `last`. Raises RunNotFound."""
        ...

    def plan_totals(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[PlanTotals]]:
        """Returns the plans of each run, added up by kind and state."""
        ...


@dataclass(frozen=True)
class StopSwitch:
    """A stop switch that is set: it blocks every destructive step."""

    who: str
    reason: str
    at: datetime


class SwitchLedger(Protocol):
    """Stores the stop switch, and whether the catalog is armed."""

    def stopped(self) -> StopSwitch | None:
        """Returns the stop switch if it is set."""
        ...

    def set(self, switch: StopSwitch | None) -> None:
        """Sets the switch; None clears it."""
        ...

    def arming(self) -> Arming | None:
        """Returns the arming that allows scheduled runs to destroy, if there is one."""
        ...

    def arm(self, arming: Arming | None) -> None:
        """Stores an arming and replaces any other; None disarms."""
        ...


class StatementState(StrEnum):
    """The progress of a statement."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True)
class StatementRecord:
    """A statement that `meltline sql` has run (TT-30, TT-31).

    Attributes:
        id: The id in the summaries of its snapshots.
        kind: Its first keyword; the text is not stored, because it may hold private values.
        completed_at: When it ended, successfully or not; None while it runs.
    """

    id: str
    kind: str
    who: str
    state: StatementState
    started_at: datetime
    completed_at: datetime | None = None


class StatementLog(Protocol):
    """Stores statements."""

    def save(self, statement: StatementRecord) -> None:
        """Stores a statement, or its new state."""
        ...

    def get(self, id: str) -> StatementRecord | None: ...


class StorageHistory(Protocol):
    """Stores totals of storage, one row per day and table."""

    def save(self, day: str, rows: Sequence[StorageRow]) -> None:
        """Upserts a day's totals; `day` is `YYYY-MM-DD` in UTC."""
        ...

    def of(self, day: str) -> Sequence[StorageRow]:
        """Returns a day's totals, by table name."""
        ...
