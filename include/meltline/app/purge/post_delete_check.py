"""The look after the deletes: has something come to name what was deleted?

Between the last proof of a file and its delete lie seconds, at most minutes. No catalog and no
store can be asked to hold still meanwhile. So the catalogs are looked at once more afterwards; the
proof of the next files is such a look, too. What is found is an incident: it cannot be undone here.
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
    """The incidents that are files which were deleted while something came to name them."""

    ledger: IncidentLedger
    trail: AuditTrail
    store: ObjectReader

    @classmethod
    def of(cls, context: ReadContext) -> "PurgeIncidents":
        """Those that a step finds and ends."""
        return cls(context.control.incidents, AuditTrail.of(context), context.store)

    def lost(self, uses: Mapping[str, str]) -> dict[str, str]:
        """Those of some named files that are not there; what nobody can look at counts as lost."""
        stats = self.store.stats(sorted(uses))
        return {stat.path: uses[stat.path] for stat in stats if stat.file is None}

    def add(self, plan: Plan, uses: Mapping[str, str]) -> DeletedWhileNamed:
        """Records that deleted files of a plan are named, each with what names it.

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
        """Ends those whose file is there again, or is named by nothing any more."""
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
    """What tables referred to when they were last observed."""

    observation: Observation
    index: FileReferences

    def among(self, paths: Sequence[str]) -> set[str]:
        """Those of some paths that a table refers to."""
        needed = self.index.among(paths, self.observation.dead)
        tables = self.observation.tables
        keys = {location_key(file.path) for table in tables for file in side_files_of(table.state)}
        return needed | {path for path in paths if location_key(path) in keys}


def tend_incidents(
    incidents: PurgeIncidents, plans: PlanLedger, items: PlanItems, observed: ObservedReferences
) -> None:
    """Finds what purges that were cut short have hit, and ends the incidents that are over."""
    applying = [p for p in plans.find(states=[PlanState.APPLYING]) if p.kind is PlanKind.PURGE]
    files = items.of([plan.id for plan in applying]) if applying else {}
    for plan in applying:
        named_paths = observed.among([file.path for file in files[plan.id]])
        if lost := incidents.lost(dict.fromkeys(named_paths, "what was observed since")):
            incidents.add(plan, lost)
    incidents.end(observed)


@dataclass
class LookBack:
    """Keeps what was deleted until it was looked at.

    Attributes:
        stopped: Groups of which a deleted file was named, with the error; nothing more of them
            is purged in this run.
    """

    recheck: PurgeRecheck
    incidents: PurgeIncidents
    stopped: dict[str, MeltlineError] = field(default_factory=dict)
    _deleted: dict[str, list[PlanInHand]] = field(default_factory=dict)

    def add(self, path: str, of: PlanInHand) -> None:
        """Notes a file that was deleted."""
        self._deleted.setdefault(path, []).append(of)

    def still_needed(self, paths: Sequence[str]) -> set[str]:
        """What is needed of some files now. The same look is the one after the deletes before."""
        try:
            needed = self.recheck.still_needed(paths)
        except MeltlineError as blind:
            self.judge(blind)
            raise
        self.judge()
        return needed

    def look(self) -> None:
        """Looks after the last deletes; what stands in the way is their plans' error."""
        if not self._deleted:
            return
        try:
            self.recheck.look()
        except MeltlineError as blind:
            self.judge(blind)
        else:
            self.judge()

    def judge(self, blind: MeltlineError | None = None) -> None:
        """Judges what was deleted by the look that was just taken.

        Args:
            blind: Why that look could not be taken to its end: the plans whose files it was for
                are not done then, and the next run looks.
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
