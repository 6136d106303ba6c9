"""Shares: creates, updates, drops and lists them (ML-19 to ML-21, DS-14).

The CLI and SQL call it, and the daily report for automatic shares. A commit first tags the source's
snapshot, which keeps it from then on. Then all tables of the share are registered at once. Not
every engine can be kept from writing to a shared table; the next update reverts such writes, and
reports them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from uuid import uuid4

from meltline.app.catalog.commit import same_table
from meltline.app.catalog.dropped import dropped_tables
from meltline.app.catalog.new_names import require_free
from meltline.app.catalog.resolve import catalog_of, find_object, require_changeable
from meltline.app.catalog.share_namespaces import share_at, shares_in
from meltline.app.clone.gc_guard import snapshot_lost, take_back_guard, taken_back_if_refused
from meltline.app.clone.share_tables import (
    SharedTable,
    SharePart,
    StandingTable,
    all_whereabouts,
    gone_tables_of,
    looked_at,
    lost_sources,
    share_parts,
    standing_tables,
    whereabouts,
)
from meltline.app.drop.drop import busy, drop_for_good, levels_within, require_not_ledger
from meltline.app.safety.audit import audit
from meltline.app.safety.owner_guards import GuardLog
from meltline.app.safety.purge_vetoes import group_locks
from meltline.app.safety.server_probe import unmanaged_reason
from meltline.app.services import ReadContext
from meltline.domain.clone.clones import Source, first_moment, guarded
from meltline.domain.clone.shares import Share, emptied, pin, shared_document, tag_of
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.errors import (
    MeltlineError,
    NameConflict,
    NamespaceNotEmpty,
    ShareNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor, NextMetadata, first_file
from meltline.domain.iceberg.names import TableName, split_name
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import Catalog, CatalogEditor, CatalogListing, NewTable, TableMove


def locked(
    context: ReadContext, share: Share, parts: Sequence[SharePart]
) -> AbstractContextManager[None]:
    """Takes the locks of the parts' sources. Raises LockHeld."""
    states = [part.source.state for part in parts]
    return group_locks(
        context, busy(context.control.plans, share.source, states), f"share {share.name}"
    )


def pin_all(
    context: ReadContext, share: Share, parts: Sequence[SharePart], back: ExitStack | None = None
) -> None:
    """Tags and guards the snapshots that the share will show; `back` receives the reverting calls.

    Raises:
        CommitConflict: A snapshot has expired meanwhile, or every attempt lost to another commit.
        CatalogReadOnly: A source cannot be changed from here.
    """
    pinned = [part for part in parts if part.source.snapshot_id is not None]
    pairs = [sorted((part.source.state.uuid, part.own.uuid)) for part in pinned]
    context.control.registrations.add_sharing(sorted((uuid, sharer) for uuid, sharer in pairs))
    log = GuardLog.of(context)
    for uuid in (*(part.own.uuid for part in parts), *(p.source.state.uuid for p in pinned)):
        log.sets(uuid)
    for part in pinned:
        state = part.source.state
        _pin(context.editors, share, part.source)
        if back is not None:
            back.callback(
                take_back_guard,
                context.control.registrations,
                context.editors,
                state,
                part.own.uuid,
            )
            back.callback(_unpin, context.editors, share, state)


def _pin(editors: Mapping[str, CatalogEditor], share: Share, source: Source) -> None:
    """Tags the snapshot and guards its source, in one commit that confirms the snapshot exists."""
    snapshot_id = source.snapshot_id
    assert snapshot_id is not None  # callers pin only sources with a snapshot

    def edit(document: MetadataEditor) -> None:
        if snapshot_id not in document.state.snapshots:
            raise snapshot_lost(source.state, snapshot_id)
        document.set_ref(pin(share.name, snapshot_id))
        document.set_properties(guarded(document.properties))

    name = source.state.name
    editors[name.catalog].edit_table(name, same_table(source.state, edit))


def _unpin(editors: Mapping[str, CatalogEditor], share: Share, source: TableMetadata) -> None:
    """Removes the share's tag from a source."""

    def edit(document: MetadataEditor) -> None:
        document.remove_ref(tag_of(share.name))

    editor = editors[source.name.catalog]
    editor.edit_table(source.name, same_table(source, edit))


def new_tables(share: Share, parts: Sequence[SharePart]) -> list[NewTable]:
    """Builds the tables that the share does not have yet."""
    return [NewTable(part.own.name, partial(_first, share, part)) for part in parts]


