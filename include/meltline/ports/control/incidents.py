"""Protocols of incidents: problems that are reported to operators until they are resolved.

Observation, gates and purges raise them; `adapters/sql_ledger` implements the protocols.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class Incident:
    """An event on a table's files that an operator must know.

    Attributes:
        id: Identifies event and object: the same event raised again is the same incident.
        kind: The type of the error, or another name of the kind.
        object: The file, snapshot or table concerned.
        table: The table's name, for display; `table_uuid` is its registration.
        at: When it was first raised, by the wall clock.
        message: A description of the event.
        next: The operator's next step.
    """

    id: str
    kind: str
    object: str
    table: str
    table_uuid: str
    at: datetime
    message: str
    next: str


class IncidentAlarm(Protocol):
    """Raises incidents; cannot end them."""

    def add(self, incidents: Sequence[Incident]) -> None:
        """Stores incidents; an open one keeps the time at which it was first raised."""
        ...


class IncidentLedger(IncidentAlarm, Protocol):
    """Reads and ends incidents that are not resolved."""

    def all(self) -> Sequence[Incident]:
        """Returns open incidents, oldest first."""
        ...

    def end(self, ids: Sequence[str]) -> None:
        """Removes resolved incidents; unknown ones are no error."""
        ...
