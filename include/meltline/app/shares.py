"""Shares: make, update, drop and list them (ML-19 to ML-21, DS-14; design section 3).

The tag comes first: a commit on the source that sees the snapshot and keeps it from then on. Then
the share's tables come, all at once. A share's table is a table like any other, so writing to it
cannot be forbidden in every engine: the next update undoes what was written, and says so.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import uuid4

from meltline.app.drop import busy, drop, require_free, require_not_ledger, same_table
from meltline.app.edits import audit
from meltline.app.guard import snapshot_lost, take_back_guard
from meltline.app.objects import catalog_of, find_object, require_changeable
from meltline.app.services import Ledgers
from meltline.app.share_tables import (
    SharedTable,
    SharePart,
    StandingTable,
    looked_at,
    share_parts,
    standing_tables,
    whereabouts,
)
from meltline.app.tables import READ_ONLY_TYPES
from meltline.app.wanted import group_locks
from meltline.domain.clones import Source, first_moment, guarded
from meltline.domain.document import MetadataDocument, NextMetadata, first_file
from meltline.domain.drops import is_dropped_name
from meltline.domain.errors import (
    CatalogReadOnly,
    MeltlineError,
    ShareNotFound,
    TableNotFound,
    UsageInvalid,
)
from meltline.domain.names import TableName, split_name
from meltline.domain.objects import ObjectKind, ObjectName
from meltline.domain.shares import (
    Share,
    pin,
    read_share,
    shared_document,
    tag_of,
)
from meltline.domain.table import TableState
from meltline.ports import NOT_REGISTERED, Catalog, CatalogListing, NewTable, TableMove

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Shared:
    """A share and its tables. `removed` are those that an update takes out of it."""

    share: Share
    tables: tuple[SharedTable, ...]
    removed: tuple[TableName, ...] = ()


def create_share(
    ledgers: Ledgers, name: str, source: str, *, auto: bool = False, dry_run: bool = False
) -> Shared:
    """Shares a table, schema or database as it is now, under the share's name as its namespace.

    Args:
        ledgers: Where the source is.
        name: The share's name, one part.
        source: What is shared.
        auto: Whether every daily run is to update it.
        dry_run: Check everything and change nothing.

    Raises:
        TableNotFound: There is no such source; ObjectDropped where there was one.
        NameConflict: The name is taken.
        UsageInvalid: It cannot be a share's name, or the source is a share itself.
        CatalogReadOnly: The source cannot be changed from here.
        MetadataUnreadable: One of its tables cannot be read.
        LockHeld: A run works on it.
        CommitConflict: Others committed first each time, or nobody knows whether it was done.
    """
    _require_name(name)
    origin = find_object(ledgers, source)
    catalog = require_changeable(ledgers, origin)
    require_not_ledger(ledgers, origin)
    _require_supported(ledgers, origin)
    share = Share(name, origin, auto, ledgers.clock.now(), ledgers.who)
    require_changeable(ledgers, share.place)
    listing = catalog.listing()
    _require_no_share(origin, listing)
    require_free(share.place, listing)
    parts = share_parts(ledgers, share, listing)
    done = Shared(share, tuple(part.shown for part in parts))
    if not dry_run:
        with _locked(ledgers, share, parts), ExitStack() as back:
            _pin_all(ledgers, share, parts, back)
            try:
                catalog.create(_new_tables(share, parts), {share.place.namespace: share.written()})
            except NOT_REGISTERED:
                raise
            except BaseException:
                back.pop_all()  # nobody knows whether they are there: what they need stays
                raise
            back.pop_all()
        detail = f"{'auto' if auto else 'manual'}, from {origin}: {len(parts)} tables"
        audit(ledgers, "share", str(share.place), detail=detail)
        audit(ledgers, "share", str(origin), detail=f"as {share.place}")
    return done


def update_share(ledgers: Ledgers, name: str, *, dry_run: bool = False) -> Shared:
    """Has a share show the present, and lets go of what only its old state kept (ML-20).

    Tables that have come to the source come, those that have left it go. What somebody has written
    to the share's tables is undone; the answer says to which.

    Raises:
        ShareNotFound: There is no such share.
        TableNotFound: Its source is gone; NamespaceNotFound and ObjectDropped likewise.
        MetadataUnreadable: One of the tables cannot be read.
        LockHeld: A run works on one of them.
        CommitConflict: Others committed first each time.
    """
    catalog, found, listing = _find(ledgers, name)
    source = _origin(ledgers, found, listing)
    share = replace(found, source=source, at=ledgers.clock.now(), who=ledgers.who)
    parts = share_parts(ledgers, share, listing)
    kept = {part.own.name for part in parts}
    gone = [one for one in standing_tables(ledgers, share, listing) if one.state.name not in kept]
    done = Shared(share, tuple(p.shown for p in parts), tuple(one.state.name for one in gone))
    changed = [part for part in parts if part.is_to_change(share)]
    if not dry_run and (changed or gone):
        with _locked(ledgers, share, changed):
            _pin_all(ledgers, share, changed)
            catalog.move([_rewritten(share, part) for part in changed if part.now])
            catalog.create(_new_tables(share, [part for part in changed if not part.now]))
        _let_go(ledgers, share, changed, gone)
        catalog.set_namespace_properties(share.place.namespace, share.written())
        _audit_update(ledgers, done)
    return done


def drop_share(ledgers: Ledgers, name: str, *, dry_run: bool = False) -> Shared:
    """Ends a share: its tags go, and its tables, which cannot be brought back (ML-20).

    Raises:
        ShareNotFound: There is no such share.
        LockHeld: A run works on one of its tables.
        CommitConflict: Others committed first each time.
    """
    _, share, listing = _find(ledgers, name)
    there = standing_tables(ledgers, share, listing)
    done = Shared(share, tuple(looked_at(ledgers, there)))
    if not dry_run:
        # The tags first: the tables keep what they show until they go themselves.
        find = whereabouts(ledgers)
        for one in there:
            _unpin(ledgers, share, find(one.origin))
        drop(ledgers, str(share.place), ObjectKind.DATABASE, days=0)
        audit(ledgers, "share drop", str(share.place), detail=f"from {share.source}")
        audit(ledgers, "share drop", str(share.source), detail=str(share.place))
    return done


def list_shares(ledgers: Ledgers, of: str = "") -> list[Shared]:
    """Every share, by name, with its tables.

    Args:
        ledgers: Where to look.
        of: Only those that show something of this table, schema or database (ML-21).

    Raises:
        UsageInvalid: It is no name, or could be two things.
        TableNotFound: There is nothing of that name.
    """
    scope = find_object(ledgers, of) if of else None
    found: list[Shared] = []
    for catalog in ledgers.catalogs.values():
        listing = catalog.listing()
        for share in _shares_in(catalog, listing):
            if scope is None or _is_about(share.source, scope):
                tables = looked_at(ledgers, standing_tables(ledgers, share, listing))
                found.append(Shared(share, tuple(tables)))
    return sorted(found, key=lambda one: (one.share.name, one.share.source.catalog))


def update_auto_shares(ledgers: Ledgers) -> None:
    """Updates the shares that are to show the present; one that cannot be is left for tomorrow."""
    for catalog in ledgers.catalogs.values():
        if catalog.observe_only:
            continue
        for share in _shares_in(catalog, catalog.listing()):
            try:
                if share.auto:
                    update_share(ledgers, str(share.place))
            except MeltlineError as stop:
                ledgers.progress(f"report: share {share.name} is not updated: {stop.message}")


# --- looking --------------------------------------------------------------------------------------


def _shares_in(catalog: Catalog, listing: CatalogListing) -> Iterator[Share]:
    """A catalog's shares. What remembers a dropped one is none."""
    for levels, said in listing.namespaces.items():
        share = read_share(catalog.name, said)
        if share is not None and levels == share.place.namespace:
            yield share