def _first(share: Share, part: SharePart, now: datetime) -> NextMetadata:
    document = shared_document(part.source, part.own, share.name, first_moment(part.source, now))
    return first_file(part.own.name, document, str(uuid4()))


def rewritten(share: Share, part: SharePart) -> TableMove:
    """Builds the change of an existing table of the share to its intended state."""
    assert part.now is not None  # otherwise it is created

    def edit(document: MetadataEditor) -> None:
        at = first_moment(part.source, document.at)
        document.replace(shared_document(part.source, part.own, share.name, at))

    return TableMove(part.own.name, part.own.name, same_table(part.now.state, edit))


def unpin_all(
    context: ReadContext,
    share: Share,
    before: Iterable[StandingTable],
    lost: Iterable[TableMetadata],
    shown: Collection[str] = (),
) -> None:
    """Removes the share's tag from the sources of tables, unless they are still shown.

    Args:
        context: The ports.
        share: The share.
        before: Its tables before the change: the ledger finds their sources.
        lost: Sources whose shared tables are gone.
        shown: UUIDs of sources that it will show, perhaps under another name.

    Raises:
        CommitConflict: Every attempt lost to another commit.
    """
    every = all_whereabouts(context)
    left = [t.origin for t in before if t.origin is not None and t.origin.uuid not in shown]
    for source in chain(*map(every, left), lost):
        # A source that is shown now may be another registration of one that is not: it was just
        # tagged.
        if source.uuid not in shown and tag_of(share.name) in source.refs:
            _unpin(context.editors, share, source)


def take_away(
    context: ReadContext,
    share: Share,
    tables: Sequence[StandingTable],
    listing: CatalogListing,
    remove: Sequence[tuple[str, ...]] = (),
) -> None:
    """Drops tables of a share permanently, and the given namespaces.

    Raises:
        NamespaceNotEmpty: A namespace that is to be removed has other tables.
        LockHeld: A run works on one of them.
        CommitConflict: Every attempt lost to another commit.
    """
    states = [table.state for table in tables]
    if unmanaged_reason(context.config, share.place.catalog, listing):
        _empty(context, share, states)
    if states or remove:
        drop_for_good(context, share.place, states, listing, remove)


def _empty(context: ReadContext, share: Share, states: Sequence[TableMetadata]) -> None:
    """Removes all references from tables: in such a catalog no run finalizes dropped ones."""
    moves = [TableMove(s.name, s.name, same_table(s, emptied)) for s in states]
    context.registrars[share.place.catalog].move(moves)


_LONGEST_NAME = 200
_SHOWN = 5


@dataclass(frozen=True)
class Shared:
    """A share and its tables.

    Attributes:
        removed: Tables that an update removes from it.
        foreign: Tables of others in its namespace: they are left alone.
    """

    share: Share
    tables: tuple[SharedTable, ...]
    removed: tuple[TableName, ...] = ()
    foreign: tuple[TableName, ...] = ()


def create_share(
    context: ReadContext, name: str, source: str, *, auto: bool = False, dry_run: bool = False
) -> Shared:
    """Shares a table, schema or database as it is now, in a namespace with the share's name.

    Args:
        context: The ports.
        name: The share's name, one part.
        source: The name of the source.
        auto: Whether every daily run updates it.
        dry_run: Check everything and change nothing.

    Raises:
        TableNotFound: There is no such source; ObjectDropped if it was dropped.
        NameConflict: The name is taken.
        UsageInvalid: It cannot be a share's name, or the source is a share itself.
        CatalogReadOnly: The source cannot be changed from here.
        MetadataUnreadable: One of its tables cannot be read.
        LockHeld: A run works on it.
        CommitConflict: Every attempt lost to another commit, or the outcome is unknown.
    """
    _require_name(name)
    origin = find_object(context, source)
    catalog = require_changeable(context, origin)
    require_not_ledger(context, origin)
    share = Share(name, origin, auto, context.clock.now(), context.who)
    require_changeable(context, share.place)
    listing = catalog.listing()
    _require_no_share(origin, listing)
    require_free(share.place, listing)
    parts = share_parts(context, share, listing, ())
    done = Shared(share, tuple(part.shown for part in parts))
    if not dry_run:
        with locked(context, share, parts), ExitStack() as back:
            pin_all(context, share, parts, back)
            with taken_back_if_refused(back):
                registrar = context.registrars[catalog.name]
                registrar.create(new_tables(share, parts), {share.place.namespace: share.written()})
            back.pop_all()
        detail = f"{'auto' if auto else 'manual'}, from {origin}: {len(parts)} tables"
        audit(context, "share", str(share.place), detail=detail)
        audit(context, "share", str(origin), detail=f"as {share.place}")
    return done


