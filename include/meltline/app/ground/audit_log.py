"""Who did what, when and why."""

from meltline.app.services import ReadContext
from meltline.ports import AuditEntry


def audit(
    ledgers: ReadContext, action: str, object: str, reason: str = "", detail: str = ""
) -> None:
    """Records who did what, when and why (PX-13)."""
    now = ledgers.clock.now()
    ledgers.control.audit.add(AuditEntry(now, ledgers.who, action, object, reason, detail))
