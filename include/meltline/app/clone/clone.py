"""Zero-copy clone: creates a table, schema or database over the files of another, at any point.

The order of the steps makes it safe:
- A purge veto for each snapshot, so that no purge takes its files; then a check of purge claims.
- The sharing pairs in the control ledger.
- The guard of each source: a commit that confirms the snapshot still exists.
- One registration of all clones, then a final check.

The veto keeps the files until the registration, and then the clone itself does, whichever locks are
held and wherever the process dies. `clone/replace.py` adds `CREATE OR REPLACE`. Requirements TT-33
to TT-39, ML-22, DS-2, DS-3, DS-13, DS-15.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from uuid import uuid4

from meltline.app.catalog.metadata import load_concurrently
from meltline.app.catalog.new_names import require_free, require_outer, target_name
from meltline.app.catalog.registrations import load_standing
from meltline.app.catalog.resolve import find_object, require_changeable
from meltline.app.clone.clone_points import Children, SkippedTable, sources_at
from meltline.app.clone.gc_guard import (
    CLONED,
    set_guard,
    snapshot_lost,
    take_back_guard,
    taken_back_if_refused,
)
from meltline.app.drop.drop import (
    busy,
    levels_within,
    require_not_ledger,
)
from meltline.app.safety.audit import audit
from meltline.app.safety.owner_guards import GuardLog
from meltline.app.safety.purge_vetoes import files_of, group_locks, refuse_claimed
from meltline.app.services import ReadContext
from meltline.domain.clone.clones import (
    Identity,
    Source,
    copied_properties,
    first_metadata,
    new_location,
    spelled,
)
from meltline.domain.errors import (
    CloneNotSupported,
    MeltlineError,
)
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.metadata_editor import NextMetadata
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.time_travel.timetravel import TravelPoint
from meltline.ports import (
    CatalogListing,
    CatalogRegistrar,
    ClaimLedger,
    ManifestReader,
    NewTable,
    ObjectReader,
    PurgeVeto,
)

Namespaces = Mapping[tuple[str, ...], Mapping[str, str]]


@dataclass(frozen=True)
class ClonedTable:
    """A clone.

    Attributes:
        uuid: Its own UUID; empty in a dry run.
        snapshot_id: The source's snapshot from which it starts; None if the source has none.
    """

    source: TableName
    table: TableName
    uuid: str
    snapshot_id: int | None
    committed_at: datetime | None


@dataclass(frozen=True)
class Cloned:
    """Result of a clone."""

    source: ObjectName
    target: ObjectName
    created: tuple[ClonedTable, ...]
    skipped: tuple[SkippedTable, ...]


@dataclass(frozen=True)
class _Part:
    """One table of a clone: its source, and the purge veto that keeps its files meanwhile."""

    source: Source
    own: Identity
    word: PurgeVeto | None

    @property
    def state(self) -> TableMetadata:
        return self.source.state

    @property
    def snapshot(self) -> Snapshot | None:
        id = self.source.snapshot_id
        return None if id is None else self.state.snapshots[id]

    @property
    def pair(self) -> tuple[str, str]:
        return min(self.state.uuid, self.own.uuid), max(self.state.uuid, self.own.uuid)

    def first(self, now: datetime) -> NextMetadata:
        return first_metadata(self.source, self.own, now, str(uuid4()))


def clone(
    context: ReadContext,
    source: str,
    target: str,
    kind: ObjectKind | None = None,
    *,
    point: TravelPoint | None = None,
    ignore_insufficient: bool = False,
    dry_run: bool = False,
) -> Cloned:
    """Clones a table, schema or database under another name, as it is now or was at one point.

    A schema or database is cloned at one instant, with all its tables or not at all.

    Args:
        context: The ports.
        source: The name of the source.
        target: The new name, in full, in the same catalog.
        kind: The kind of the source, if both a table and a schema have its name.
        point: The point in time; None is now.
        ignore_insufficient: Omit tables that cannot be read so far back (TT-37).
        dry_run: Check everything and change nothing.

    Raises:
        TableNotFound: There is no such object; ObjectDropped, NamespaceNotFound likewise.
        NameConflict: The new name is taken.
        UsageInvalid: The new name is invalid, or in another catalog.
        CatalogReadOnly: The catalog, or the object, cannot be changed from here.
        CloneNotSupported: The profile has no clones.
        BeforeCreation: The point is at or before the table's creation.
        OutsideRetention: The source cannot be read at that point; ChildInsufficientRetention if it
            is a schema or database.
        MetadataUnreadable: One of its tables cannot be read.
        FilesClaimed: A purge has begun to delete some of its files.
        LockHeld: A run works on it.
        CommitConflict: A snapshot expired meanwhile, or the outcome is unknown.
    """
    _require_clones(context)
    name = find_object(context, source, kind)
    catalog = require_changeable(context, name)
    require_not_ledger(context, name)
    new = target_name(name, target, "cloned")
    require_changeable(context, new)
    listing = catalog.listing()
    require_free(new, listing)
    require_outer(new, listing)
    children = sources_at(context, name, listing, point, ignore_insufficient=ignore_insufficient)
    move = clone_naming(name, new)
    parts = [
        _part(context, origin, move(origin.state.name), listing) for origin in children.sources
    ]
    done = _outcome(name, new, parts, children, dry_run=dry_run)
    if not dry_run:
        states = [part.state for part in parts]
        locked = busy(context.control.plans, name, states) | {
            p.own.uuid for p in parts if name.table
        }
        namespaces = {
            move(TableName(name.catalog, levels, "")).namespace: _copied_properties(
                listing.namespaces[levels]
            )
            for levels in levels_within(name, listing)
        }
        with group_locks(context, locked, f"clone {name}"):
            _register(context, context.registrars[catalog.name], parts, namespaces)
        _audit(context, done)
    return done


def _require_clones(context: ReadContext) -> None:
    profile = context.config.account.profile
    if not profile.has_clones:
        raise CloneNotSupported(
            f"profile {profile.name} has no zero-copy clones",
            object=f"profile {profile.name}",
            expected="a profile with clones",
            found=profile.name,
            next="copy the rows with an engine, or choose another profile in meltline.yaml",
        )


def clone_naming(name: ObjectName, new: ObjectName) -> Callable[[TableName], TableName]:
    """Returns a function from the names of a source's tables to those of its clone."""

    def move(table: TableName) -> TableName:
        levels = new.namespace + table.namespace[len(name.namespace) :]
        return TableName(new.catalog, levels, new.table or table.name)

    return move


