"""Ways in which a backlog could hide: bytes that are not freed, chunks that never go."""

from tests.mutation.mutation import Mutation

_STATUS = "tests/unit/chunks/status"
_BYTES = "app/chunks/reading/status.py"
_REFUSALS = "app/run_history/refusals.py"
_DURABILITY = "domain/chunks/durability.py"

BACKLOGS = (
    Mutation(
        "chunks: bytes in failsafe count as freed",
        _BYTES,
        "        if departure is None or departure.state is not DepartureState.DELETED\n",
        "        if departure is None\n",
        (f"{_STATUS}/test_dropped_bytes.py",),
    ),
    Mutation(
        "chunks: bytes of a drop without files in the ledger count as freed",
        _BYTES,
        "    freed = max(0, min(size, planned) - sum(file.bytes for file, _ in undeleted))\n",
        "    freed = max(0, size - sum(file.bytes for file, _ in undeleted))\n",
        (f"{_STATUS}/test_dropped_bytes.py",),
    ),
    Mutation(
        "chunks: files that were deleted free bytes of any chunk of their plan",
        _BYTES,
        "    freed = max(0, min(size, planned) - sum(file.bytes for file, _ in undeleted))\n",
        "    freed = min(size, planned - sum(file.bytes for file, _ in undeleted))\n",
        (f"{_STATUS}/test_dropped_bytes.py",),
    ),
    Mutation(
        "chunks: what time travel reads has a date on which it is deleted",
        _BYTES,
        "    is_waiting = bool(undeleted) and len(due) == len(undeleted)\n",
        "    is_waiting = bool(due)\n",
        (f"{_STATUS}/test_dropped_bytes.py",),
    ),
    Mutation(
        "chunks: a status fails where the file ledger cannot be read",
        _BYTES,
        "    with suppress(MeltlineError):\n",
        "    with suppress(OSError):\n",
        (f"{_STATUS}/test_dropped_bytes.py",),
    ),
    Mutation(
        "chunks: a flagged chunk that is old enough to be dropped is not pending",
        _DURABILITY,
        "                    is_pending = _has_files(chunk) and chunk.name not in latest\n",
        "                    is_pending = chunk.status is ChunkStatus.ACTIVE\n",
        (f"{_STATUS}/test_backlog.py",),
    ),
    Mutation(
        "chunks: a flagged chunk is pending for ever",
        _DURABILITY,
        "                    is_pending = chunk.status is ChunkStatus.ACTIVE\n",
        "                    is_pending = True\n",
        (f"{_STATUS}/test_backlog.py",),
    ),
    Mutation(
        "chunks: the latest chunks that a policy keeps are pending",
        _DURABILITY,
        "_has_files(chunk) and chunk.name not in latest\n",
        "_has_files(chunk)\n",
        (f"{_STATUS}/test_backlog.py",),
    ),
    Mutation(
        "chunks: a chunk that is too large for its share goes in some run",
        _DURABILITY,
        "            if is_over(chunk.bytes):\n",
        "            if False:\n",
        ("tests/unit/chunks/domain/test_due_chunks.py",),
    ),
    Mutation(
        "chunks: the runs of a backlog are counted by bytes alone",
        _DURABILITY,
        "len(portions[-1]) == most or ",
        "",
        ("tests/unit/chunks/domain/test_due_chunks.py",),
    ),
    Mutation(
        "chunks: a refused drop is never over",
        "app/chunks/run.py",
        "        end_refused(control.plans, PlanKind.DROP_CHUNKS, stored, is_settled)\n",
        "",
        (f"{_STATUS}/test_refused_drops.py",),
    ),
    Mutation(
        "chunks: a dry run ends what a gate refused",
        "app/chunks/run.py",
        "        if self.request.dry_run or self.force is not None:\n",
        "        if self.force is not None:\n",
        (f"{_STATUS}/test_refused_drops.py",),
    ),
    Mutation(
        "doctor: nights are counted only while their plan is the same",
        _REFUSALS,
        "        if stuck & refused:\n",
        "        if stuck & refused and not row:\n",
        (f"{_STATUS}/test_refused_drops.py",),
    ),
    Mutation(
        "doctor: a drop that was made since goes on being refused",
        _REFUSALS,
        "        allowed |= _subjects(of_run, verdicts, passed=True)\n",
        "",
        (f"{_STATUS}/test_refused_drops.py",),
    ),
    Mutation(
        "doctor: a refused plan begins with its last repeat",
        _REFUSALS,
        "    if not plan.repeats:\n        return plan.created_at\n",
        "    if plan:\n        return plan.created_at\n",
        (f"{_STATUS}/test_refused_drops.py",),
    ),
    Mutation(
        "doctor: what gates refuse every night is for information",
        "app/doctor/plan_findings.py",
        '        "warning" if runs > 1 else "info",\n',
        '        "info",\n',
        (f"{_STATUS}/test_refused_drops.py",),
    ),
    Mutation(
        "doctor: a chunk that a gate holds back while others go is not told",
        "app/doctor/plan_findings.py",
        "    dropping = [(uuid, PlanKind.DROP_CHUNKS) for uuid in policies]\n",
        "    dropping = [(uuid, PlanKind.DROP_CHUNKS) for uuid in ()]\n",
        (f"{_STATUS}/test_refused_drops.py",),
    ),
)
