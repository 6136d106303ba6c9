"""The JSON document of a run: lines for plans and tables, and the merge of its steps' documents.

`run/summary.py` writes it for one process; a DAG's verdict and `run/recorded.py` merge several.
It is a module of its own because Airflow merges documents without the ports of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meltline.app.run.recap import recap
from meltline.app.status.recorded import PURGING
from meltline.domain.deletion.plan import Plan


@dataclass(frozen=True)
class TableResult:
    """Result of a run for one table. `skipped` and `refused` are reasons, and empty otherwise.

    Attributes:
        snapshots_gone: Number of snapshots that another tool had expired; `files_gone` were deleted
            by another tool during failsafe.
        catching_up: Number of nights until its backlog is gone; empty if it has none.
        next: The next step for a table that was skipped or refused, or failed.
    """

    table: str
    snapshots_expired: int = 0
    files_departed: int = 0
    bytes_departed: int = 0
    files_purged: int = 0
    bytes_purged: int = 0
    snapshots_archived: int = 0
    files_copied: int = 0
    bytes_copied: int = 0
    commits_followed: int = 0
    rows_copied: int = 0
    buckets_refreshed: int = 0
    chunks_tiered: int = 0
    chunks_dropped: int = 0
    bytes_dropped: int = 0
    snapshots_gone: int = 0
    files_gone: int = 0
    catching_up: str = ""
    skipped: str = ""
    refused: str = ""
    failed: str = ""
    next: str = ""


_WHERE_ANY = (
    "commits_followed",
    "rows_copied",
    "buckets_refreshed",
    "chunks_tiered",
    "chunks_dropped",
    "bytes_dropped",
    "snapshots_gone",
    "files_gone",
    "catching_up",
)
_OF_LAKE = ("armed", "purge_blocked", PURGING)


def plan_line(plan: Plan) -> dict[str, Any]:
    """Formats a plan for the summary of a run."""
    gate = "passed" if plan.state in ("passed", "applying", "applied", "failed") else plan.state
    return {
        "id": plan.id,
        "kind": str(plan.kind),
        "table": str(plan.table),
        "digest": plan.digest,
        "gate": str(gate) if gate in ("passed", "refused") else "none",
        "state": str(plan.state),
        "snapshots": len(plan.snapshots),
        "files": plan.files,
        "bytes": plan.bytes,
        **({"chunks": len(plan.chunks)} if plan.chunks else {}),
    }


def approval_line(plan: Plan, instead_of: str = "") -> dict[str, Any]:
    """Formats a plan that waits for approval, for the summary of a run."""
    return {
        "plan": plan.id,
        "digest": plan.digest,
        "table": str(plan.table),
        "files": plan.files,
        "bytes": plan.bytes,
        "instead_of": instead_of or None,
        "next": f"`meltline approval show {plan.id}`, then `meltline apply {plan.id} --approve "
        f"REASON`; after `gates.ttl` `meltline gate {plan.id}` first",
    }


def table_line(table: TableResult) -> dict[str, Any]:
    """Formats a table for the summary of a run; `skipped` is null if it was not."""
    return {
        "table": table.table,
        "snapshots_expired": table.snapshots_expired,
        "files_departed": table.files_departed,
        "bytes_departed": table.bytes_departed,
        "files_purged": table.files_purged,
        "bytes_purged": table.bytes_purged,
        "snapshots_archived": table.snapshots_archived,
        "files_copied": table.files_copied,
        "bytes_copied": table.bytes_copied,
        **{key: cell for key in _WHERE_ANY if (cell := getattr(table, key))},
        "skipped": table.skipped or None,
        "refused": table.refused or None,
        "failed": table.failed or None,
        "next": table.next or None,
    }


def merge(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merges the documents of a run's steps into one (the DAG's verdict)."""
    tables: dict[str, dict[str, Any]] = {}
    plans: dict[str, Any] = {}
    notes: list[str] = []
    notices: list[str] = []
    not_armed: dict[str, Any] = {}
    approvals: dict[str, Any] = {}
    deferred: dict[tuple[str, str], Any] = {}
    lake: dict[str, Any] = {}
    for document in documents:
        plans.update({plan["id"]: plan for plan in document.get("plans", ())})
        notes += [note for note in document.get("notes", ()) if note not in notes]
        notices += [note for note in document.get("notices", ()) if note not in notices]
        approvals.update({line["plan"]: line for line in document.get("approvals", ())})
        deferred |= {(d["table"], d["chunk"]): d for d in document.get("deferred", ())}
        lake |= {key: document[key] for key in _OF_LAKE if key in document}
        for line in document.get("tables", ()):
            _add_line(tables.setdefault(line["table"], {}), line)
        _add_line(not_armed, document.get("not_armed") or {})
    first: Mapping[str, Any] = next((each for each in documents if "run_id" in each), {})
    return with_recap(
        {
            "run_id": first.get("run_id", ""),
            "as_of": first.get("as_of", ""),
            "dry_run": first.get("dry_run", False),
            "plans": list(plans.values()),
            "tables": [tables[name] for name in sorted(tables)],
            "notes": notes,
            "notices": notices,
            **({"not_armed": not_armed} if not_armed else {}),
            **({"approvals": list(approvals.values())} if approvals else {}),
            **({"deferred": list(deferred.values())} if deferred else {}),
            **lake,
        }
    )


def with_recap(document: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the recap to a run's document, as its first key."""
    return {"recap": recap(document), **document}


def _add_line(table: dict[str, Any], line: Mapping[str, Any]) -> None:
    """Adds a step's line to the merged line: sums numbers, replaces other values."""
    for key, cell in line.items():
        if isinstance(cell, int) and not isinstance(cell, bool):
            table[key] = table.get(key, 0) + cell
        else:
            table[key] = cell if cell is not None else table.get(key)
