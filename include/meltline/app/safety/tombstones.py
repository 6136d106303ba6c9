"""Moves departures to their next state: deleted, or cancelled if the file is needed again.

Observe, purge and purge vetoes call it, so that each change is audited the same way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

from meltline.app.safety.audit import AuditTrail
from meltline.domain.deletion.plan import Plan
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.domain.units import format_size
from meltline.ports import DepartureLog

_SHOWN = 3
_MOST_LINES = 100


def next_departures(
    files: Iterable[PlannedFile],
    to: DepartureState,
    before: Mapping[str, Departure],
    now: datetime,
) -> Iterable[Departure]:
    """Yields the departures of some files in their next state; files without one are omitted."""
    for file in files:
        if departure := before.get(file.path):
            yield replace(departure, state=to, recorded_at=now)


def take_back(
    departures: DepartureLog, trail: AuditTrail, paths: Sequence[str], why: str
) -> set[str]:
    """Cancels and audits departures of files that are needed again; returns their paths.

    If such a file becomes unreferenced once more, its failsafe starts then.
    """
    departed = departures.in_states(
        frozenset({DepartureState.FAILSAFE, DepartureState.DELETED}), paths=paths
    )
    if departed:
        now = trail.clock.now()
        back = [replace(d, state=DepartureState.CANCELLED, recorded_at=now) for d in departed]
        departures.record({f"taken-back-{uuid4()}": back})
        audit_cancelled(trail, [departure.path for departure in departed], why)
    return {departure.path for departure in departed}


def audit_cancelled(trail: AuditTrail, paths: Sequence[str], why: str) -> None:
    """Records which departures were cancelled, and why (PX-13)."""
    subject = paths[0] if len(paths) == 1 else f"{len(paths)} files"
    trail.add("cancel departure", subject, why, _listed(sorted(paths)))


def audit_deleted(trail: AuditTrail, done: Iterable[tuple[Plan, Sequence[PlannedFile]]]) -> None:
    """Records how much of each table was deleted, and by which plan: one entry each."""
    trail.add_all(
        (
            "purge",
            str(plan.table),
            f"plan {plan.id} of run {plan.run_id}",
            f"{len(files)} files, {format_size(sum(file.bytes for file in files))} ({plan.digest})",
        )
        for plan, files in done
    )


def audit_replaced(
    trail: AuditTrail, progress: Callable[[str], None], reasons: Mapping[str, str]
) -> None:
    """Records paths at which another object was found than the departed one, and why it stays."""
    if not reasons:
        return
    lines = [f"{path}: {why}" for path, why in sorted(reasons.items())]
    progress(f"purge: kept, as it is not what departed: {'; '.join(lines[:_SHOWN])}")
    subject = next(iter(reasons)) if len(reasons) == 1 else f"{len(reasons)} files"
    why = "it is not the file that departed"
    trail.add("keep replaced file", subject, why, _listed(lines))


def _listed(lines: Sequence[str]) -> str:
    """Returns the first lines and the count of the others, to keep an audit entry small."""
    left_out = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *([f"and {left_out} more"] if left_out > 0 else [])])
