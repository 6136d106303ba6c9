"""Writes and reads the audit log: who set, dropped, held or approved what, when and why (PX-13).

Commands and steps call it for every decision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.services import ReadContext
from meltline.domain.clock import Clock
from meltline.domain.errors import PlanNotFound
from meltline.domain.iceberg.names import quote_part, split_name
from meltline.ports import AuditEntry, AuditLog, ControlLedger


@dataclass(frozen=True)
class AuditTrail:
    """Records what one actor does, when and why (PX-13)."""

    log: AuditLog
    actor: str
    clock: Clock

    @classmethod
    def of(cls, context: ReadContext) -> "AuditTrail":
        """Returns the trail of a command or a step."""
        return cls(context.control.audit, context.who, context.clock)

    def add(self, action: str, subject: str, reason: str = "", detail: str = "") -> None:
        """Records one action, now."""
        self.add_all([(action, subject, reason, detail)])

    def add_all(self, entries: Iterable[tuple[str, str, str, str]]) -> None:
        """Records several actions, each with its subject, reason and detail."""
        now = self.clock.now()
        self.log.add(*(AuditEntry(now, self.actor, *entry) for entry in entries))


def audit(
    context: ReadContext, action: str, object: str, reason: str = "", detail: str = ""
) -> None:
    """Records who did what, when and why (PX-13)."""
    AuditTrail.of(context).add(action, object, reason, detail)


APPROVE = "approve"


def decisions(
    context: ReadContext, of: str = "", since: datetime | None = None
) -> Sequence[AuditEntry]:
    """Returns decisions, oldest first.

    Args:
        context: Has the audit log.
        of: An object, however its name is quoted: a table with its snapshots and plans, or a
            namespace with its content. Empty means everything.
        since: The earliest time.
    """
    entries = context.control.audit.entries(since=since)
    if not of:
        return entries
    scope = _normal(of)
    return [record for record in entries if _is_about(scope, _subject(context.control, record))]


def _subject(control: ControlLedger, record: AuditEntry) -> str:
    """Returns the subject of a decision; for an approved plan its table."""
    if record.action != APPROVE:
        return record.object
    try:
        return str(control.plans.get(record.object).table)
    except PlanNotFound:
        return record.object


def _is_about(scope: str, subject: str) -> bool:
    return subject == scope or subject.startswith((f"{scope}.", f"{scope}@"))


def _normal(text: str) -> str:
    try:
        return ".".join(map(quote_part, split_name(text)))
    except ValueError:
        return text
