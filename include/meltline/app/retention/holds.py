"""Holds: adds, removes and lists them; a run neither expires nor purges files of a held object.

The CLI calls it; `doctor` and a run's summary list the holds that end soon. A hold is in the
catalog, as a property or a tag, which `domain/retention/holds.py` defines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex

from meltline.app.catalog.commit import commit, pin, unpin
from meltline.app.catalog.recovery_hints import naming_archived
from meltline.app.catalog.resolve import find_object, load_table, require_changeable
from meltline.app.catalog.tables import ObservedTable, look_everywhere
from meltline.app.safety.audit import audit
from meltline.app.safety.purge_vetoes import claimed_of, group_locks, refuse_claimed, snapshot_kept
from meltline.app.services import ReadContext
from meltline.domain.deletion.plan import PlanState
from meltline.domain.drop.drops import is_dropped_name, read_drop
from meltline.domain.errors import HoldNotFound, UsageInvalid
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import SnapshotRef, TableMetadata
from meltline.domain.iceberg.timeline import require_snapshot
from meltline.domain.retention.holds import Hold, object_holds, snapshot_holds
from meltline.domain.retention.policy import FOREVER_MS
from meltline.domain.units import format_instant
from meltline.ports import CatalogListing, ControlLedger

_SNAPSHOT = re.compile(r"^(?P<object>.+)@(?P<snapshot>-?\d+)$")
_LONGEST_REASON = 500  # a SQL catalog stores a namespace's property in 1,000 characters


@dataclass(frozen=True)
class HeldObject:
    """A hold and its object."""

    hold: Hold
    object: ObjectName


@dataclass(frozen=True)
class Holds:
    """Every hold that was found, and the tables that could not be read."""

    holds: Sequence[HeldObject]
    unreadable: Sequence[str]


def add_hold(
    context: ReadContext,
    text: str,
    *,
    reason: str,
    until: datetime | None = None,
    kind: ObjectKind | None = None,
    dry_run: bool = False,
) -> Hold:
    """Holds a table, a namespace, or one snapshot (`NAME@SNAPSHOT`).

    Args:
        context: The ports.
        text: The name of the object.
        reason: The reason, for readers of the list.
        until: Its end by the wall clock; None is never.
        kind: The kind of the object, if both a table and a schema have this name.
        dry_run: Check everything and change nothing.

    Raises:
        UsageInvalid: There is no reason, the end has passed, or the name is invalid.
        TableNotFound: There is no such object, or, NamespaceNotFound, no such namespace.
        SnapshotNotFound: The table has no such snapshot any more.
        CatalogReadOnly: The catalog is only observed.
        FilesClaimed: A purge has begun to delete some of its files, which the error names. Nothing
            was changed.
        LockHeld: A run works on it and did not end within `limits.lock-wait`.
    """
    now = context.clock.now()
    _require_reason(reason)
    _require_to_come(until, now)
    match = _SNAPSHOT.match(text)
    name = find_object(context, match["object"] if match else text, kind)
    require_changeable(context, name, dropped_too=True)
    hold = Hold(
        id=token_hex(4),
        object=str(name),
        reason=reason.strip(),
        who=context.who,
        since=now,
        until=until,
        snapshot_id=int(match["snapshot"]) if match else None,
    )
    if match:
        _hold_snapshot(context, name, hold, dry_run=dry_run)
    else:
        _hold_object(context, name, hold, dry_run=dry_run)
    if not dry_run:
        audit(context, "hold add", hold.subject, hold.reason, _until(hold))
    return hold


def _hold_snapshot(context: ReadContext, name: ObjectName, hold: Hold, *, dry_run: bool) -> None:
    """Commits a tag, with a property for user and reason. The hold's end is the tag's own age."""
    if name.kind is not ObjectKind.TABLE or hold.snapshot_id is None:
        raise UsageInvalid(
            f"{name} is a {name.kind}: it has no snapshots",
            object=str(name),
            expected="a table's name before @",
            found=str(name.kind),
            next="hold the whole of it, without @",
        )
    seen = load_table(context, name.table_name)
    with naming_archived(context.control.archived, seen.uuid, hold.snapshot_id):
        snapshot = seen.snapshots[require_snapshot(seen, hold.snapshot_id)]
    if dry_run:
        return
    age = FOREVER_MS
    if hold.until is not None:
        age = snapshot.age_at(hold.until)
    tag = SnapshotRef(hold.tag, snapshot.snapshot_id, is_branch=False, max_ref_age_ms=age)

    def edit(document: MetadataEditor, state: TableMetadata) -> None:
        pin(document, tag, {hold.key: hold.written()})

    with snapshot_kept(context, seen.uuid, snapshot, f"hold {hold.subject}"):
        commit(context, seen, edit)


def _hold_object(context: ReadContext, name: ObjectName, hold: Hold, *, dry_run: bool) -> None:
    """Sets a property. It is written before the claims are read: a purge does the reverse."""
    purpose = f"hold {name}"
    uuids = _covered(context, name)
    if dry_run:
        refuse_claimed(claimed_of(context, uuids), purpose)
        return
    with group_locks(context, _busy(context.control, name, uuids), purpose):
        _change(context, name, hold, present=True)
        try:
            refuse_claimed(claimed_of(context, uuids), purpose)
        except BaseException:
            _change(context, name, hold, present=False)
            raise


def _covered(context: ReadContext, name: ObjectName) -> set[str]:
    """UUIDs of the tables that a hold covers, as far as the ledger knows them."""
    uuids = {table.uuid for table in context.control.registrations.all() if name.covers(table.name)}
    if name.kind is ObjectKind.TABLE:
        uuids.add(load_table(context, name.table_name).uuid)
    return uuids


def _busy(control: ControlLedger, name: ObjectName, uuids: set[str]) -> set[str]:
    """Tables to lock. In a namespace, only those that a run is about to change: not thousands."""
    if name.kind is ObjectKind.TABLE:
        return uuids
    open_plans = control.plans.find(states=[PlanState.PASSED, PlanState.APPLYING])
    return uuids & {plan.table_uuid for plan in open_plans}


def _change(context: ReadContext, name: ObjectName, hold: Hold, *, present: bool) -> None:
    updates = {hold.key: hold.written()} if present else {}
    removals = () if present else (hold.key,)
    editor = context.editors[name.catalog]
    if name.kind is ObjectKind.TABLE:
        editor.set_table_properties(name.table_name, updates, removals)
    else:
        editor.set_namespace_properties(name.namespace, updates, removals)


def remove_hold(context: ReadContext, id: str, *, reason: str, dry_run: bool = False) -> Hold:
    """Removes a hold; the ordinary rules apply to files that it alone kept.

    Raises:
        HoldNotFound: No hold has that id.
        UsageInvalid: There is no reason.
        CatalogReadOnly: The catalog is only observed.
    """
    _require_reason(reason)
    held_object = next((held for held in find_holds(context).holds if held.hold.id == id), None)
    if held_object is None:
        raise HoldNotFound(
            f"no hold {id}",
            object=id,
            expected="an id of `meltline hold list`",
            found="none of that id",
            next="`meltline hold list` shows every hold; one that has ended may be gone",
        )
    hold, name = held_object.hold, held_object.object
    require_changeable(context, name, dropped_too=True)
    if dry_run:
        return hold
    if hold.snapshot_id is None:
        _change(context, name, hold, present=False)
    else:

        def edit(document: MetadataEditor, state: TableMetadata) -> None:
            unpin(document, hold.tag, hold.key)

        commit(context, load_table(context, name.table_name), edit)
    audit(context, "hold remove", hold.subject, reason.strip(), f"{hold.id}: {hold.reason}")
    return hold


def find_holds(context: ReadContext) -> Holds:
    """Lists every hold of every catalog, by object and id; ended ones too, while stored."""
    seen = look_everywhere(context)
    holds = [
        held for name, listing in seen.listings.items() for held in _of_namespaces(name, listing)
    ]
    holds += [held for state in seen.states for held in _of_table(state)]
    holds.sort(key=lambda held: (held.hold.object, held.hold.id))
    return Holds(holds, seen.unreadable)


def _of_namespaces(catalog: str, listing: CatalogListing) -> Iterator[HeldObject]:
    for levels, properties in listing.namespaces.items():
        name = ObjectName(catalog, levels)
        for hold in object_holds(str(name), properties):
            yield HeldObject(_as_known(hold, catalog, levels, properties), name)


def _as_known(
    hold: Hold, catalog: str, namespace: tuple[str, ...], properties: Mapping[str, str]
) -> Hold:
    """The hold under its object's usual name: for a dropped object, its old name."""
    drop = read_drop(catalog, properties) if is_dropped_name(namespace) else None
    return hold if drop is None else replace(hold, object=f"{drop.object} (dropped)")


