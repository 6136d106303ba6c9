"""Rows of the file ledger turned into facts, the same for Spark's reading and PyIceberg's."""

from collections.abc import Mapping
from typing import Any

from meltline.domain.files import Departure, DepartureState, FileKind, PlannedFile


def planned_file(row: Mapping[str, Any]) -> PlannedFile:
    """A plan item from a ledger row."""
    return PlannedFile(
        row["path"], FileKind(row["kind"]), row["bytes"], row["owner"], row["due_at"]
    )


def departure(row: Mapping[str, Any]) -> Departure:
    """A departure from a ledger row."""
    return Departure(
        path=row["path"],
        kind=FileKind(row["kind"]),
        bytes=row["bytes"],
        owner=row["owner"],
        plan_id=row["plan_id"],
        departed_at=row["departed_at"],
        due_at=row["due_at"],
        state=DepartureState(row["state"]),
        recorded_at=row["recorded_at"],
    )
