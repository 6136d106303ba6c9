"""Recover: what waits in failsafe, as a new table, best effort (ML-5, ML-25).

Failsafe is no backup. A snapshot's files lie there until they are purged, and the metadata file
that its expiration replaced still describes it. Recovering writes new metadata for that one
snapshot, under a new name and a new UUID; nothing is copied, and what is gone stays gone.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from uuid import uuid4

from meltline.app.dropped import dropped_tables
from meltline.app.edits import audit
from meltline.app.entries import load_standing
from meltline.app.metadata import at_once, load_state
from meltline.app.new_names import require_free
from meltline.app.objects import catalog_of, parse_table_name, require_changeable
from meltline.app.services import Ledgers
from meltline.app.undrop import as_wanted
from meltline.app.wanted import files_of, snapshot_kept
from meltline.domain.clones import copied_properties, guarded, only_snapshot
from meltline.domain.document import first_file, parse_json
from meltline.domain.errors import (
    MeltlineError,
    NamespaceNotFound,
    RecoveryImpossible,
    UsageInvalid,
)
from meltline.domain.names import TableName
from meltline.domain.objects import ObjectName
from meltline.domain.plan import Plan, PlanKind, PlanState
from meltline.domain.quantities import to_millis
from meltline.domain.table import MAIN, Snapshot, TableState
from meltline.ports import NOT_REGISTERED, Catalog


@dataclass(frozen=True)
class Recovered:
    """What could be recovered.

    Attributes:
        source: The table that the snapshot was of, and its UUID.
        table: The new one.
        found: How many files of the snapshot are there.
        missing: Those that are gone; reads that need one of them fail.
    """

    source: TableName
    source_uuid: str
    snapshot: Snapshot
    table: TableName
    found: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class _Description:
    """A metadata file that still describes a snapshot."""

    state: TableState
    snapshot: Snapshot


def recover(
    ledgers: Ledgers,
    text: str,
    target: str,
    *,
    reason: str,
    snapshot_id: int | None = None,
    dry_run: bool = False,
) -> Recovered:
    """Makes a new table of a snapshot that has expired, and cancels its files' departures.

    Args:
        ledgers: Where it was.
        text: The table, by a name that it has or had.
        target: The new table's name.
        reason: Why, for the audit.
        snapshot_id: Which snapshot; None for the newest that has expired.
        dry_run: Look, and change nothing.

    Raises:
        UsageInvalid: No reason, or a snapshot that has not expired.
        RecoveryImpossible: Nothing describes such a snapshot any more, or one of its lists is gone.
        NameConflict: The new name is taken.
        FilesClaimed: A purge has begun to delete files of it.
        LockHeld: A run works on the table.
    """
    source, new = parse_table_name(text), parse_table_name(target)
    if not reason.strip():
        raise _usage("a recovery needs a reason", "--reason", "why", "nothing", "say why")
    catalog = _place_for(ledgers, new)
    found = _describe(ledgers, source, snapshot_id)
    uuid, snapshot = found.state.uuid, found.snapshot
    kept = snapshot_kept(ledgers, uuid, snapshot, f"recover {source}")
    with nullcontext() if dry_run else kept:
        done = Recovered(source, uuid, snapshot, new, *_look_for_files(ledgers, found))
        if not dry_run:
            _register(ledgers, catalog, found, done)
            _audit_recovery(ledgers, done, reason.strip())
    return done


def _place_for(ledgers: Ledgers, new: TableName) -> Catalog:
    """The catalog of the new table, if that name is free there and has a namespace.

    Raises:
        NameConflict: It is taken.
        NamespaceNotFound: There is none.
        CatalogReadOnly: That catalog cannot be changed.
    """
    name = ObjectName(new.catalog, new.namespace, new.name)
    catalog = require_changeable(ledgers, name)
    listing = catalog.listing()
    require_free(name, listing)
    if new.namespace not in listing.namespaces:
        raise NamespaceNotFound(
            f"there is no namespace for {new}",
            object=str(new),
            expected="a namespace that is there",
            found="none of that name",
            next="create it with an engine, or choose another name",
        )
    return catalog


def _register(ledgers: Ledgers, catalog: Catalog, found: _Description, done: Recovered) -> None:
    at = _write(ledgers, found, done)
    try:
        catalog.register(done.table, at)
    except NOT_REGISTERED:  # where nobody knows, the table may stand there
        ledgers.store.delete([at])
        raise


def _audit_recovery(ledgers: Ledgers, done: Recovered, reason: str) -> None:
    snapshot_id = done.snapshot.snapshot_id
    gone = "\n".join(done.missing[:100])
    missing = f"{len(done.missing)} missing:\n{gone}" if done.missing else "none missing"
    detail = f"snapshot {snapshot_id} as {done.table}: {done.found} files found, {missing}"
    audit(ledgers, "recover", str(done.source), reason, detail)
    audit(ledgers, "recover", str(done.table), reason, f"from {done.source}@{snapshot_id}")


def _usage(message: str, object: str, expected: str, found: str, next: str) -> UsageInvalid:
    return UsageInvalid(message, object=object, expected=expected, found=found, next=next)


# --- what still describes the snapshot ------------------------------------------------------------


def _describe(ledgers: Ledgers, name: TableName, snapshot_id: int | None) -> _Description:
    """The newest metadata file that describes the snapshot, of any table that had the name."""
    uuids = _uuids(ledgers, name)
    _require_expired(ledgers, uuids, snapshot_id)
    plans = [p for uuid in uuids for p in _expirations(ledgers, uuid)]
    for plan in sorted(plans, key=lambda plan: plan.created_at, reverse=True):
        if snapshot_id is not None and snapshot_id not in plan.snapshots:
            continue
        state = _load(ledgers, name, plan)
        if state is None:
            continue
        ids = set(plan.snapshots) & state.snapshots.keys()
        head = state.refs.get(MAIN)
        if snapshot_id in ids:
            return _Description(state, state.snapshots[snapshot_id])
        if snapshot_id is None and head and head.snapshot_id in ids:
            return _Description(state, state.snapshots[head.snapshot_id])
        if snapshot_id is None and ids:
            newest = max(ids, key=lambda one: (state.snapshots[one].committed_at, one))
            return _Description(state, state.snapshots[newest])
    raise RecoveryImpossible(
        f"nothing describes {_subject(name, snapshot_id)} any more",
        object=_subject(name, snapshot_id),
        expected="a snapshot that Meltline has expired and that waits in failsafe",
        found="no metadata file that has it" if plans else "no expiration by Meltline",
        next="`meltline storage` and `meltline explain` show what is there",
    )


def _subject(name: TableName, snapshot_id: int | None) -> str:
    return str(name) if snapshot_id is None else f"{name}@{snapshot_id}"


def _uuids(ledgers: Ledgers, name: TableName) -> list[str]:
    """Every table that has, or had, the name."""
    known = {table.uuid for table in ledgers.control.tables() if table.name == name}
    listing = catalog_of(ledgers, name.catalog, str(name)).listing()
    dropped = dropped_tables(ledgers, listing)
    known |= {t.state.uuid for t in dropped if t.drop.object.table_name == name}
    return sorted(known)


def _require_expired(ledgers: Ledgers, uuids: Sequence[str], snapshot_id: int | None) -> None:
    """Refuses a snapshot that a table still has: there are better ways to it."""
    for catalog in ledgers.catalogs.values():
        if snapshot_id is None:
            return
        for table in ledgers.control.tables():
            if table.uuid not in uuids or table.name.catalog != catalog.name:
                continue
            try:
                at = catalog.location(table.name)
                state = load_standing(ledgers, table.name, at)
            except MeltlineError:
                continue
            if state.uuid == table.uuid and snapshot_id in state.snapshots:
                raise _usage(
                    f"snapshot {snapshot_id} has not expired",
                    str(table.name),
                    "a snapshot that is in failsafe",
                    f"one that {table.name} still has",
                    "`meltline branch`, `meltline tag` and `meltline rollback` reach it; of a "
                    "dropped table `meltline undrop`",
                )


def _expirations(ledgers: Ledgers, uuid: str) -> list[Plan]:
    states = [PlanState.APPLIED, PlanState.APPLYING]
    plans = ledgers.control.plans(table_uuid=uuid, states=states)
    return [plan for plan in plans if plan.kind is PlanKind.EXPIRE and plan.snapshots]


def _lineage(ledgers: Ledgers, uuid: str) -> set[str]:
    """Iceberg's UUID of a registration; a path that was used again may hold another table's."""
    return {table.table_uuid for table in ledgers.control.tables() if table.uuid == uuid}


def _load(ledgers: Ledgers, name: TableName, plan: Plan) -> TableState | None:
    """The table as it was before an expiration, if that metadata file is still there."""
    for at in dict.fromkeys((plan.committed_base, plan.base_location)):
        try:
            state = load_state(ledgers.store, name, at) if at else None
        except MeltlineError:
            continue
        if state is not None and state.table_uuid in _lineage(ledgers, plan.table_uuid):
            return replace(state, uuid=plan.table_uuid)
    return None


# --- what is there --------------------------------------------------------------------------------


def _look_for_files(ledgers: Ledgers, found: _Description) -> tuple[int, tuple[str, ...]]:
    """How many files are there, and which are not.

    Raises:
        RecoveryImpossible: A manifest list or a manifest is gone: nobody knows what it named.
    """
    wanted = as_wanted(ledgers, found.state.uuid, found.snapshot, "recover")
    try:
        paths = sorted(files_of(ledgers, wanted))
    except (MeltlineError, FileNotFoundError) as odd:
        raise RecoveryImpossible(
            f"snapshot {found.snapshot.snapshot_id} of {found.state.name} cannot be read",
            object=f"{found.state.name}@{found.snapshot.snapshot_id}",
            expected="its manifest list and every manifest",
            found=str(odd),
            next="recover another snapshot; without its lists nobody knows what this one held",
        ) from odd
    sizes = at_once(ledgers.store.size, paths)
    missing = tuple(path for path, size in zip(paths, sizes, strict=True) if size is None)
    return len(paths) - len(missing), missing


# --- the new table --------------------------------------------------------------------------------


def _write(ledgers: Ledgers, found: _Description, done: Recovered) -> str:
    """Writes the new table's first metadata file. Returns where."""
    state = found.state
    content = ledgers.store.read(state.metadata_location)
    document = parse_json(state.name, state.metadata_location, content)
    assert isinstance(document, dict)  # it was read before
    uuid = str(uuid4())
    location = f"{state.location.rstrip('/')}-recovered-{uuid}"
    made = only_snapshot(document, found.snapshot.snapshot_id)
    copied = copied_properties(state.properties)
    # Dated as the commit was: engines refuse metadata of a time to come, a sandbox's for one.
    committed = to_millis(found.snapshot.committed_at)
    made |= {
        "table-uuid": uuid,
        "location": location,
        "last-updated-ms": committed,
        # Its files lie in another table's folder: they are shared as a clone's are.
        "properties": copied | guarded(copied),
        "metadata-log": [],
        "snapshot-log": [{"timestamp-ms": committed, "snapshot-id": found.snapshot.snapshot_id}],
    }
    file = first_file(done.table, made, str(uuid4()))
    ledgers.store.write(file.location, file.content)
    return file.location
