"""What a run was asked for, read from its Airflow context and turned into a step's arguments."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_instant
from meltline.orchestration.as_of import as_of

MANUAL = "manual"


@dataclass(frozen=True)
class Request:
    """The parameters of one run, checked.

    Attributes:
        tables: Globs over `catalog.namespace.table`, comma-separated; empty is all.
        dry_run: Show what would be done, change nothing.
        any_hour: Copy history to cold outside the quiet window too.
        approval: Why a person approves purges above the limit; empty when nobody does.
        user: Who triggered the run, for the audit; empty when nobody did.
    """

    run_id: str
    as_of: datetime
    tables: str
    dry_run: bool
    approval: str
    user: str
    any_hour: bool = False

    @classmethod
    def of(cls, context: Mapping[str, Any], environ: Mapping[str, str]) -> "Request":
        """Reads the context of any task of the run.

        Raises:
            UsageInvalid: The parameters ask for what this kind of run may not do.
        """
        params, run = context["params"], context["dag_run"]
        return cls(
            run_id=run.run_id,
            as_of=as_of(context, environ),
            tables=str(params.get("tables") or "").strip(),
            dry_run=bool(params.get("dry_run")),
            approval=_approval(params, run.run_type),
            user=str(getattr(run, "triggering_user_name", None) or ""),
            any_hour=bool(params.get("any_hour")),
        )

    def arguments(self, config: str, summary: str) -> list[str]:
        """The command line that every Spark app takes; anybody may read it.

        Each value stays with its name in one word: a value may then begin with a dash.
        """
        words = [
            f"--config={config}",
            f"--run-id={self.run_id}",
            f"--as-of={format_instant(self.as_of)}",
            f"--summary={summary}",
        ]
        if self.tables:
            words.append(f"--tables={self.tables}")
        if self.dry_run:
            words.append("--dry-run")
        if self.any_hour:
            words.append("--any-hour")
        return words

    def private(self, *, approvable: bool) -> list[str]:
        """What an app is told besides, and other users of the machine are not: who asked, and why.

        Args:
            approvable: Whether the app takes a person's approval.
        """
        words = [f"--who={self.user}"] if self.user else []
        return [*words, *([f"--approve={self.approval}"] if approvable and self.approval else [])]


def _approval(params: Mapping[str, Any], run_type: str) -> str:
    """The reason of a person's approval. Nobody is there to approve on a schedule (PX-10)."""
    if not params.get("approve_over_limit"):
        return ""
    if run_type != MANUAL:
        raise UsageInvalid(
            "only a person may approve a purge above the limit, in a run that they trigger",
            object="approve_over_limit",
            expected="a manual run",
            found=f"a {getattr(run_type, 'value', run_type)!s} run",
            next="leave it off here; trigger a run by hand with approve_over_limit and a reason",
        )
    reason = str(params.get("reason") or "").strip()
    if not reason:
        raise UsageInvalid(
            "approving a purge above the limit needs a reason",
            object="reason",
            expected="why it is right to delete this much",
            found="nothing",
            next="trigger the run again with a reason",
        )
    return reason
