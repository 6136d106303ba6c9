"""Recap of a run in prose: one sentence for the whole run, and one for each changed table.

It reads a run's document and nothing else, so that the command, each task and the verdict of a DAG
say the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meltline.app.status.recorded import PURGING
from meltline.domain.purging.purge_status import HaltReason
from meltline.domain.safe_text import quote
from meltline.domain.units import counted, format_files, format_size

_ITS_DAY = ("STRADDLES", "LATEST_KEPT", "OVER_SHARE")
"""Reasons of deferrals that a policy implies on every day."""
_PROBLEMS = ("skipped", "refused", "failed")


@dataclass(frozen=True)
class _Deed:
    """An action on a table, as the recap reports it.

    Attributes:
        count: The key of the number of objects.
        unit: The kind of the objects.
        bytes: The key of their bytes; empty if these are unknown.
        words: The result of the action.
    """

    count: str
    unit: str
    bytes: str
    words: str

    def tell(self, tables: Sequence[Mapping[str, Any]], whose: str = "") -> str:
        """Formats `205 files, 2.0 MiB of lake.air.t began to wait`, summed over some tables."""
        amount = counted(sum(line.get(self.count, 0) for line in tables), self.unit)
        if self.bytes:
            amount += f", {format_size(sum(line.get(self.bytes, 0) for line in tables))}"
        return f"{amount}{f' of {whose}' if whose else ''} {self.words}"


_DEEDS = (
    _Deed("snapshots_archived", "snapshot", "", "copied to cold"),
    _Deed("snapshots_expired", "snapshot", "", "expired"),
    _Deed("files_departed", "file", "bytes_departed", "began to wait"),
    _Deed("files_purged", "file", "bytes_purged", "deleted"),
    _Deed("commits_followed", "commit", "", "followed by cold"),
    _Deed("rows_copied", "row", "", "copied to cold"),
    _Deed("buckets_refreshed", "bucket", "", "aggregated anew"),
    _Deed("chunks_tiered", "chunk", "", "proved to be in cold"),
    _Deed("chunks_dropped", "chunk", "bytes_dropped", "dropped from hot"),
    _Deed("snapshots_gone", "snapshot", "", "expired by another tool"),
    _Deed("files_gone", "file", "", "gone while they waited, deleted by another tool"),
)


def recap(document: Mapping[str, Any]) -> list[str]:
    """Returns the sentence about the whole run, and the sentences about its tables.

    If the catalog is not armed, the first reports what was not done. If purging has stopped, the
    first begins with that; in a sandbox, `armed: sandbox` precedes it.

    Args:
        document: The document of a run or a step, as `run --json` prints it.
    """
    first, *more = _sentences(document)
    armed = [f"armed: {document['armed']}"] if "armed" in document else []
    return ["; ".join([*armed, *_stopped(document), first]), *more]


def _stopped(document: Mapping[str, Any]) -> Iterator[str]:
    """Reasons why purging has stopped in the whole lake; `not_armed` has a line of its own."""
    halts = document.get(PURGING, {}).get("halts", ())
    halts = [halt for halt in halts if halt["reason"] != HaltReason.NOT_ARMED]
    for halt in halts:
        yield f"purging has stopped since {halt['since']}: {halt['why']}; next: {halt['next']}"
    if not halts and (blocked := document.get("purge_blocked")):
        yield f"purging has stopped: {blocked}"


def _sentences(document: Mapping[str, Any]) -> list[str]:
    tables: Sequence[Mapping[str, Any]] = document.get("tables", ())
    unarmed = [line] if (line := not_armed_line(document)) else []
    if document.get("dry_run"):
        told = list(_planned(document.get("plans", ()))) or ["nothing would be done"]
        return [*unarmed, "; ".join(["a dry run", *told, *_problems(tables)])]
    told = [
        deed.tell(lines, quoted(lines[0]["table"]) if len(lines) == 1 else f"{len(lines)} tables")
        for deed in _DEEDS
        if (lines := [line for line in tables if line.get(deed.count)])
    ]
    waiting = list(_waiting(document.get("approvals", ())))
    waiting += _deferred(document.get("deferred", ()))
    if backlogs := sum(1 for line in tables if line.get("catching_up")):
        waiting.append(f"{counted(backlogs, 'table')} catching up")
    whole = "; ".join([*(told or ["nothing was done"]), *waiting, *_problems(tables)])
    return [*unarmed, whole, *_details(tables)]


def not_armed_line(document: Mapping[str, Any]) -> str:
    """Returns the first line of an unarmed run; empty if it was armed, or did not check.

    Args:
        document: The document of a run, or of all its steps merged. The plans of a dry run have no
            verdict, and count all the same.
    """
    counts = document.get("not_armed")
    if not counts:
        return ""
    wrong = {t["table"] for t in document["tables"] if any(t.get(how) for how in _PROBLEMS)}
    plans = [plan for plan in document["plans"] if plan["table"] not in wrong]
    if not document["dry_run"]:
        plans = [p for p in plans if p["gate"] == "passed" and p["state"] != "applied"]
    deeds = ", ".join(_undone(counts, plans)) or "destroyed nothing"
    return f"not armed: would have {deeds}; `meltline arm {quote(counts['catalog'])} --reason TEXT`"


def _undone(counts: Mapping[str, Any], plans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if expired := [plan for plan in plans if plan["kind"] == "expire"]:
        snapshots = counted(sum(plan["snapshots"] for plan in expired), "snapshot")
        tables = counted(len({plan["table"] for plan in expired}), "table")
        yield f"expired {snapshots} of {tables}, so that {_files(expired)} begin to wait"
    if purged := [plan for plan in plans if plan["kind"] == "purge"]:
        yield f"deleted {_files(purged)}"
    if dropped := [plan for plan in plans if plan["kind"] == "drop_chunks"]:
        chunks = counted(sum(plan.get("chunks", 0) for plan in dropped), "chunk")
        yield f"dropped {chunks} from hot, {_files(dropped)}"
    if counts["orphans"]:
        orphans = {"files": counts["orphans"], "bytes": counts["orphan_bytes"]}
        yield f"had {_files([orphans])} that no commit has named begin to wait"
    if counts["drops"]:
        yield f"let go {counted(counts['drops'], 'dropped table')}"


def _files(plans: Sequence[Mapping[str, Any]]) -> str:
    files = counted(sum(plan["files"] for plan in plans), "file")
    return f"{files} ({format_size(sum(plan['bytes'] for plan in plans))})"


def judged(document: Mapping[str, Any]) -> str:
    """Counts the verdicts in the document of a gate step: `2 plans passed, 1 plan refused`."""
    verdicts = [plan["gate"] for plan in document.get("plans", ())]
    told = [
        f"{counted(number, 'plan')} {verdict}"
        for verdict in ("passed", "refused")
        if (number := verdicts.count(verdict))
    ]
    return ", ".join(told) or "no plan was judged"


def _planned(plans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Actions that a dry run's plans would take, by kind of plan."""
    for kind in dict.fromkeys(plan["kind"] for plan in plans):
        lines = [plan for plan in plans if plan["kind"] == kind]
        files, size = (sum(plan.get(key, 0) for plan in lines) for key in ("files", "bytes"))
        verb = "drop chunks of" if kind == "drop_chunks" else kind
        yield f"{counted(len(lines), 'plan')} would {verb} {format_files(files, size)}"