def update_share(context: ReadContext, name: str, *, dry_run: bool = False) -> Shared:
    """Updates a share to the current state of its source, and releases its old snapshots (ML-20).

    Tables added to the source are added, removed ones are removed. Writes to the share's tables are
    reverted; the result names those tables.

    Raises:
        ShareNotFound: There is no such share.
        NameConflict: A table of another owner has the name of a table to be added.
        TableNotFound: Its source is gone; NamespaceNotFound and ObjectDropped likewise.
        MetadataUnreadable: One of the tables cannot be read.
        LockHeld: A run works on one of them.
        CommitConflict: Every attempt lost to another commit.
    """
    catalog, stored, listing = _find(context, name)
    source = _origin(context, stored, listing)
    share = replace(stored, source=source, at=context.clock.now(), who=context.who)
    standing, foreign = _standing(context, share, listing)
    parts = share_parts(context, share, listing, standing)
    shown = {part.own.name: part.shown for part in parts}
    _require_not_taken(share, shown.keys() & foreign)
    surplus = [table for table in standing if table.state.name not in shown]
    sources = {part.source.state.uuid for part in parts}
    lost = lost_sources(context, share, listing, standing, dropped_tables(context, listing))
    unshown = [state for state in lost if state.uuid not in sources]
    removed = tuple(table.state.name for table in surplus)
    done = Shared(share, tuple(shown.values()), removed, foreign)
    changed = [part for part in parts if part.is_to_change(share)]
    if not dry_run and [*changed, *surplus, *unshown]:
        _show_present(context, share, changed)
        unpin_all(context, share, standing, unshown, sources)
        take_away(context, share, surplus, listing)
        editor = context.editors[catalog.name]
        editor.set_namespace_properties(share.place.namespace, share.written())
        _audit_update(context, done)
    return done


def _show_present(context: ReadContext, share: Share, parts: Sequence[SharePart]) -> None:
    """Updates tables of a share to their sources' current state; creates the missing ones."""
    with locked(context, share, parts):
        pin_all(context, share, parts)
        registrar = context.registrars[share.place.catalog]
        registrar.move([rewritten(share, part) for part in parts if part.now])
        registrar.create(new_tables(share, [part for part in parts if not part.now]))


def drop_share(context: ReadContext, name: str, *, dry_run: bool = False) -> Shared:
    """Drops a share: removes its tags and its tables, which cannot be undropped (ML-20).

    Raises:
        ShareNotFound: There is no such share.
        NamespaceNotEmpty: Its namespace has a table of another owner.
        LockHeld: A run works on one of its tables.
        CommitConflict: Every attempt lost to another commit.
    """
    _, share, listing = _find(context, name)
    standing, foreign = _standing(context, share, listing)
    _require_no_others(share, foreign)
    lost = lost_sources(context, share, listing, standing, dropped_tables(context, listing))
    done = Shared(share, tuple(looked_at(context, standing)))
    if not dry_run:
        # Tags first: the tables themselves keep the files until they are removed.
        unpin_all(context, share, standing, lost)
        take_away(context, share, standing, listing, levels_within(share.place, listing))
        audit(context, "share drop", str(share.place), detail=f"from {share.source}")
        audit(context, "share drop", str(share.source), detail=str(share.place))
    return done


def list_shares(context: ReadContext, of: str = "") -> list[Shared]:
    """Lists every share with its tables, by name.

    Args:
        context: The ports.
        of: Only shares whose source contains this object, or is a part of it (ML-21).

    Raises:
        UsageInvalid: It is not a name, or is ambiguous.
        TableNotFound: There is no such object.
    """
    scope = find_object(context, of) if of else None
    shares: list[Shared] = []
    for catalog in context.catalogs.values():
        listing = catalog.listing()
        every = list(shares_in(catalog.name, listing))
        dropped = dropped_tables(context, listing) if every else ()
        for share in every:
            if scope is None or _is_about(share.source, scope):
                standing, foreign = _standing(context, share, listing)
                lost = lost_sources(context, share, listing, standing, dropped)
                tables = (*looked_at(context, standing), *gone_tables_of(share, lost))
                shares.append(Shared(share, tables, foreign=foreign))
    return sorted(shares, key=lambda shown: (shown.share.name, shown.share.source.catalog))