def _copied_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Copies a namespace's properties for its clone, except location and share marks."""
    return {key: text for key, text in copied_properties(properties).items() if key != "location"}


def _part(context: ReadContext, source: Source, name: TableName, listing: CatalogListing) -> _Part:
    state = source.state
    snapshot = state.snapshots[source.snapshot_id] if source.snapshot_id is not None else None
    word = _veto(context, state, snapshot, name) if snapshot else None
    return _Part(source, new_identity(context, name, state, listing), word)


def new_identity(
    context: ReadContext, name: TableName, beside: TableMetadata, listing: CatalogListing
) -> Identity:
    """Creates a UUID and a location for a new table.

    Engines would choose the same location: below the namespace's, otherwise in the warehouse. If
    neither is known, it is beside another table.
    """
    uuid = str(uuid4())
    stated = listing.namespaces.get(name.namespace, {}).get("location", "")
    warehouse = context.config.catalogs[name.catalog].warehouse
    folder = stated or beside.location.rstrip("/").rpartition("/")[0]
    if not stated and "/" in warehouse:  # a REST server may know its warehouse by a name
        folder = "/".join((warehouse.rstrip("/"), *map(spelled, name.namespace)))
    return Identity(name, uuid, new_location(folder, name.name, uuid))


def _veto(
    context: ReadContext, state: TableMetadata, snapshot: Snapshot, new: TableName
) -> PurgeVeto:
    return PurgeVeto(
        id=token_hex(8),
        table_uuid=state.uuid,
        snapshot_id=snapshot.snapshot_id,
        manifest_list=snapshot.manifest_list,
        inline_manifests=snapshot.inline_manifests,
        who=context.who,
        reason=f"clone {state.name} as {new}",
        at=context.clock.now(),
    )


def _outcome(
    name: ObjectName, new: ObjectName, parts: Sequence[_Part], children: Children, *, dry_run: bool
) -> Cloned:
    created = tuple(
        ClonedTable(
            source=part.state.name,
            table=part.own.name,
            uuid="" if dry_run else part.own.uuid,
            snapshot_id=part.source.snapshot_id,
            committed_at=part.snapshot.committed_at if part.snapshot else None,
        )
        for part in parts
    )
    return Cloned(name, new, created, children.skipped)


def _audit(context: ReadContext, done: Cloned) -> None:
    left_out = f", {len(done.skipped)} left out" if done.skipped else ""
    detail = f"as {done.target}: {len(done.created)} tables{left_out}"
    audit(context, CLONED, str(done.source), detail=detail)
    for copy in done.created:
        audit(context, CLONED, str(copy.table), detail=f"from {copy.source}@{copy.snapshot_id}")