def _require_name(name: str) -> None:
    odd = not name.strip() or not name.isprintable() or "." in name or len(name) > _LONGEST_NAME
    if odd:
        raise UsageInvalid(
            f"{name!r} cannot be the name of a share",
            object=name,
            expected=f"a name of one part, without a dot, of at most {_LONGEST_NAME} letters",
            found="an empty, too long or unprintable name, or one with a dot",
            next="choose another; the share's tables will stand in a namespace of that name",
        )


def _require_supported(ledgers: Ledgers, origin: ObjectName) -> None:
    kind = ledgers.config.catalogs[origin.catalog].type
    if kind in READ_ONLY_TYPES:
        raise CatalogReadOnly(
            f"tables of a {kind} catalog cannot be shared from here",
            object=str(origin),
            expected="a catalog whose tables Meltline manages",
            found=kind,
            next="tag the snapshot with an engine, and have others read that tag",
        )


def _require_no_share(origin: ObjectName, listing: CatalogListing) -> None:
    for depth in range(1, len(origin.namespace) + 1):
        if read_share(origin.catalog, listing.namespaces.get(origin.namespace[:depth], {})):
            raise UsageInvalid(
                f"{origin} belongs to a share itself",
                object=str(origin),
                expected="a table, schema or database of its own",
                found="part of a share",
                next="share its source once more; `meltline share list` names it",
            )


def _find(ledgers: Ledgers, name: str) -> tuple[Catalog, Share, CatalogListing]:
    """A share by its name, or by catalog and name."""
    try:
        parts = split_name(name)
    except ValueError:
        parts = (name,)
    where, level = (parts[0], parts[1]) if len(parts) == 2 else (ledgers.config.hot, name)
    catalog = catalog_of(ledgers, where, name)
    listing = catalog.listing()
    levels = (level.strip("`"),)
    share = read_share(where, listing.namespaces.get(levels, {}))
    if share is None or share.place.namespace != levels:
        raise ShareNotFound(
            f"there is no share {name}",
            object=name,
            expected="the name of a share",
            found="no share of that name",
            next="`meltline share list` shows them",
        )
    return catalog, share, listing