def _of_table(state: TableMetadata) -> Iterator[HeldObject]:
    table = state.name
    name = ObjectName(table.catalog, table.namespace, table.name)
    tags = {ref.name: ref.snapshot_id for ref in state.refs.values() if not ref.is_branch}
    holds = [
        *object_holds(str(name), state.properties),
        *snapshot_holds(str(name), state.properties, tags),
    ]
    for hold in holds:
        yield HeldObject(_as_known(hold, table.catalog, table.namespace, state.properties), name)


def ending_soon(tables: Sequence[ObservedTable], now: datetime) -> list[Hold]:
    """Holds on and around these tables that end within a week."""
    by_id: dict[str, Hold] = {}
    for table in tables:
        holds = [held.hold for held in _of_table(table.state)]
        for level, properties in table.levels[1:]:
            holds += object_holds(level, properties)
        by_id.update({hold.id: hold for hold in holds if hold.ends_soon(now)})
    return list(by_id.values())


def _until(hold: Hold) -> str:
    return f"until {format_instant(hold.until)}" if hold.until else "until it is removed"


def _require_reason(reason: str) -> None:
    if reason.strip() and len(reason) <= _LONGEST_REASON:
        return
    raise UsageInvalid(
        "a hold needs a reason that others can read",
        object="--reason",
        expected=f"1 to {_LONGEST_REASON} characters",
        found=f"{len(reason.strip())} characters",
        next="say why, for example: --reason 'audit of 2026'",
    )


def _require_to_come(until: datetime | None, now: datetime) -> None:
    if until is not None and until <= now:
        raise UsageInvalid(
            "a hold cannot end before it begins",
            object="--until",
            expected=f"a time after {format_instant(now)}",
            found=format_instant(until),
            next="give a later time, or leave --until out",
        )
