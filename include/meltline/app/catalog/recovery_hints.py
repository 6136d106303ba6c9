"""Builds the hints in errors that say how a dropped or archived object can be restored.

A hint names a command only if that command would succeed, so this module checks what `recover` and
`undrop` check. Name resolution and the commands call it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from meltline.app.catalog.dropped import DroppedTable, dropped_namespaces, dropped_tables
from meltline.app.catalog.metadata import load_concurrently
from meltline.app.catalog.recoverable import REACH, last_state, safe_until, standing_with
from meltline.app.services import ReadContext
from meltline.domain.archive.archive import ArchivedSnapshot
from meltline.domain.drop.drops import Drop
from meltline.domain.errors import (
    MeltlineError,
    NotDropped,
    ObjectDropped,
    OutsideRetention,
    SnapshotNotFound,
)
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import Snapshot
from meltline.domain.safe_text import quote
from meltline.domain.units import format_instant
from meltline.ports import ArchivedReader, CatalogListing, ManifestReader, ObjectReader

_UNDONE = "`meltline history` lists what can be brought back"


def newest(
    context: ReadContext,
    listing: CatalogListing,
    name: ObjectName,
    drops: Iterable[tuple[Drop, datetime]],
) -> Drop:
    """Returns the drop that an undrop restores: the last one (TT-43).

    Args:
        context: Has the clock, and what a hint needs.
        listing: The listing of its catalog.
        name: The object.
        drops: Drops of the catalog, each with a time that orders drops of the same moment.

    Raises:
        NotDropped: No object with that name and kind has been dropped.
        OutsideRetention: Each was dropped longer ago than its retention (TT-45, TT-46).
    """
    versions = sorted(
        ((drop.at, order, drop.batch, drop) for drop, order in drops if drop.object == name),
        key=lambda version: version[:3],
        reverse=True,
    )
    if not versions:
        raise NotDropped(
            f"no {name.kind} {name} has been dropped",
            object=str(name),
            expected=f"a dropped {name.kind} of that name",
            found="none among the dropped ones",
            next=f"{_UNDONE}; what an engine has dropped "
            "is noticed by the next observation: `meltline observe`",
        )
    now = context.clock.now()
    for *_, drop in versions:
        if drop.is_restorable(now):
            return drop
    last = versions[0][3]
    raise OutsideRetention(
        f"{name} cannot be brought back any more",
        object=str(name),
        expected=f"an undrop within {last.retention_days} days of the drop",
        found=f"dropped at {format_instant(last.at)}",
        next=_beyond_retention(context, listing, last),
    )


def refuse_dropped(
    context: ReadContext,
    listing: CatalogListing,
    *names: ObjectName,
    kind: ObjectKind | None = None,
) -> None:
    """Refuses a name that no object has any more because its object was dropped.

    Raises:
        ObjectDropped: It was dropped; the error says how to restore it.
    """
    drops = [table.drop for table in dropped_tables(context, listing)]
    drops += [namespace.drop for namespace in dropped_namespaces(names[0].catalog, listing)]
    fitting = [d for d in drops if d.object in names and kind in (None, d.object.kind)]
    if not fitting:
        return
    now = context.clock.now()
    last = max(fitting, key=lambda drop: (drop.is_restorable(now), drop.at))
    name = last.object
    until = f", until {format_instant(last.ends_at)}" if last.ends_at else ""
    raise ObjectDropped(
        f"{name} has been dropped",
        object=str(name),
        expected=f"a {name.kind} that is there",
        found=f"dropped at {format_instant(last.at)}",
        next=f"undrop it first: `meltline undrop {quote(name)} --kind {name.kind}`{until}"
        if last.is_restorable(now)
        else f"its retention has ended; {_beyond_retention(context, listing, last)}",
    )


def recovery_of(subject: object) -> str:
    """Returns the command that restores what no undrop can."""
    return f"`meltline recover {quote(subject)} --as NEW --reason WHY`"


def _beyond_retention(context: ReadContext, listing: CatalogListing, drop: Drop) -> str:
    name = drop.object
    if not name.table:
        return f"{recovery_of('TABLE')} may find each of its tables; with --dry-run it says what"
    ways = [
        _last_of(context, table) for table in dropped_tables(context, listing) if table.drop == drop
    ]
    return next(filter(None, ways), f"nothing of it is left to recover; {_UNDONE}")


def _last_of(context: ReadContext, table: DroppedTable) -> str:
    """Returns how to recover a dropped table's last state; empty if `recover` would refuse."""
    description = last_state(context, table)
    readers = (context.store, context.manifests)
    if description is None or not _lists_are_there(*readers, description.snapshot):
        return ""
    name, number = table.drop.object.table_name, description.snapshot.snapshot_id
    # If it was recovered under its own name, or cloned, it exists: no command makes another.
    if state := standing_with(context, name, [table], number):
        return f"{state.name} still has its last state, snapshot {number}: {REACH}"
    until = safe_until(context, table, description)
    command = recovery_of(f"{name}@{number}")
    if until is None:
        return f"{command} may still find its files: from now on any run may purge them"
    return f"{command} makes a new table of its last state, until {format_instant(until)} at least"


def _lists_are_there(store: ObjectReader, manifests: ManifestReader, snapshot: Snapshot) -> bool:
    """Returns whether the files that `recover` needs exist."""
    paths = list(snapshot.inline_manifests)
    if snapshot.manifest_list:
        try:
            content = store.read(snapshot.manifest_list)
            paths += [ref.path for ref in manifests.read_list(snapshot.manifest_list, content)]
        except (MeltlineError, FileNotFoundError):
            return False
    return None not in load_concurrently(store.size, paths)


# --- archived snapshots (AR-44) -------------------------------------------------------------------


def archived_copies(
    archived: ArchivedReader, snapshot_id: int, uuid: str | None = None
) -> list[ArchivedSnapshot]:
    """Returns the cold copies of a snapshot, of one table or of all with that snapshot id."""
    copies = archived.all(None if uuid is None else [uuid])
    return [copy for copy in copies if copy.snapshot_id == snapshot_id]


def is_archived(copy: ArchivedSnapshot) -> SnapshotNotFound:
    """Returns the error for a snapshot that only cold still has."""
    name, number = copy.table, copy.snapshot_id
    return SnapshotNotFound(
        f"snapshot {number} of {name} is archived: hot has it no more",
        object=f"{name}@{number}",
        expected="a snapshot that hot still has",
        found=f"one in the archive, kept until {format_instant(copy.keep_until)}",
        next=f"`meltline restore NEW --from-cold {quote(name)} --snapshot {number}` makes a "
        "table of it, "
        f"`meltline query {quote(name)} --allow-cold` reads it where it is",
    )


@contextmanager
def naming_archived(archived: ArchivedReader, uuid: str, snapshot_id: int | None) -> Iterator[None]:
    """Reports a snapshot that is not found as archived, if cold has it.

    Raises:
        SnapshotNotFound: As raised in the block, or because the snapshot is archived.
    """
    try:
        yield
    except SnapshotNotFound as missing:
        if snapshot_id is not None:
            for copy in archived_copies(archived, snapshot_id, uuid):
                raise is_archived(copy) from missing
        raise
