"""Reads the state of purging that reports of earlier runs stored in the run log.

`purge_status` calls it, to date a cause from its first observation. The state needs no table of its
own, because the run log keeps the document of every run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from meltline.domain.json_values import plain
from meltline.domain.purging.purge_status import DueBytes, HaltReason, PurgeStatus
from meltline.domain.units import parse_instant
from meltline.ports import RunLog, RunRecord

PURGING = "purging"
"""Key in a run's document: the state of purging, from its report step."""

_DEPTHS = (20, 200, 2000, 20_000)  # newest runs: a site replicates far more often than it reports


@dataclass(frozen=True)
class RecordedStatus:
    """The newest state of purging that a report recorded.

    Attributes:
        at: The time of the report; None if no report has recorded a state.
        since: The first observation of each cause.
        why: The sentence of each cause.
        failed_since: The start of the first later run that has no end.
        catching_up: Number of tables whose backlog is expired in portions.
    """

    at: datetime | None = None
    last_success: datetime | None = None
    due: DueBytes = field(default_factory=DueBytes)
    since: Mapping[HaltReason, datetime] = field(default_factory=dict)
    why: Mapping[HaltReason, str] = field(default_factory=dict)
    failed_since: datetime | None = None
    catching_up: int = 0


def as_document(status: PurgeStatus) -> dict[str, Any]:
    """Formats the state for a run's document and `status --json`."""
    document: dict[str, Any] = plain(status)
    return {**document, "armed": status.is_armed, "stopped": status.has_stopped}


def recorded_status(runs: RunLog) -> RecordedStatus:
    """Reads the newest recorded state, and the runs after it."""
    for depth in _DEPTHS:
        newest = runs.newest(depth)
        for number, run in enumerate(newest):
            if f'"{PURGING}"' in run.summary and (document := json.loads(run.summary).get(PURGING)):
                return _read(document, newest[:number])
        if len(newest) < depth:
            return _read({}, newest)
    return RecordedStatus()


def _read(document: Mapping[str, Any], later: Sequence[RunRecord]) -> RecordedStatus:
    unended = [run.started_at for run in later if run.ended_at is None]
    due, halts = document.get("due") or {}, document.get("halts", ())
    next_day = due.get("next_day")
    return RecordedStatus(
        at=_instant(document.get("at")),
        last_success=_instant(document.get("last_success")),
        due=DueBytes(
            due.get("overdue", 0),
            date.fromisoformat(next_day) if next_day else None,
            due.get("next_bytes", 0),
        ),
        since={HaltReason(halt["reason"]): parse_instant(halt["since"]) for halt in halts},
        why={HaltReason(halt["reason"]): halt["why"] for halt in halts},
        failed_since=min(unended, default=None),
        catching_up=document.get("catching_up", 0),
    )


def _instant(text: str | None) -> datetime | None:
    return parse_instant(text) if text else None
