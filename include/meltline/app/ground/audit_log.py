"""Who did what, when and why."""

from collections.abc import Iterable
from dataclasses import dataclass

from meltline.app.services import ReadContext
from meltline.domain.clock import Clock
from meltline.ports import AuditEntry, AuditLog


@dataclass(frozen=True)
class AuditTrail:
    """Records what one actor does, when and why (PX-13)."""

    log: AuditLog
    actor: str
    clock: Clock

    @classmethod
    def of(cls, context: ReadContext) -> "AuditTrail":
        """The trail of a command or a step."""
        return cls(context.control.audit, context.who, context.clock)

    def add(self, action: str, subject: str, reason: str = "", detail: str = "") -> None:
        """Records that something was done now."""
        self.add_all([(action, subject, reason, detail)])

    def add_all(self, entries: Iterable[tuple[str, str, str, str]]) -> None:
        """Records several things, each an action, a subject, a reason and a detail."""
        now = self.clock.now()
        self.log.add(*(AuditEntry(now, self.actor, *entry) for entry in entries))


def audit(
    context: ReadContext, action: str, object: str, reason: str = "", detail: str = ""
) -> None:
    """Records who did what, when and why (PX-13)."""
    AuditTrail.of(context).add(action, object, reason, detail)
