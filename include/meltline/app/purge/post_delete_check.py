"""Post-delete check: finds commits that reference a file deleted meanwhile.

Seconds, at most minutes, lie between the last proof of a file and its delete. No catalog and no
store can block commits for that long. So the catalogs are read once more after the deletes; the
proof of the next files is such a read as well. A hit is an incident, because it cannot be undone
here. `purge_batches.py`, `purge.py` and `plan_purge.py` call it. It is apart from `recheck.py`,
which proves files before their delete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from meltline.app.observe.observe import Observation
from meltline.app.observe.recording import side_files_of
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.purge.recheck import PurgeRecheck
from meltline.app.safety.audit import AuditTrail
from meltline.app.safety.incidents import standing_incidents
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import DeletedWhileNamed, MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.ports import (
    FileReferences,
    Incident,
    IncidentLedger,
    ObjectReader,
    PlanItems,
    PlanLedger,
)

KIND = DeletedWhileNamed.__name__
_SHOWN = 3
_NEXT = (
    "put each file back under its path, from a backup or a copy, or take away what names it; "
    "`meltline doctor` lists the files until then"
)


@dataclass(frozen=True)
class PurgeIncidents:
    """Incidents of files that were deleted while a commit began to reference them."""

    ledger: IncidentLedger
    trail: AuditTrail
    store: ObjectReader

    @classmethod
    def of(cls, context: ReadContext) -> "PurgeIncidents":
        """Builds it for a step that finds and ends such incidents."""
        return cls(context.control.incidents, AuditTrail.of(context), context.store)

    def lost(self, uses: Mapping[str, str]) -> dict[str, str]:
        """Returns the referenced files that are missing; an unreadable object counts as lost."""
        stats = self.store.stats(sorted(uses))
        return {stat.path: uses[stat.path] for stat in stats if stat.file is None}

    def add(self, plan: Plan, uses: Mapping[str, str]) -> DeletedWhileNamed:
        """Records that deleted files of a plan are referenced, each with what references it.

        Returns:
            The error that ends the plan.
        """
        now = self.trail.clock.now()
        lines = [f"{path}: {by}" for path, by in sorted(uses.items())]
        self.ledger.add(
            [
                Incident(
                    id=f"{KIND} {path}",
                    kind=KIND,
                    object=path,
                    table=str(plan.table),
                    table_uuid=plan.table_uuid,
                    at=now,
                    message=f"plan {plan.id} of {plan.table} deleted it, and it is named by {by}",
                    next=_NEXT,
                )
                for path, by in sorted(uses.items())
            ]
        )
        reason = "named again between the last proof and the delete"
        self.trail.add("incident", plan.id, reason, "\n".join(lines))
        return DeletedWhileNamed(
            f"{len(uses)} files of {plan.table} were deleted while something came to name them",
            object=plan.id,
            expected="nothing that names a file from its last proof on",
            found="; ".join(lines[:_SHOWN]) + (" and more" if len(lines) > _SHOWN else ""),
            next=_NEXT,
        )

    def end(self, observed: "ObservedReferences") -> None:
        """Ends incidents whose file exists again, or is no longer referenced."""
        standing = standing_incidents(self.ledger, KIND)
        paths = {incident.object: incident.id for incident in standing}
        if not paths:
            return
        over = {s.path: "it is there again" for s in self.store.stats(sorted(paths)) if s.file}
        if not observed.observation.skipped:
            free = paths.keys() - over.keys() - observed.among(sorted(paths))
            over |= dict.fromkeys(free, "nothing names it any more")
        self.ledger.end([paths[path] for path in over])
        for path, why in sorted(over.items()):
            self.trail.add("end incident", path, why)


@dataclass(frozen=True)
class ObservedReferences:
    """References of all tables at their last observation."""

    observation: Observation
    index: FileReferences

    def among(self, paths: Sequence[str]) -> set[str]:
        """Selects paths that a table references."""
        needed = self.index.among(paths, self.observation.dead)
        tables = self.observation.tables
        keys = {location_key(file.path) for table in tables for file in side_files_of(table.state)}
        return needed | {path for path in paths if location_key(path) in keys}


def tend_incidents(
    incidents: PurgeIncidents, plans: PlanLedger, items: PlanItems, observed: ObservedReferences
) -> None:
    """Finds the losses of interrupted purges, and ends incidents that are over."""
    applying = [p for p in plans.find(states=[PlanState.APPLYING]) if p.kind is PlanKind.PURGE]
    files = items.of([plan.id for plan in applying]) if applying else {}
    for plan in applying:
        named_paths = observed.among([file.path for file in files[plan.id]])
        if lost := incidents.lost(dict.fromkeys(named_paths, "what was observed since")):
            incidents.add(plan, lost)
    incidents.end(observed)


@dataclass
class LookBack:
    """Keeps deleted files until a check has covered them.

    Attributes:
        stopped: Groups in which a deleted file was referenced, with the error; nothing more of them
            is purged in this run.
    """

    recheck: PurgeRecheck
    incidents: PurgeIncidents
    stopped: dict[str, MeltlineError] = field(default_factory=dict)
    _deleted: dict[str, list[PlanInHand]] = field(default_factory=dict)

    def add(self, path: str, of: PlanInHand) -> None:
        """Notes a deleted file."""
        self._deleted.setdefault(path, []).append(of)

    def still_needed(self, paths: Sequence[str]) -> set[str]:
        """Selects files that are needed now. The same read checks the deletes before it."""
        try:
            needed = self.recheck.still_needed(paths)
        except MeltlineError as blind:
            self.judge(blind)
            raise
        self.judge()
        return needed

    def look(self) -> None:
        """Checks the last deletes; an error that prevents the check becomes their plans' error."""
        if not self._deleted:
            return
        try:
            self.recheck.look()
        except MeltlineError as blind:
            self.judge(blind)
        else:
            self.judge()

    def judge(self, blind: MeltlineError | None = None) -> None:
        """Evaluates the deleted files by the most recent read of the catalogs.

        Args:
            blind: Why that read is incomplete. The plans whose files it had to cover are not
                finished then, and the next run checks them.
        """
        deleted, self._deleted = self._deleted, {}
        hit: dict[str, str] = {}
        try:
            hit = self.incidents.lost(self.recheck.references_to(list(deleted)))
        except MeltlineError as stop:
            blind = blind or stop
        for job in dict.fromkeys(chain.from_iterable(deleted.values())):
            uses = {path: by for path, by in hit.items() if job in deleted[path]}
            if uses:
                job.error = self.stopped[job.group] = self.incidents.add(job.plan, uses)
            else:
                job.stop(blind)