def update_auto_shares(context: ReadContext) -> None:
    """Updates all automatic shares; the next run retries one that fails."""
    for catalog in context.catalogs.values():
        if catalog.observe_only:
            continue
        for share in shares_in(catalog.name, catalog.listing()):
            try:
                if share.auto:
                    update_share(context, str(share.place))
            except MeltlineError as stop:
                context.progress(f"report: share {share.name} is not updated: {stop.message}")


# --- helpers --------------------------------------------------------------------------------------


def _standing(
    context: ReadContext, share: Share, listing: CatalogListing
) -> tuple[list[StandingTable], tuple[TableName, ...]]:
    """The share's tables in their current state, and the names of other tables in its namespace."""
    every = standing_tables(context, share, listing)
    foreign = tuple(table.state.name for table in every if not table.is_the_shares)
    return [table for table in every if table.is_the_shares], foreign


def _require_name(name: str) -> None:
    is_unfit = (
        not name.strip() or not name.isprintable() or "." in name or len(name) > _LONGEST_NAME
    )
    if is_unfit:
        raise UsageInvalid(
            f"{name!r} cannot be the name of a share",
            object=name,
            expected=f"a name of one part, without a dot, of at most {_LONGEST_NAME} letters",
            found="an empty, too long or unprintable name, or one with a dot",
            next="choose another; the share's tables will stand in a namespace of that name",
        )


def _require_not_taken(share: Share, names: Iterable[TableName]) -> None:
    for table in sorted(names):
        raise NameConflict(
            f"{table} is not the share's: somebody else has put it there",
            object=str(table),
            expected=f"a free name, for a table of the share {share.name}",
            found="another table of that name",
            next=f"give that one another name: `meltline rename {quote(table)} NEW`",
        )


def _require_no_others(share: Share, foreign: Sequence[TableName]) -> None:
    if not foreign:
        return
    names = ", ".join(map(str, foreign[:_SHOWN]))
    more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
    raise NamespaceNotEmpty(
        f"{share.place} holds tables that are not the share's",
        object=str(share.place),
        expected="tables of the share alone",
        found=names + more,
        next=f"`meltline rename` or `meltline drop` those first: {foreign[0]}, for one",
    )


def _require_no_share(origin: ObjectName, listing: CatalogListing) -> None:
    for depth in range(1, len(origin.namespace) + 1):
        if share_at(ObjectName(origin.catalog, origin.namespace[:depth]), listing):
            raise UsageInvalid(
                f"{origin} belongs to a share itself",
                object=str(origin),
                expected="a table, schema or database of its own",
                found="part of a share",
                next="share its source once more; `meltline share list` names it",
            )


def _find(context: ReadContext, name: str) -> tuple[Catalog, Share, CatalogListing]:
    """Finds a share by its name, or by catalog and name."""
    try:
        parts = split_name(name)
    except ValueError:
        parts = (name,)
    where, level = (parts[0], parts[1]) if len(parts) == 2 else (context.config.hot, name)
    catalog = catalog_of(context, where, name)
    listing = catalog.listing()
    share = share_at(ObjectName(where, (level.strip("`"),)), listing)
    if share is None:
        raise ShareNotFound(
            f"there is no share {name}",
            object=name,
            expected="the name of a share",
            found="no share of that name",
            next="`meltline share list` shows them",
        )
    return catalog, share, listing


def _origin(context: ReadContext, share: Share, listing: CatalogListing) -> ObjectName:
    """Finds a share's source today, also if it is a table that was renamed."""
    try:
        return find_object(context, str(share.source), share.source.kind)
    except TableNotFound:
        find = whereabouts(context)
        for table in _standing(context, share, listing)[0]:
            state = find(table.origin)
            if state is not None and not is_dropped_name(state.name.namespace):
                return ObjectName(state.name.catalog, state.name.namespace, state.name.name)
        raise


def _is_about(source: ObjectName, scope: ObjectName) -> bool:
    """Whether one of the two objects contains the other."""
    if source.catalog != scope.catalog:
        return False
    path = (*source.namespace, *([source.table] if source.table else []))
    scope_path = (*scope.namespace, *([scope.table] if scope.table else []))
    depth = min(len(path), len(scope_path))
    return path[:depth] == scope_path[:depth]


def _audit_update(context: ReadContext, done: Shared) -> None:
    undone = [str(table.table) for table in done.tables if table.written]
    words = [f"{len(done.tables)} tables, {len(done.removed)} removed"]
    words += ["writes undone:", *undone] if undone else []
    audit(context, "share update", str(done.share.place), detail="\n".join(words))
