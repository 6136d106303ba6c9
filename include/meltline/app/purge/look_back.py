"""The look after the deletes: has something come to name what was deleted?

Between the last proof of a file and its delete lie seconds, at most minutes. No catalog and no
store can be asked to hold still meanwhile. So the catalogs are looked at once more afterwards; the
proof of the next files is such a look, too. What is found is an incident: it cannot be undone here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meltline.app.ground.audit_log import audit
from meltline.app.observe.observe import Observation, side_files_of
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.purge.recheck import Reproof
from meltline.app.services import ReadContext, RunContext
from meltline.domain.deletion.plan import Plan, PlanKind, PlanState
from meltline.domain.errors import DeletedWhileNamed, MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.ports import Incident

KIND = DeletedWhileNamed.__name__
_SHOWN = 3
_NEXT = (
    "put each file back under its path, from a backup or a copy, or take away what names it; "
    "`meltline doctor` lists the files until then"
)


@dataclass
class LookBack:
    """Keeps what was deleted until it was looked at.

    Attributes:
        stopped: Groups of which a deleted file was named, with the error; nothing more of them
            is purged in this run.
    """

    services: RunContext
    reproof: Reproof
    stopped: dict[str, MeltlineError] = field(default_factory=dict)
    _deleted: dict[str, list[PlanInHand]] = field(default_factory=dict)

    def add(self, path: str, of: PlanInHand) -> None:
        """Notes a file that was deleted."""
        self._deleted.setdefault(path, []).append(of)

    def look(self) -> None:
        """Looks after the last deletes; what stands in the way is their plans' error."""
        if not self._deleted:
            return
        try:
            self.reproof.look()
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
            hit = lost_of(self.services, self.reproof.references_to(list(deleted)))
        except MeltlineError as stop:
            blind = blind or stop
        for job in {id(job): job for jobs in deleted.values() for job in jobs}.values():
            uses = {path: by for path, by in hit.items() if any(job is o for o in deleted[path])}
            if uses:
                job.error = self.stopped[job.group] = raise_incident(self.services, job.plan, uses)
            elif blind is not None:
                job.error = job.error or blind


def lost_of(services: RunContext, uses: Mapping[str, str]) -> dict[str, str]:
    """Those of some named files that are not there; what nobody can look at counts as lost."""
    stats = services.store.stats(sorted(uses))
    return {stat.path: uses[stat.path] for stat in stats if stat.file is None}


def raise_incident(services: RunContext, plan: Plan, uses: Mapping[str, str]) -> DeletedWhileNamed:
    """Records that deleted files of a plan are named, each with what names it.

    Returns:
        The error that ends the plan.
    """
    now = services.clock.now()
    lines = [f"{path}: {by}" for path, by in sorted(uses.items())]
    services.control.incidents.add(
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
    audit(services, "incident", plan.id, reason, "\n".join(lines))
    return DeletedWhileNamed(
        f"{len(uses)} files of {plan.table} were deleted while something came to name them",
        object=plan.id,
        expected="nothing that names a file from its last proof on",
        found="; ".join(lines[:_SHOWN]) + (" and more" if len(lines) > _SHOWN else ""),
        next=_NEXT,
    )


def standing_incidents(services: ReadContext) -> list[Incident]:
    """Those that are not over."""
    return [incident for incident in services.control.incidents.all() if incident.kind == KIND]


def tend_incidents(services: RunContext, observation: Observation) -> None:
    """Finds what purges that were cut short have hit, and ends the incidents that are over."""
    applying = [
        p
        for p in services.control.plans.find(states=[PlanState.APPLYING])
        if p.kind is PlanKind.PURGE
    ]
    items = services.files.items.of([plan.id for plan in applying]) if applying else {}
    for plan in applying:
        named_paths = _referenced(services, observation, [file.path for file in items[plan.id]])
        if lost := lost_of(services, dict.fromkeys(named_paths, "what was observed since")):
            raise_incident(services, plan, lost)
    _end(services, observation)


def _referenced(services: RunContext, observation: Observation, paths: Sequence[str]) -> set[str]:
    """Those of some paths that a table refers to, as last observed."""
    needed = services.files.references.among(paths, observation.dead)
    files = (file for table in observation.tables for file in side_files_of(table.state))
    keys = {location_key(file.path) for file in files}
    return needed | {path for path in paths if location_key(path) in keys}


def _end(services: RunContext, observation: Observation) -> None:
    """Ends those whose file is there again, or is named by nothing any more."""
    paths = {incident.object: incident.id for incident in standing_incidents(services)}
    if not paths:
        return
    over = {s.path: "it is there again" for s in services.store.stats(sorted(paths)) if s.file}
    if not observation.skipped:
        free = paths.keys() - over.keys() - _referenced(services, observation, sorted(paths))
        over |= dict.fromkeys(free, "nothing names it any more")
    services.control.incidents.end([paths[path] for path in over])
    for path, why in sorted(over.items()):
        audit(services, "end incident", path, why)