def _origin(ledgers: Ledgers, share: Share, listing: CatalogListing) -> ObjectName:
    """What a share is of, today: a table that was given another name is followed."""
    try:
        return find_object(ledgers, str(share.source), share.source.kind)
    except TableNotFound:
        find = whereabouts(ledgers)
        for one in standing_tables(ledgers, share, listing):
            state = find(one.origin)
            if state is not None and not is_dropped_name(state.name.namespace):
                return ObjectName(state.name.catalog, state.name.namespace, state.name.name)
        raise


def _is_about(source: ObjectName, scope: ObjectName) -> bool:
    """Whether one of the two lies in the other."""
    if source.catalog != scope.catalog:
        return False
    one = (*source.namespace, *([source.table] if source.table else []))
    other = (*scope.namespace, *([scope.table] if scope.table else []))
    depth = min(len(one), len(other))
    return one[:depth] == other[:depth]


# --- changing -------------------------------------------------------------------------------------


def _locked(
    ledgers: Ledgers, share: Share, parts: Sequence[SharePart]
) -> AbstractContextManager[None]:
    states = [part.source.state for part in parts]
    return group_locks(ledgers, busy(ledgers, share.source, states), f"share {share.name}")


def _pin_all(
    ledgers: Ledgers, share: Share, parts: Sequence[SharePart], back: ExitStack | None = None
) -> None:
    """Tags and guards what the share is to show; `back` gets what takes that away again."""
    pinned = [part for part in parts if part.source.snapshot_id is not None]
    pairs = [sorted((part.source.state.uuid, part.own.uuid)) for part in pinned]
    ledgers.control.add_sharing(sorted((one, other) for one, other in pairs))
    for part in pinned:
        state = part.source.state
        _pin(ledgers, share, part.source)
        if back is not None:
            back.callback(take_back_guard, ledgers, state, part.own.uuid)
            back.callback(_unpin, ledgers, share, state)


def _pin(ledgers: Ledgers, share: Share, source: Source) -> None:
    """One commit on the source that sees the snapshot, keeps it, and stops engines purging."""
    snapshot_id = source.snapshot_id
    assert snapshot_id is not None  # only what has a snapshot is pinned

    def edit(document: MetadataDocument) -> None:
        if snapshot_id not in document.state.snapshots:
            raise snapshot_lost(source.state, snapshot_id)
        document.set_ref(pin(share.name, snapshot_id))
        document.set_properties(guarded(document.properties))

    name = source.state.name
    ledgers.catalogs[name.catalog].edit_table(name, same_table(source.state, edit))


def _unpin(ledgers: Ledgers, share: Share, source: TableState | None) -> None:
    """Takes the tag away; of a source that is gone there is nothing to take away."""
    if source is None:
        return

    def edit(document: MetadataDocument) -> None:
        document.remove_ref(tag_of(share.name))

    catalog = ledgers.catalogs[source.name.catalog]
    catalog.edit_table(source.name, same_table(source, edit))


def _new_tables(share: Share, parts: Sequence[SharePart]) -> list[NewTable]:
    return [NewTable(part.own.name, partial(_first, share, part)) for part in parts]


def _first(share: Share, part: SharePart, now: datetime) -> NextMetadata:
    made = shared_document(part.source, part.own, share.name, first_moment(part.source, now))
    return first_file(part.own.name, made, str(uuid4()))


def _rewritten(share: Share, part: SharePart) -> TableMove:
    """A table of the share in its place, with what it is to show."""
    assert part.now is not None  # else it is made

    def edit(document: MetadataDocument) -> None:
        at = first_moment(part.source, document.at)
        document.replace(shared_document(part.source, part.own, share.name, at))

    return TableMove(part.own.name, part.own.name, same_table(part.now.state, edit))


def _let_go(
    ledgers: Ledgers, share: Share, changed: Sequence[SharePart], gone: Sequence[StandingTable]
) -> None:
    """Drops the tables whose sources have left, and takes the tags of those sources away."""
    find = whereabouts(ledgers)
    for one in gone:
        _unpin(ledgers, share, find(one.origin))
        drop(ledgers, str(one.state.name), ObjectKind.TABLE, days=0)
    for part in changed:  # another table has its source's name now
        before = part.now.origin if part.now else None
        if before is not None and before.uuid != part.source.state.uuid:
            _unpin(ledgers, share, find(before))


def _audit_update(ledgers: Ledgers, done: Shared) -> None:
    undone = [str(one.table) for one in done.tables if one.written]
    words = [f"{len(done.tables)} tables, {len(done.removed)} removed"]
    words += ["writes undone:", *undone] if undone else []
    audit(ledgers, "share update", str(done.share.place), detail="\n".join(words))
