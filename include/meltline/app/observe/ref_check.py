"""Post-expiration check: each ref still resolves to the snapshot that it had before our commit.

`expire` calls it after its commits, and observe for open incidents. The commit is a
compare-and-swap that removes what was planned, and nothing else. Whether a catalog, or a proxy
before it, has done exactly that is verified: the metadata after the commit is read, and compared
with the one before (PX-4).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from meltline.app.catalog.metadata import load_concurrently, load_state
from meltline.app.safety.audit import audit
from meltline.app.safety.incidents import end_incidents, standing_incidents
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import HeadChanged, MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import Catalog, Incident, IncidentLedger, ObjectReader

KIND = HeadChanged.__name__
_SHOWN = 3
_ROWS = "total-records"
_NEXT = (
    "nothing of its group departs or is purged until every ref has its snapshot again: have the "
    "ref stand where it stood, or register the metadata file before that commit"
)


def changed_heads(context: RunContext, plans: Sequence[Plan]) -> Mapping[str, HeadChanged]:
    """Returns an error for each plan whose commit changed what a ref resolves to, by plan id.

    Each ref is an incident until it resolves to its snapshot again. If metadata cannot be read,
    nothing is reported: the next observation reports it, and keeps the table.
    """
    changes = load_concurrently(
        lambda plan: list(_look(context.catalogs, context.store, plan)), plans
    )
    return {
        plan.id: _raise_incidents(context, plan, differences)
        for plan, differences in zip(plans, changes, strict=True)
        if differences
    }


def still_changed_heads(
    incidents: IncidentLedger, states: Sequence[TableMetadata], *, ended: Collection[str]
) -> dict[str, str]:
    """Returns why tables with changed refs are kept, by registration.

    An incident is over once the ref descends from its former snapshot, or the drop is finalized.
    """
    standing = standing_incidents(incidents, KIND)
    uuids = {incident.table_uuid for incident in standing}
    present = {at for state in states if state.uuid in uuids for at in _led_to(state)}
    return end_incidents(incidents, standing, lambda i: i.id in present or i.table_uuid in ended)


def _led_to(state: TableMetadata) -> Iterator[str]:
    """Yields the ids of incidents that the current refs of a table would end."""
    for name, ref in state.refs.items():
        for snapshot in state.ancestry(ref.snapshot_id):
            yield _id(state.uuid, name, snapshot)


def _look(
    catalogs: Mapping[str, Catalog], store: ObjectReader, plan: Plan
) -> Iterator[tuple[str, Snapshot, str]]:
    """Yields each ref that changed, its snapshot before, and what it resolves to now."""
    if not plan.committed_base or not (plan.snapshots or plan.refs):
        return
    try:
        before = load_state(store, plan.table, plan.committed_base)
        after = _next(catalogs, store, plan)
    except MeltlineError:
        return
    if after is not None and _is_ours(plan, before, after):
        remaining = (name for name in before.refs if name not in plan.refs)
        yield from _moved(before, after, remaining)


def _moved(
    before: TableMetadata, after: TableMetadata, names: Iterable[str]
) -> Iterator[tuple[str, Snapshot, str]]:
    for name in names:
        was, shows = before.snapshots[before.refs[name].snapshot_id], _shown_by(after, name)
        if shows != _shown(was):
            yield name, was, shows


def _is_ours(plan: Plan, before: TableMetadata, after: TableMetadata) -> bool:
    """Returns whether the next metadata removed what was planned and added nothing.

    A run that was killed before its commit leaves the table to others, whose commits may move any
    ref. No commit of ours removes a snapshot that a ref points at: Iceberg refuses that
    (RemoveSnapshots).
    """
    if any(r.snapshot_id in plan.snapshots for n, r in before.refs.items() if n not in plan.refs):
        return False
    remaining = after.snapshots.keys() & set(plan.snapshots) or after.refs.keys() & set(plan.refs)
    return not remaining and after.snapshots.keys() <= before.snapshots.keys()


def _next(catalogs: Mapping[str, Catalog], store: ObjectReader, plan: Plan) -> TableMetadata | None:
    """Returns the table right after the commit; None if the log does not have it any more."""
    current = catalogs[plan.table.catalog].location(plan.table)
    state = load_state(store, plan.table, current)
    line = [*state.metadata_log, current]
    keys = [location_key(path) for path in line]
    base = location_key(plan.committed_base)
    if base not in keys[:-1]:
        return None
    after = line[keys.index(base) + 1]
    return state if after == current else load_state(store, plan.table, after)


def _shown_by(state: TableMetadata, name: str) -> str:
    """Describes the snapshot that a table's ref resolves to."""
    snapshot = state.snapshots.get(state.refs[name].snapshot_id) if name in state.refs else None
    return "nothing" if snapshot is None else _shown(snapshot)


def _shown(snapshot: Snapshot) -> str:
    """Describes a snapshot for the comparison: its id, its row count and its path."""
    rows = snapshot.summary.get(_ROWS, "unknown")
    return f"{snapshot.snapshot_id} of {rows} rows at {snapshot.files_key}"


def _id(uuid: str, name: str, snapshot: Snapshot) -> str:
    return f"{KIND} {uuid} {name} {_shown(snapshot)}"


def _raise_incidents(
    context: RunContext, plan: Plan, differences: Sequence[tuple[str, Snapshot, str]]
) -> HeadChanged:
    now = context.clock.now()
    lines = [f"{name}: {_shown(was)} before, {shows} after" for name, was, shows in differences]
    context.control.incidents.add(
        [
            Incident(
                id=_id(plan.table_uuid, name, was),
                kind=KIND,
                object=f"{plan.table}@{name}",
                table=str(plan.table),
                table_uuid=plan.table_uuid,
                at=now,
                message=f"since the commit of plan {plan.id} {line}",
                next=_NEXT,
            )
            for (name, was, _), line in zip(differences, lines, strict=True)
        ]
    )
    detail = "\n".join(lines)
    reason = "a ref shows something else after an expiration"
    audit(context, "incident", plan.id, reason, detail)
    return HeadChanged(
        f"the commit of {plan.id} has changed what {len(differences)} refs of {plan.table} show",
        object=str(plan.table),
        expected="each ref at its snapshot, with its rows, as before the commit",
        found="; ".join(lines[:_SHOWN]),
        next=_NEXT,
    )
