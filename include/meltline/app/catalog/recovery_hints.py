"""What brings something back that was dropped or archived: a refusal promises what is granted."""

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
    """The version that an undrop brings back: the one that was dropped last (TT-43).

    Args:
        context: Where it was.
        listing: Its catalog's.
        name: The object.
        drops: Drops of the catalog, each with a time that orders drops of the same moment.

    Raises:
        NotDropped: No object of that name and kind has been dropped.
        OutsideRetention: Each has been, for longer than its retention (TT-45, TT-46).
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
    """Says of a name that nothing has, whether something that had it has been dropped.

    Raises:
        ObjectDropped: It has been; says how it comes back.
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
    """The command that brings back what no undrop does."""
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
    """What `recover` makes of a dropped table's last state; empty where it would refuse."""
    description = last_state(context, table)
    readers = (context.store, context.manifests)
    if description is None or not _lists_are_there(*readers, description.snapshot):
        return ""
    name, number = table.drop.object.table_name, description.snapshot.snapshot_id
    # Who has recovered it under its own name, or cloned it back, has it: no command makes another.
    if state := standing_with(context, name, [table], number):
        return f"{state.name} still has its last state, snapshot {number}: {REACH}"
    until = safe_until(context, table, description)
    command = recovery_of(f"{name}@{number}")
    if until is None:
        return f"{command} may still find its files: from now on any run may purge them"
    return f"{command} makes a new table of its last state, until {format_instant(until)} at least"


def _lists_are_there(store: ObjectReader, manifests: ManifestReader, snapshot: Snapshot) -> bool:
    """Whether the files that `recover` cannot do without are there."""
    paths = list(snapshot.inline_manifests)
    if snapshot.manifest_list:
        try:
            content = store.read(snapshot.manifest_list)
            paths += [ref.path for ref in manifests.read_list(snapshot.manifest_list, content)]
        except (MeltlineError, FileNotFoundError):
            return False
    return None not in load_concurrently(store.size, paths)


# --- what is archived (AR-44) ---------------------------------------------------------------------


def archived_copies(
    archived: ArchivedReader, snapshot_id: int, uuid: str | None = None
) -> list[ArchivedSnapshot]:
    """The copies in cold of a snapshot of one table, or of any table that had one of that id."""
    copies = archived.all(None if uuid is None else [uuid])
    return [copy for copy in copies if copy.snapshot_id == snapshot_id]


def is_archived(copy: ArchivedSnapshot) -> SnapshotNotFound:
    """The error for a snapshot that hot has no more, and cold has."""
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
    """Has a snapshot that is not found, and is archived, be named as archived.

    Raises:
        SnapshotNotFound: As the block raises it, or that it is archived.
    """
    try:
        yield
    except SnapshotNotFound as missing:
        if snapshot_id is not None:
            for copy in archived_copies(archived, snapshot_id, uuid):
                raise is_archived(copy) from missing
        raise