# --- step by step ---------------------------------------------------------------------------------


def _register(
    context: ReadContext,
    registrar: CatalogRegistrar,
    parts: Sequence[_Part],
    namespaces: Namespaces,
) -> None:
    """Creates the clones, or reverts every change."""
    sharing = [part for part in parts if part.word]
    words = [part.word for part in sharing if part.word]
    with ExitStack() as back:
        back.callback(context.control.vetoes.remove, [word.id for word in words])
        for word in words:
            context.control.vetoes.add(word)
        _refuse_claimed(context.control.claims, context.store, context.manifests, words)
        context.control.registrations.add_sharing(sorted(part.pair for part in sharing))
        _guard(context, sharing, back)
        with taken_back_if_refused(back):
            at = registrar.create([NewTable(p.own.name, p.first) for p in parts], namespaces)
        back.callback(_take_out, registrar, at, namespaces)
        settled = _look_again(context, sharing)
        back.pop_all()
    context.control.vetoes.remove(settled)


def _guard(context: ReadContext, parts: Sequence[_Part], back: ExitStack) -> None:
    log = GuardLog.of(context)
    for part in parts:
        log.sets(part.own.uuid)
        if set_guard(log, context.editors, part.state, part.source.snapshot_id):
            back.callback(
                take_back_guard,
                context.control.registrations,
                context.editors,
                part.state,
                part.own.uuid,
            )


def _refuse_claimed(
    claims: ClaimLedger, store: ObjectReader, manifests: ManifestReader, words: Sequence[PurgeVeto]
) -> None:
    """Refuses files that a purge has claimed.

    A purge claims before it reads vetoes, so one of the two sees the other.
    """
    claimed = claims.paths()
    for word in words if claimed else ():
        needed = {location_key(path) for path in files_of(store, manifests, word)}
        refuse_claimed([p for p in claimed if location_key(p) in needed], word.reason)


def _look_again(context: ReadContext, parts: Sequence[_Part]) -> list[str]:
    """Checks that no file of the clones was deleted before they were registered.

    That holds if the veto still exists, or if the source still has the snapshot, which then never
    needed the veto. Otherwise the files themselves must exist: from now on the clone keeps them. A
    guard that was lifted meanwhile is set again.

    Returns:
        Ids of vetoes that are no longer needed; the next purge plan turns the others into cancelled
            departures.

    Raises:
        CommitConflict: A file is gone.
        FilesClaimed: A purge is about to delete one.
    """
    states = load_concurrently(lambda part: _now(context, part.state), parts)
    standing = {row.id for row in context.control.vetoes.all()}
    settled: list[str] = []
    for part, state in zip(parts, states, strict=True):
        assert part.word is not None and part.snapshot is not None  # only such parts share files
        if state is not None:
            set_guard(GuardLog.of(context), context.editors, part.state)
        if state is not None and part.snapshot.snapshot_id in state.snapshots:
            settled.append(part.word.id)
        elif part.word.id not in standing:
            _require_files(
                context.control.claims, context.store, context.manifests, part.state, part.word
            )
    return settled


def _require_files(
    claims: ClaimLedger,
    store: ObjectReader,
    manifests: ManifestReader,
    seen: TableMetadata,
    word: PurgeVeto,
) -> None:
    try:
        _refuse_claimed(claims, store, manifests, [word])
        sizes = load_concurrently(store.size, sorted(files_of(store, manifests, word)))
    except FileNotFoundError as missing:
        raise snapshot_lost(seen, word.snapshot_id) from missing
    if None in sizes:
        raise snapshot_lost(seen, word.snapshot_id)


def _now(context: ReadContext, seen: TableMetadata) -> TableMetadata | None:
    """Reads a table's current state; None if it was renamed or replaced, or cannot be read."""
    try:
        at = context.catalogs[seen.name.catalog].location(seen.name)
        state = load_standing(context, seen.name, at)
    except MeltlineError:
        return None
    return state if state.uuid == seen.uuid else None


def _take_out(
    registrar: CatalogRegistrar, at: Mapping[TableName, str], namespaces: Namespaces
) -> None:
    """Unregisters the clones; one that has been written to since stays.

    Their metadata files stay too, some kilobytes: they were visible, so others may refer to them.
    """
    for name, place in at.items():
        registrar.unregister(name, place)
    if namespaces:
        registrar.move([], remove=list(namespaces))
