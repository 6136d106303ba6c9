"""What making, updating and dropping a share does to tables (ML-19, ML-20)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import partial
from itertools import chain
from uuid import uuid4

from meltline.app.catalog.commit import same_table
from meltline.app.clone.gc_guard import snapshot_lost, take_back_guard
from meltline.app.clone.share_tables import SharePart, StandingTable, all_whereabouts
from meltline.app.drop.drop import busy, drop_for_good
from meltline.app.safety.owner_guards import GuardLog
from meltline.app.safety.purge_vetoes import group_locks
from meltline.app.safety.server_probe import unmanaged_reason
from meltline.app.services import ReadContext
from meltline.domain.clone.clones import Source, first_moment, guarded
from meltline.domain.clone.shares import Share, emptied, pin, shared_document, tag_of
from meltline.domain.iceberg.metadata_editor import MetadataEditor, NextMetadata, first_file
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEditor, CatalogListing, NewTable, TableMove


def locked(
    context: ReadContext, share: Share, parts: Sequence[SharePart]
) -> AbstractContextManager[None]:
    """The locks of the sources of these parts. Raises LockHeld."""
    states = [part.source.state for part in parts]
    return group_locks(
        context, busy(context.control.plans, share.source, states), f"share {share.name}"
    )


def pin_all(
    context: ReadContext, share: Share, parts: Sequence[SharePart], back: ExitStack | None = None
) -> None:
    """Tags and guards what the share is to show; `back` gets what takes that away again.

    Raises:
        CommitConflict: A snapshot has expired meanwhile, or others committed first each time.
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
    """One commit on the source that sees the snapshot, keeps it, and stops engines purging."""
    snapshot_id = source.snapshot_id
    assert snapshot_id is not None  # only what has a snapshot is pinned

    def edit(document: MetadataEditor) -> None:
        if snapshot_id not in document.state.snapshots:
            raise snapshot_lost(source.state, snapshot_id)
        document.set_ref(pin(share.name, snapshot_id))
        document.set_properties(guarded(document.properties))

    name = source.state.name
    editors[name.catalog].edit_table(name, same_table(source.state, edit))


def _unpin(editors: Mapping[str, CatalogEditor], share: Share, source: TableMetadata) -> None:
    """Takes the tag away."""

    def edit(document: MetadataEditor) -> None:
        document.remove_ref(tag_of(share.name))

    editor = editors[source.name.catalog]
    editor.edit_table(source.name, same_table(source, edit))


def new_tables(share: Share, parts: Sequence[SharePart]) -> list[NewTable]:
    """The share's tables that are to come."""
    return [NewTable(part.own.name, partial(_first, share, part)) for part in parts]


def _first(share: Share, part: SharePart, now: datetime) -> NextMetadata:
    document = shared_document(part.source, part.own, share.name, first_moment(part.source, now))
    return first_file(part.own.name, document, str(uuid4()))


def rewritten(share: Share, part: SharePart) -> TableMove:
    """A table of the share in its place, with what it is to show."""
    assert part.now is not None  # else it is made

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
    """Takes the tag away from the sources that tables had, unless they are shown still.

    Args:
        context: Where the sources are.
        share: The share.
        before: Its tables as they stood: what the ledger knows tells where their sources are.
        lost: Sources of which its tables are gone.
        shown: UUIDs of sources that it shows from now on, be it under another name.

    Raises:
        CommitConflict: Others committed first each time.
    """
    every = all_whereabouts(context)
    left = [t.origin for t in before if t.origin is not None and t.origin.uuid not in shown]
    for source in chain(*map(every, left), lost):
        # What is shown now may be another registration of a table that is not: it has the tag anew.
        if source.uuid not in shown and tag_of(share.name) in source.refs:
            _unpin(context.editors, share, source)


def take_away(
    context: ReadContext,
    share: Share,
    tables: Sequence[StandingTable],
    listing: CatalogListing,
    remove: Sequence[tuple[str, ...]] = (),
) -> None:
    """Drops tables of a share for good, and the namespaces that are to go with them.

    Raises:
        NamespaceNotEmpty: Something else stands in a namespace that is to go.
        LockHeld: A run works on one of them.
        CommitConflict: Others committed first each time.
    """
    states = [table.state for table in tables]
    if unmanaged_reason(context.config, share.place.catalog, listing):
        _empty(context, share, states)
    if states or remove:
        drop_for_good(context, share.place, states, listing, remove)


def _empty(context: ReadContext, share: Share, states: Sequence[TableMetadata]) -> None:
    """Has tables refer to no file any more: in such a catalog nobody lets dropped ones go."""
    moves = [TableMove(s.name, s.name, same_table(s, emptied)) for s in states]
    context.registrars[share.place.catalog].move(moves)
