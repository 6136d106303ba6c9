"""Summary of a run: collects the results of its steps, and formats them for `run --json`.

Each step of `Run` adds to it; XCom and the DAG's verdict have the same document. The keys of single
lines are in `run/run_document.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from meltline.app.archive.archive_snapshots import PendingHandoff, TableHandoff
from meltline.app.expire.expire import ExpireResult
from meltline.app.observe.losses.torn_heads import KIND as TORN
from meltline.app.observe.losses.vanished_commits import KIND as VANISHED
from meltline.app.observe.observe import Observation
from meltline.app.orphans.sweep import Swept
from meltline.app.purge.purge import PurgeResult
from meltline.app.retention.consumer_findings import ending_consumers
from meltline.app.retention.holds import ending_soon
from meltline.app.run.not_armed import NotArmedCounts
from meltline.app.run.run_document import (
    TableResult,
    approval_line,
    plan_line,
    table_line,
    with_recap,
)
from meltline.app.status.recorded import PURGING, as_document
from meltline.domain.deletion.batches import Batch
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import (
    ApprovalMissing,
    ApprovalRejected,
    DeletedWhileNamed,
    GateNotPassed,
    HeadChanged,
    HoldInForce,
    LedgerOutOfStep,
    MeltlineError,
    NotArmed,
    PlanAltered,
    Stopped,
    SyncRefused,
)
from meltline.domain.iceberg.names import TableName, selected, unmatched
from meltline.domain.iceberg.similar_names import similar
from meltline.domain.purging.purge_status import PurgeStatus
from meltline.domain.units import format_instant
from meltline.ports import Incident


def _maybe_managed(observation: Observation) -> dict[TableName, bool]:
    """Whether each table is managed; guarded and unread tables count, as they may be."""
    managed = {t.state.name: t.managed or bool(t.owner_guard) for t in observation.tables}
    return {**managed, **dict.fromkeys(observation.skipped, True)}


def selection_notes(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """Globs that match no table, or no managed table."""
    names = _maybe_managed(observation)
    for glob in unmatched(globs, names):
        yield f"no table matches {glob}{_meant(glob, names)}"
    matching = [name for name in names if selected(name, globs)]
    if any(names[name] for name in matching):
        return
    if matching:
        yield (
            f"none of the {len(matching)} tables that the run is asked for is managed "
            f"({matching[0]} for one): nothing of them is touched"
        )
    elif not globs and not observation.names:  # and the catalogs never had one
        yield "the catalogs have no table at all: there is nothing to do"


def _notices(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """Notices about holds and consumers that end soon, and tables from which nothing is deleted."""
    yield from (hold.notice for hold in ending_soon(observation.tables, observation.at))
    yield from (c.sentence for c in ending_consumers(observation.tables, observation.at))
    yield from guard_notices(observation, globs)
    yield from detached_notices(observation, globs)


def guard_notices(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """A notice that owners of some tables forbid deletions: a setting, not a failure."""
    tables = [t for t in observation.tables if t.owner_guard and selected(t.state.name, globs)]
    if tables:
        first = f"{tables[0].state.name} by {tables[0].owner_guard}=false for one"
        yield (
            f"{len(tables)} tables are only observed, as their owners forbid deletions "
            f"({first}): `meltline doctor` names them"
        )


def detached_notices(observation: Observation, globs: tuple[str, ...]) -> Iterator[str]:
    """Notices about unreadable tables that an operator has detached: information, not a failure."""
    for name, reason in sorted(observation.detached.items()):
        if selected(name, globs):
            error = observation.skipped[name]
            yield f"{name} is detached ({reason}): {error.message} ({error.found})"


def _meant(glob: str, names: Iterable[TableName]) -> str:
    alike = similar(glob.replace("*", ""), names)
    return f"; did you mean {' or '.join(map(str, alike))}?" if alike else ""


_NOTED = (DeletedWhileNamed.__name__, VANISHED, TORN)
_SHOWN = 3
_REFUSALS = (GateNotPassed, HoldInForce, PlanAltered, Stopped, LedgerOutOfStep)


@dataclass
class Summary:
    """Collects the results of the steps of a run.

    Attributes:
        dry_run: Whether nothing is done; plans then show what would be.
        batch: The batch of plans that one step worked on; 0 is all of them.
        batches: The work that a planning step leaves, by batch.
        not_armed: Counts of omitted work if the catalog is not armed; None if it is.
        sandbox: Whether the catalog is armed by the mark of a sandbox.
        approvals: A line for each plan that waits for approval, by its id.
        deferred: A line for each deferred chunk, with the reason.
        purge_blocked: Why no file may be deleted anywhere, as the run observed it.
        purging: Whether purging works in the whole lake, from the report step.
    """

    run_id: str
    as_of: datetime
    plans: dict[str, Plan] = field(default_factory=dict)
    tables: dict[str, TableResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    dry_run: bool = False
    batch: int = 0
    batches: Sequence[Batch] = ()
    sweep: Mapping[str, Any] = field(default_factory=dict)
    not_armed: NotArmedCounts | None = None
    sandbox: bool = False
    approvals: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    deferred: list[Mapping[str, Any]] = field(default_factory=list)
    purge_blocked: str = ""
    purging: PurgeStatus | None = None

    def _change(self, table: TableName, **changes: Any) -> None:
        name = str(table)
        self.tables[name] = replace(self.tables.get(name, TableResult(name)), **changes)

    def _note_error(self, table: TableName, error: MeltlineError) -> None:
        why = f"{error.message} ({error.found})" if error.found else error.message
        if isinstance(error, NotArmed):
            self.not_armed = self.not_armed or NotArmedCounts(error.object)
        elif isinstance(error, (DeletedWhileNamed, HeadChanged)):
            self._change(table, failed=why, next=error.next)
        elif isinstance(error, _REFUSALS) or _waits_for_a_person(error):
            self._change(table, refused=why, next=error.next)
        else:
            self._change(table, skipped=why, next=error.next)

    def observed(self, observation: Observation, globs: tuple[str, ...]) -> None:
        """Notes every selected table, and the reason if one is omitted."""
        for table in observation.tables:
            name = table.state.name
            if table.managed and selected(name, globs):
                uuid = table.state.uuid
                reason = observation.blocked.get(uuid) or str(observation.obstacles.get(uuid, ""))
                self._change(name, skipped=reason)
        for name, error in observation.skipped.items():
            if selected(name, globs) and name not in observation.detached:
                self._change(name, skipped=f"{error.message} ({error.found})", next=error.next)
        self.notices += _notices(observation, globs)
        self.notes += selection_notes(observation, globs)
        self.purge_blocked = observation.purge_blocked
        if observation.purge_blocked:
            self.notes.append(f"nothing is purged anywhere: {observation.purge_blocked}")

    def would_hand_off(self, waiting: Sequence[PendingHandoff]) -> None:
        """Notes what a dry run would copy to cold."""
        for pending in waiting:
            if pending.waiting:
                line = f"{pending.table.state.name}: {pending.waiting} snapshots would go to cold"
                self.notices.append(line)

    def handed_off(self, results: Sequence[TableHandoff]) -> None:
        """Adds the results of handoffs; a table counts as skipped if a copy failed.

        Copies that the quiet window postpones are not a failure.
        """
        for handoff in results:
            failed = "; ".join(handoff.errors[:_SHOWN])
            self._change(
                handoff.table,
                snapshots_archived=handoff.archived,
                files_copied=handoff.files_copied,
                bytes_copied=handoff.bytes_copied,
                **({"skipped": f"history stays hot, cold has it not: {failed}"} if failed else {}),
            )
            if handoff.waiting and not failed:
                waiting = f"{handoff.waiting} snapshots wait for the next night to go to cold"
                self.notices.append(f"{handoff.table}: {waiting}")

    def with_plans(self, plans: Sequence[Plan]) -> "Summary":
        """Adds plans without a verdict."""
        self.plans.update({plan.id: plan for plan in plans})
        return self

    def catch_up(self, plans: Sequence[Plan]) -> None:
        """Notes tables whose oldest snapshots alone expire tonight; that is not a failure."""
        for plan in plans:
            if plan.kind is PlanKind.EXPIRE and plan.note and plan.state is PlanState.PLANNED:
                self._change(plan.table, catching_up=plan.note)
                self.notices.append(f"{plan.table}: {plan.note}")

    def gated(self, plans: Sequence[Plan]) -> None:
        """Adds plans with a verdict; those that did not pass are refused."""
        self.with_plans(plans)
        self._refused([plan for plan in plans if plan.state is PlanState.REFUSED])

    def expired(self, results: Sequence[ExpireResult], refused: Sequence[Plan] = ()) -> None:
        """Adds the results of expiration plans."""
        self._refused(refused)
        for expiration in results:
            self.plans[expiration.plan.id] = expiration.plan
            before = self.tables.get(str(expiration.plan.table), TableResult(""))
            self._change(
                expiration.plan.table,
                snapshots_expired=before.snapshots_expired + expiration.snapshots_expired,
                files_departed=before.files_departed + expiration.files_departed,
                bytes_departed=before.bytes_departed + expiration.bytes_departed,
                snapshots_gone=before.snapshots_gone + expiration.snapshots_gone,
            )
            if expiration.error is not None:
                self._note_error(expiration.plan.table, expiration.error)

    def purged(self, results: Sequence[PurgeResult]) -> None:
        """Adds the results of purge plans."""
        for purge in results:
            self.plans[purge.plan.id] = purge.plan
            before = self.tables.get(str(purge.plan.table), TableResult(""))
            failed = "; ".join(f"{f.path}: {f.error}" for f in purge.failed[:3])
            self._change(
                purge.plan.table,
                files_purged=before.files_purged + purge.files_purged,
                bytes_purged=before.bytes_purged + purge.bytes_purged,
                files_gone=before.files_gone + purge.files_gone,
                **(_undeleted(len(purge.failed), failed) if failed else {}),
            )
            if purge.replaced:
                shown = "; ".join(f"{path}: {why}" for path, why in purge.replaced[:_SHOWN])
                replaced = (
                    f"{len(purge.replaced)} files are not those that departed, and stay: {shown}"
                )
                self.notices.append(
                    f"{purge.plan.table}: {replaced}; `meltline sweep` sees to them"
                )
            if isinstance(purge.error, ApprovalRejected):
                self.notices.append(_rejected(purge.plan, purge.error))
            elif isinstance(purge.error, ApprovalMissing):
                self.await_approval([purge.plan])
            elif purge.error is not None:
                self._note_error(purge.plan.table, purge.error)

    def await_approval(self, plans: Sequence[Plan], instead_of: str = "") -> None:
        """Adds plans that wait for approval; that is not a failure.

        Args:
            plans: The plans.
            instead_of: The plan that they replace, for which approval was requested before.
        """
        self.approvals |= {plan.id: approval_line(plan, instead_of) for plan in plans}

    def stand(self, incidents: Sequence[Incident]) -> None:
        """Notes open incidents; other kinds appear as notes on the tables that they keep."""
        lines = [
            f"{incident.object}: {incident.message}; {incident.next}"
            for incident in incidents
            if incident.kind in _NOTED
        ]
        self.notes += lines[:_SHOWN]
        if len(lines) > _SHOWN:
            self.notes.append(f"{len(lines) - _SHOWN} more incidents: `meltline doctor` lists them")

    def swept(self, swept: Swept, globs: tuple[str, ...]) -> None:
        """Adds the result of a sweep: files per table, omitted tables, and notes."""
        self.observed(swept.observation, globs)
        orphans = [table for table in swept.tables if table.departed]
        if swept.not_armed is None:
            for table in orphans:
                self._change(
                    table.table,
                    files_departed=table.departed,
                    bytes_departed=table.departed_bytes,
                )
        else:
            self.not_armed = NotArmedCounts(
                swept.not_armed.object,
                orphans=sum(table.departed for table in orphans),
                orphan_bytes=sum(table.departed_bytes for table in orphans),
            )
        for name, why in swept.refused.items():
            self._change(name, skipped=why)
        self.notes += swept.notes
        self.sweep = swept.as_json()

    def note_error(self, table: TableName, error: MeltlineError) -> None:
        """Notes the error that ended a table's part of the run."""
        self._note_error(table, error)

    def add(self, table: TableName, **counts: int) -> None:
        """Adds counts to the result of a table."""
        before = self.tables.get(str(table), TableResult(str(table)))
        self._change(table, **{key: getattr(before, key) + n for key, n in counts.items()})

    def _refused(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            self.plans[plan.id] = plan
            self._change(
                plan.table,
                refused=plan.note or f"plan {plan.id} is {plan.state}",
                next=f"`meltline show plan {plan.id} --items`; the next run plans anew",
            )

    @property
    def exit_code(self) -> int:
        """Returns 0 done, 1 failed, 3 refused or waiting, 4 tables skipped or purging stopped.

        The first of 1, 3, 4 that applies.
        """
        tables = self.tables.values()
        if any(table.failed for table in tables):
            return 1
        if self.approvals or any(table.refused for table in tables):
            return 3
        is_partial = self.notes or (self.purging and self.purging.defects)
        return 4 if is_partial or any(table.skipped for table in tables) else 0

    def as_json(self) -> dict[str, Any]:
        """The document of `run --json`."""
        return with_recap(
            {
                "run_id": self.run_id,
                "as_of": format_instant(self.as_of),
                "dry_run": self.dry_run,
                "plans": [self._line(plan) for plan in self.plans.values()],
                "tables": [table_line(table) for _, table in sorted(self.tables.items())],
                "notes": self.notes,
                "notices": self.notices,
                **({"not_armed": asdict(self.not_armed)} if self.not_armed else {}),
                **({"armed": "sandbox"} if self.sandbox else {}),
                **({"approvals": list(self.approvals.values())} if self.approvals else {}),
                **({"deferred": self.deferred} if self.deferred else {}),
                **({"purge_blocked": self.purge_blocked} if self.purge_blocked else {}),
                **({PURGING: as_document(self.purging)} if self.purging else {}),
                **({"batches": [asdict(batch) for batch in self.batches]} if self.batches else {}),
                **({"sweep": self.sweep} if self.sweep else {}),
            }
        )

    def _line(self, plan: Plan) -> dict[str, Any]:
        """Formats a plan, with its batch if the run is split into batches."""
        number = self.batch or (plan.batch if self.batches else 0)
        return {**plan_line(plan), **({"batch": number} if number else {})}


def _waits_for_a_person(error: MeltlineError) -> bool:
    """Whether replication needs an operator's decision to continue."""
    return isinstance(error, SyncRefused) and bool(error.reason)


def _rejected(plan: Plan, error: ApprovalRejected) -> str:
    """Formats a notice about a rejected approval; the files stay in failsafe."""
    return f"{plan.table}: {error.message} ({error.found}): {error.next}"


def _undeleted(files: int, shown: str) -> dict[str, str]:
    """Formats the failure of files that the store did not delete."""
    return {
        "failed": f"{files} files could not be deleted: {shown}",
        "next": "the next run tries them again; see that the store lets Meltline delete there",
    }
