"""Files of a plan for display: with their snapshots, departure, due time and cause.

`meltline show plan` and the pages call it. The plan itself does not store these facts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.run_history.file_origins import FileOrigin, origins, snapshots_of
from meltline.app.run_history.plan_log import JudgedPlan
from meltline.domain.deletion.plan import Plan, PlanKind
from meltline.domain.grouping import grouped
from meltline.domain.iceberg.files import FileKind, PlannedFile
from meltline.domain.iceberg.locations import location_key
from meltline.ports import ControlLedger, LedgerReader


@dataclass(frozen=True)
class PlanItem:
    """A file of a plan.

    Attributes:
        owner: UUID of the table whose prefix contains it.
        snapshots: The expired snapshots that it belonged to, as `table@id`; empty if no snapshot of
            the plan had it, or the ledger has forgotten them.
        since: When it departed; None if it has not yet.
        due_at: The time from which it may be purged; None if it has not departed yet.
        why: The cause.
    """

    path: str
    kind: FileKind
    bytes: int
    owner: str
    snapshots: tuple[str, ...]
    since: datetime | None
    due_at: datetime | None
    why: str


def plan_items(reader: LedgerReader, control: ControlLedger, judged: JudgedPlan) -> list[PlanItem]:
    """Lists the files of a plan, by path."""
    files = reader.items(judged.plan.id)[judged.plan.id]
    if not files:
        return []
    departures = reader.departures((), *(file.path for file in files))
    if judged.plan.kind is PlanKind.EXPIRE:
        departures = [d for d in departures if d.plan_id == judged.plan.id]
    departed = origins(control, departures)
    snapshots = _snapshots(reader, judged.plan, files, departed)
    return [_item(file, judged, departed.get(location_key(file.path)), snapshots) for file in files]


def _item(
    file: PlannedFile,
    judged: JudgedPlan,
    origin: FileOrigin | None,
    snapshots: Mapping[str, Sequence[str]],
) -> PlanItem:
    why = origin.why if origin else f"{judged.plan.kind} planned: {judged.policy}"
    departure = origin.departure if origin else None
    return PlanItem(
        path=file.path,
        kind=file.kind,
        bytes=file.bytes,
        owner=file.owner,
        snapshots=tuple(snapshots.get(location_key(file.path), ())),
        since=departure.departed_at if departure else None,
        due_at=departure.due_at if departure else file.due_at,
        why=why,
    )


def _snapshots(
    reader: LedgerReader,
    plan: Plan,
    files: Sequence[PlannedFile],
    departed: Mapping[str, FileOrigin],
) -> dict[str, list[str]]:
    """Snapshots of each file, by the plan that removed them: this one, or an earlier one."""
    earlier = [origin.judged.plan for origin in departed.values() if origin.judged]
    plans = {p.id: p for p in (plan, *earlier)}

    def let_go_by(file: PlannedFile) -> str:
        origin = departed.get(location_key(file.path))
        return origin.departure.plan_id if origin else plan.id

    named: dict[str, list[str]] = {}
    for id, of_plan in grouped(files, let_go_by).items():
        if let_go := plans.get(id):
            ids = (*let_go.snapshots, *let_go.gone_snapshots)
            paths = [file.path for file in of_plan]
            for at, held in snapshots_of(reader, let_go.table_uuid, ids, paths).items():
                named[at] = [f"{let_go.table}@{snapshot_id}" for snapshot_id in held]
    return named
