"""The look after an expiration: what each ref shows is what it showed before our commit (PX-4).

The commit is a compare-and-set that removes what was planned, and nothing else. That a catalog, or
what stands before it, has done just that is not taken on trust: the metadata that came next is
read, and held against the one that it replaced.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from meltline.app.catalog.metadata import load_concurrently, load_state
from meltline.app.ground.audit_log import audit
from meltline.app.services import RunContext
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import HeadChanged, MeltlineError
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import Incident

KIND = HeadChanged.__name__
_SHOWN = 3
_ROWS = "total-records"
_NEXT = (
    "nothing of its group departs or is purged until every ref has its snapshot again: have the "
    "ref stand where it stood, or register the metadata file before that commit"
)


def changed_heads(context: RunContext, plans: Sequence[Plan]) -> Mapping[str, HeadChanged]:
    """Plans after whose commit a ref shows something else, each with its error, by its id.

    Each ref is an incident that stands until it leads back to that. Where metadata cannot be
    read nothing is said: the observation that follows names it, and keeps the table.
    """
    changes = load_concurrently(lambda plan: list(_look(context, plan)), plans)
    return {
        plan.id: _raise_incidents(context, plan, differences)
        for plan, differences in zip(plans, changes, strict=True)
        if differences
    }


def still_changed_heads(
    context: RunContext, states: Sequence[TableMetadata], *, ended: Collection[str]
) -> dict[str, str]:
    """Why tables are kept whose refs show something else since our commit, by registration.

    An incident is over once the ref leads back to what it showed, or the table was let go.
    """
    standing = [i for i in context.control.incidents.all() if i.kind == KIND]
    uuids = {i.table_uuid for i in standing}
    present = {
        _id(state.uuid, name, snapshot)
        for state in states
        if state.uuid in uuids
        for name, ref in state.refs.items()
        for snapshot in state.ancestry(ref.snapshot_id)
    }
    over = {i.id for i in standing if i.id in present or i.table_uuid in ended}
    if over:
        context.control.incidents.end(sorted(over))
    return {i.table_uuid: f"{i.table}: {i.message}" for i in standing if i.id not in over}


def _look(context: RunContext, plan: Plan) -> Iterator[tuple[str, Snapshot, str]]:
    """Each ref that shows something else, what it showed, and what it shows."""
    if not plan.committed_base or not (plan.snapshots or plan.refs):
        return
    try:
        before = load_state(context.store, plan.table, plan.committed_base)
        after = _next(context, plan)
    except MeltlineError:
        return
    if after is None or not _is_ours(plan, before, after):
        return
    for name, ref in before.refs.items():
        was, now = before.snapshots[ref.snapshot_id], _shown_by(after, name)
        if name not in plan.refs and (now is None or _shown(now) != _shown(was)):
            yield name, was, "nothing" if now is None else _shown(now)


def _is_ours(plan: Plan, before: TableMetadata, after: TableMetadata) -> bool:
    """Whether what came next took away what was planned and added nothing.

    A run that was killed before its commit leaves the table to others: theirs may move any ref.
    No commit of ours takes a snapshot from under a ref: Iceberg refuses one (RemoveSnapshots).
    """
    if any(r.snapshot_id in plan.snapshots for n, r in before.refs.items() if n not in plan.refs):
        return False
    remaining = after.snapshots.keys() & set(plan.snapshots) or after.refs.keys() & set(plan.refs)
    return not remaining and after.snapshots.keys() <= before.snapshots.keys()


def _next(context: RunContext, plan: Plan) -> TableMetadata | None:
    """The table right after the commit; None where that is not told any more."""
    current = context.catalogs[plan.table.catalog].location(plan.table)
    state = load_state(context.store, plan.table, current)
    line = [*state.metadata_log, current]
    keys = [location_key(path) for path in line]
    base = location_key(plan.committed_base)
    if base not in keys[:-1]:
        return None
    after = line[keys.index(base) + 1]
    return state if after == current else load_state(context.store, plan.table, after)


def _shown_by(state: TableMetadata | None, name: str) -> Snapshot | None:
    ref = state.refs.get(name) if state else None
    return state.snapshots.get(ref.snapshot_id) if state and ref else None


def _shown(snapshot: Snapshot) -> str:
    """What a ref to a snapshot shows: which, and with how many rows."""
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
