"""Plans: an immutable list of exactly what a step will do to one table, with a digest.

A planning step makes them, a gate approves their digest, and a destructive step carries them out.
The control ledger stores their headers.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from meltline.domain.grouping import grouped
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.iceberg.names import TableName

FIRST_BATCH = 1
NOTHING_LEFT = "a later run found nothing of it left to do"
"""The note of a refused plan that is closed."""


class PlanKind(StrEnum):
    """The operation of a plan."""

    EXPIRE = "expire"
    PURGE = "purge"
    PRUNE = "prune"
    """Removes snapshots from cold at an operator's request (`domain.archive.pruning`)."""
    DROP_CHUNKS = "drop_chunks"
    """Removes chunks from hot; their files become historical (`domain.chunks`)."""


class PlanState(StrEnum):
    """The state of a plan. Only the transitions in `TRANSITIONS` exist."""

    PLANNED = "planned"
    PASSED = "passed"
    REFUSED = "refused"
    STALE = "stale"
    APPLYING = "applying"
    APPLIED = "applied"
    FAILED = "failed"


TRANSITIONS: Mapping[PlanState, frozenset[PlanState]] = {
    PlanState.PLANNED: frozenset({PlanState.PASSED, PlanState.REFUSED, PlanState.STALE}),
    # A gate may run again while nothing has been done: its newest result counts.
    PlanState.PASSED: frozenset(
        {PlanState.PASSED, PlanState.REFUSED, PlanState.STALE, PlanState.APPLYING}
    ),
    PlanState.REFUSED: frozenset({PlanState.PASSED, PlanState.REFUSED, PlanState.STALE}),
    PlanState.APPLYING: frozenset({PlanState.APPLIED, PlanState.STALE, PlanState.FAILED}),
    PlanState.FAILED: frozenset({PlanState.APPLYING, PlanState.STALE, PlanState.PASSED}),
    PlanState.STALE: frozenset(),
    PlanState.APPLIED: frozenset(),
}


@dataclass(frozen=True)
class Plan:
    """A plan's header. Its items are stored separately, under the same id.

    Attributes:
        id: The plan's id, derived from run and digest, so that a retry finds its own plan.
        run_id: The run that planned it.
        kind: The operation.
        table: The table's name when it was planned.
        table_uuid: The table.
        digest: `sha256:` over every snapshot, ref and file of the plan.
        as_of: The logical date that decided it.
        created_at: Wall clock.
        base_location: The metadata file that it was planned on.
        snapshots: Ids to expire, sorted.
        refs: Refs past their age, sorted.
        gone_snapshots: Snapshots that another tool has expired; their files become unreferenced
            now.
        heads: Each branch's head when it was planned.
        window_start: Snapshots superseded before it may expire; None if none may.
        files: How many files become unreferenced or are purged; `bytes` is their size.
        state: Its state.
        committed_base: The metadata file that the expiration commit replaced, once applied.
        note: Why it is stale, refused or already done.
        batch: Which of the run's batches it belongs to, from 1 on (`domain.deletion.batches`).
        repeats: How many later runs have planned the very same, after it was refused. The header is
            the last one's.
        chunks: Names of the chunks to drop from hot, sorted; their files leave the head of main.
    """

    id: str
    run_id: str
    kind: PlanKind
    table: TableName
    table_uuid: str
    digest: str
    as_of: datetime
    created_at: datetime
    base_location: str
    snapshots: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    gone_snapshots: tuple[int, ...] = ()
    heads: Mapping[str, int] = field(default_factory=dict)
    window_start: datetime | None = None
    files: int = 0
    bytes: int = 0
    state: PlanState = PlanState.PLANNED
    committed_base: str = ""
    note: str = ""
    batch: int = FIRST_BATCH
    repeats: int = 0
    chunks: tuple[str, ...] = ()

    def digest_of(self, files: Iterable[PlannedFile]) -> str:
        """Returns the digest of this plan, if these were its items."""
        return plan_digest(
            self.table_uuid, self.snapshots, self.refs, files, self.chunks, self.base_head
        )

    @property
    def base_head(self) -> int | None:
        """Main's head that chunks were planned on; None for a plan without chunks."""
        return self.heads.get("main") if self.chunks else None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do (PX-5)."""
        return not (self.snapshots or self.refs or self.files)

    def is_refused_as(self, refused: "Plan") -> bool:
        """Whether it was refused with the same content that another run has planned since."""
        return self.state is PlanState.REFUSED and self.digest == refused.digest

    def again(self, later: "Plan") -> "Plan":
        """Returns this plan with the content of a later run, to be evaluated again."""
        return replace(later, id=self.id, state=PlanState.PLANNED, repeats=self.repeats + 1)


@dataclass(frozen=True)
class PlanTotals:
    """Totals of the plans with one kind and state: a run may have ten thousand plans."""

    kind: PlanKind
    state: PlanState
    plans: int
    snapshots: int
    files: int
    bytes: int

    @classmethod
    def of(cls, plans: Iterable[Plan]) -> "list[PlanTotals]":
        """Sums the plans by kind and state, sorted."""
        together = grouped(plans, lambda plan: (plan.kind, plan.state))
        return [
            cls(
                kind,
                state,
                len(alike),
                sum(len(plan.snapshots) for plan in alike),
                sum(plan.files for plan in alike),
                sum(plan.bytes for plan in alike),
            )
            for (kind, state), alike in sorted(together.items())
        ]


def plan_digest(
    table_uuid: str,
    snapshots: Iterable[int],
    refs: Iterable[str],
    files: Iterable[PlannedFile],
    chunks: Iterable[str] = (),
    base_head: int | None = None,
) -> str:
    """The digest that a gate approves and an apply must match.

    `sha256:` over the sorted UTF-8 lines `table_uuid TAB kind TAB (snapshot id | ref | path) LF`,
    where kind is `snapshot`, `ref`, or the file's kind. Chunks add lines of kind `chunk`, and one
    of kind `base` with the snapshot whose files they are: the gate is bound to it (LT-36).
    """
    lines = [f"{table_uuid}\tsnapshot\t{snapshot}\n".encode() for snapshot in snapshots]
    lines += [f"{table_uuid}\tref\t{ref}\n".encode() for ref in refs]
    lines += [f"{table_uuid}\t{file.kind}\t{file.path}\n".encode() for file in files]
    lines += [f"{table_uuid}\tchunk\t{chunk}\n".encode() for chunk in chunks]
    if base_head is not None:
        lines.append(f"{table_uuid}\tbase\t{base_head}\n".encode())
    lines.sort()
    return "sha256:" + hashlib.sha256(b"".join(lines)).hexdigest()


def plan_id(run_id: str, kind: PlanKind, table: TableName, digest: str) -> str:
    """Returns a plan's id: the same run, table and content give the same id on a retry."""
    seed = f"{run_id}\n{kind}\n{table}\n{digest}".encode()
    return f"{kind[0]}{hashlib.sha256(seed).hexdigest()[:15]}"