def _waiting(approvals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Formats `2 purges, 3.0 TiB, wait for approval`; empty if no plan waits."""
    if approvals:
        verb = "waits" if len(approvals) == 1 else "wait"
        size = format_size(sum(line["bytes"] for line in approvals))
        yield f"{counted(len(approvals), 'purge')}, {size}, {verb} for approval"


def _deferred(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Formats `3 chunks wait: 2 BEHIND, 1 HELD`; omits chunks that only wait for their age."""
    lines = [line for line in lines if line["reason"] not in _ITS_DAY]
    if lines:
        reasons = Counter(line["reason"] for line in lines)
        told = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        verb = "waits" if len(lines) == 1 else "wait"
        yield f"{counted(len(lines), 'chunk')} {verb}: {told}"


def _problems(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Formats the problems, such as `3 tables skipped`."""
    for problem in _PROBLEMS:
        if number := sum(1 for line in tables if line.get(problem)):
            yield f"{counted(number, 'table')} {problem}"


def _details(tables: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Formats a sentence for each changed table; none if the first sentence covers the only one."""
    changed = [line for line in tables if any(line.get(deed.count) for deed in _DEEDS)]
    for line in changed if len(changed) > 1 else ():
        deeds = "; ".join(deed.tell([line]) for deed in _DEEDS if line.get(deed.count))
        yield f"{quoted(line['table'])}: {deeds}"


def quoted(name: str) -> str:
    """Formats a table's name as code, unless it contains a backtick."""
    return name if "`" in name else f"`{name}`"
