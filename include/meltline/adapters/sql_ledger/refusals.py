"""Errors and checks that every control ledger shares, in SQL and in memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.sync import TableSync, TrackedTable
from meltline.domain.deletion.plan import TRANSITIONS, Plan, PlanState
from meltline.domain.errors import (
    CommitConflict,
    LockHeld,
    LockLost,
    PlanNotFound,
    PlanStale,
    RunNotFound,
    SetupMissing,
)
from meltline.ports import Lock, PlanTransition, RunRecord


def not_prepared(where: str, present: str = "no ledger") -> SetupMissing:
    """Builds the error for a ledger that is not initialized, or has another version."""
    return SetupMissing(
        f"the control ledger at {where} is not prepared",
        object=where,
        expected="the tables of this version of Meltline",
        found=present,
        next="run `meltline init`",
    )


def lock_lost(lock: Lock, holding: str) -> LockLost:
    """Builds the error for a lock that is not held any more, or not by this holder."""
    return LockLost(
        f"{lock.holder} no longer holds the lock {lock.key}",
        object=lock.key,
        expected=f"held by {lock.holder} with token {lock.token}",
        found=holding,
        next="nothing more is written under it; the next run completes what is left",
    )


def batch_not_ours(plan_id: str, number: int, lock: Lock) -> LockLost:
    """Builds the error for a batch that is not claimed under this lock."""
    return LockLost(
        f"batch {number} of plan {plan_id} is not claimed by {lock.holder}",
        object=f"{plan_id}/{number}",
        expected=f"claimed under {lock.key} with token {lock.token}",
        found="not claimed, or claimed under another lock or token",
        next="the next run claims the batch again and proves it anew",
    )


def living_claim(plan_id: str, number: int, holder: str, key: str) -> LockHeld:
    """Builds the error for a batch that is being purged under another lock."""
    return LockHeld(
        f"{holder} is purging batch {number} of plan {plan_id}",
        object=f"{plan_id}/{number}",
        expected="no claim, or one whose holder is gone",
        found=f"{holder} holds the lock {key}",
        next="wait for that run to end",
    )


def no_plan(text: str, matches: Sequence[str] = ()) -> PlanNotFound:
    """Builds the error for an id that matches no plan, or several."""
    matching = "several plans: " + ", ".join(sorted(matches)) if matches else "no such plan"
    problem = "is the start of several plans' ids" if matches else "names no plan"
    return PlanNotFound(
        f"{text!r} {problem}",
        object=text,
        expected="a plan's id, an unambiguous start of one, or `last`",
        found=matching,
        next="give more of the id; `meltline plan` and `meltline run` print ids",
    )


def only_run(text: str, runs: Sequence[RunRecord]) -> RunRecord:
    """Returns the run that an id or a prefix identifies.

    Args:
        text: An id, a prefix of one, or `last`.
        runs: Runs whose ids begin with it; the one with the exact id comes first.

    Raises:
        RunNotFound: No run matches, or several do.
    """
    if text and runs and (len(runs) == 1 or runs[0].id == text):
        return runs[0]
    problem = "is the start of several runs' ids" if runs else "names no run"
    several = "several runs: " + ", ".join(run.id for run in runs[:5])
    raise RunNotFound(
        f"{text!r} {problem}",
        object=text,
        expected="a run's id, an unambiguous start of one, or `last`",
        found=several if runs else "no such run",
        next="give more of the id: `meltline runs` lists them",
    )


def require_move(plan: Plan, to: PlanState) -> None:
    """Raises PlanStale if a plan in this state can never make that move."""
    if to in TRANSITIONS[plan.state]:
        return
    allowed = ", ".join(sorted(TRANSITIONS[plan.state])) or "nothing: this state is final"
    raise PlanStale(
        f"plan {plan.id} cannot go from {plan.state} to {to}",
        object=plan.id,
        expected=f"from {plan.state} to {allowed}",
        found=to,
        next="make a new plan",
    )


def moved_meanwhile(plan: Plan, to: PlanState, stored: PlanState) -> PlanStale:
    """Builds the error for a plan that another run moved since it was read."""
    return PlanStale(
        f"plan {plan.id} is {stored}, not {plan.state}: another run moved it",
        object=plan.id,
        expected=f"{plan.state}, to become {to}",
        found=stored,
        next="look at it with `meltline show plan`; the next run goes on from there",
    )


def plan_after(move: PlanTransition, stored: Plan | None) -> Plan:
    """Returns a plan in its new state.

    Raises:
        PlanNotFound: It was never stored.
        PlanStale: It is not in the state in which it was read.
    """
    if stored is None:
        raise no_plan(move.plan.id)
    if stored.state is not move.plan.state:
        raise moved_meanwhile(move.plan, move.to, stored.state)
    base = move.committed_base or stored.committed_base
    return replace(stored, state=move.to, note=move.note, committed_base=base)


def walked_on(after: TrackedTable) -> CommitConflict:
    """Builds the error for a table whose chunks another run has stamped since they were read."""
    return CommitConflict(
        f"another run has looked at the chunks of {after.table} meanwhile",
        object=str(after.table),
        expected="that its chunks are stamped up to where they were when this run read them",
        found="another place, or a table that is new or was forgotten",
        next="nothing was stored; run it again, it goes on from there",
    )


def require_bases(stored: Mapping[str, Chunk], chunks: Iterable[Chunk]) -> None:
    """Refuses chunks of a walk that would forget rows in cold alone: only a move may do that.

    Raises:
        CommitConflict: A chunk was dropped from hot, or returned to it, since the walk read it.
    """
    for chunk in chunks:
        before = stored.get(chunk.name, chunk)
        if before.cold_base != chunk.cold_base:
            raise CommitConflict(
                f"another run has dropped the chunk {chunk.name} meanwhile",
                object=chunk.name,
                expected=f"cold's newest sequence number at its drop to be {chunk.cold_base}",
                found=str(before.cold_base),
                next="nothing was stored; run it again, it goes on from there",
            )


def sync_moved(after: TableSync) -> CommitConflict:
    """Builds the error for a replication that another run or an operator has changed."""
    return CommitConflict(
        f"the replication of {after.table} was changed meanwhile",
        object=str(after.table),
        expected="the state that this run has read",
        found="another generation, state, position or heartbeat, or none",
        next="nothing was stored; look at it with `meltline chunks status`, and run it again",
    )


def chunk_after(before: Chunk, after: Chunk, stored: Chunk | None) -> Chunk | None:
    """Returns a stored chunk after a move; None if it was written meanwhile.

    Takes over only the fields that the move changes: a compaction may have changed the files since.
    """
    if stored is None or _written(stored) != _written(before):
        return None
    names = [field.name for field in fields(Chunk)]
    changes = {n: getattr(after, n) for n in names if getattr(after, n) != getattr(before, n)}
    return replace(stored, **changes)


def _written(chunk: Chunk) -> tuple[object, ...]:
    return (chunk.status, chunk.last_write, chunk.generation, chunk.drop_plan)
