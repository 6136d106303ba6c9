"""What has been dropped: tables and namespaces that stand in `meltline_dropped`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from meltline.app.catalog.metadata import metadata_of
from meltline.app.catalog.registrations import load_tables
from meltline.app.services import ReadContext
from meltline.domain.drop.drops import LET_GO, Drop, is_dropped_name, read_drop, without_drop
from meltline.domain.errors import ContainerDropped
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import DROPPED_NAMESPACE, ObjectName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.safe_text import quote
from meltline.ports import CatalogListing, KnownTable


@dataclass(frozen=True)
class DroppedTable:
    """A dropped table, and the facts of its drop."""

    state: TableMetadata
    drop: Drop


@dataclass(frozen=True)
class DroppedNamespace:
    """A dropped schema or database.

    Attributes:
        stands: The namespace that remembers it.
        properties: Its own, as they were.
    """

    stands: tuple[str, ...]
    drop: Drop
    properties: Mapping[str, str]


def dropped_tables(context: ReadContext, listing: CatalogListing) -> list[DroppedTable]:
    """The dropped tables of a catalog that can be read and say what they were."""
    entries = [pointer for pointer in listing.entries if is_dropped_name(pointer.name.namespace)]
    states = metadata_of(load_tables(context, entries).values())
    drops = ((state, read_drop(state.name.catalog, state.properties)) for state in states)
    return [DroppedTable(state, drop) for state, drop in drops if drop and drop.object.table]


def dropped_namespaces(catalog: str, listing: CatalogListing) -> list[DroppedNamespace]:
    """The dropped schemas and databases of a catalog."""
    stones = ((at, words) for at, words in listing.namespaces.items() if is_dropped_name(at))
    drops = ((at, words, read_drop(catalog, words)) for at, words in stones)
    return [
        DroppedNamespace(at, drop, without_drop(words))
        for at, words, drop in drops
        if drop and not drop.object.table
    ]


def is_let_go(state: TableMetadata, now: datetime) -> bool:
    """Whether a metadata file is the last of a dropped table that has been let go.

    Its retention has ended, and it has no snapshot and no ref any more.
    """
    drop = read_drop(state.name.catalog, state.properties)
    if drop is None or not is_dropped_name(state.name.namespace):
        return False
    return drop.is_over(now) and not state.snapshots and not state.refs


def let_go_tables(rows: Sequence[KnownTable]) -> dict[str, KnownTable]:
    """Tables that were let go and stand under no name, by UUID."""
    standing = {row.uuid for row in rows if row.status not in ("gone", LET_GO)}
    return {row.uuid: row for row in rows if row.status == LET_GO and row.uuid not in standing}


def former_names(context: ReadContext) -> dict[str, TableName]:
    """The names that dropped tables had, also of those that have been let go, by UUID.

    Of one that was dropped before any run had seen it and is let go, the audit alone tells.
    """
    rows = context.control.registrations.all()
    former = {row.uuid: row.name for row in rows if not is_dropped_name(row.name.namespace)}
    for catalog in context.catalogs.values():
        for table in dropped_tables(context, catalog.listing()):
            former[table.state.uuid] = table.drop.object.table_name
    nameless = {str(row.name): row.uuid for row in rows if row.uuid not in former}
    for entry in context.control.audit.entries() if nameless else ():
        uuid = nameless.get(entry.detail.rpartition(": ")[0])
        if entry.action == LET_GO and uuid is not None:
            former[uuid] = TableName.parse(entry.object)
    return former


def dropped_place(uuid: str, catalog: str) -> TableName:
    """Where a dropped table stands: under its UUID, in the namespace of the dropped ones."""
    return TableName(catalog, (DROPPED_NAMESPACE,), uuid.replace("/", "_"))


def require_container(
    name: ObjectName, listing: CatalogListing, namespaces: Sequence[DroppedNamespace], now: datetime
) -> None:
    """Refuses to bring back what stood in a schema or database that is dropped itself.

    Raises:
        ContainerDropped: Undrop that one first (TT-53).
    """
    outer = name.namespace if name.table else name.namespace[:-1]
    for depth in range(1, len(outer) + 1):
        level = ObjectName(name.catalog, outer[:depth])
        if level.namespace in listing.namespaces:
            continue
        if any(n.drop.object == level and n.drop.is_restorable(now) for n in namespaces):
            raise ContainerDropped(
                f"{level}, in which {name} stood, has been dropped",
                object=str(name),
                expected=f"a {level.kind} {level}",
                found="a dropped one",
                next=f"`meltline undrop {quote(level)} --kind {level.kind}`",
            )
