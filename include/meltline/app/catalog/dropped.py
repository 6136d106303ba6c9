"""Dropped tables and namespaces: those registered in `meltline_dropped`.

Steps, gates and the commands undrop, recover and history read them here.
"""

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
    """A dropped table and the record of its drop."""

    state: TableMetadata
    drop: Drop


@dataclass(frozen=True)
class DroppedNamespace:
    """A dropped schema or database.

    Attributes:
        stands: The namespace that records the drop.
        properties: Its own properties, as they were before the drop.
    """

    stands: tuple[str, ...]
    drop: Drop
    properties: Mapping[str, str]


def dropped_tables(context: ReadContext, listing: CatalogListing) -> list[DroppedTable]:
    """Returns a catalog's readable dropped tables that have a valid record of their drop."""
    entries = [pointer for pointer in listing.entries if is_dropped_name(pointer.name.namespace)]
    states = metadata_of(load_tables(context, entries).values())
    drops = ((state, read_drop(state.name.catalog, state.properties)) for state in states)
    return [DroppedTable(state, drop) for state, drop in drops if drop and drop.object.table]


def dropped_namespaces(catalog: str, listing: CatalogListing) -> list[DroppedNamespace]:
    """Returns the dropped schemas and databases of a catalog."""
    stones = ((at, words) for at, words in listing.namespaces.items() if is_dropped_name(at))
    drops = ((at, words, read_drop(catalog, words)) for at, words in stones)
    return [
        DroppedNamespace(at, drop, without_drop(words))
        for at, words, drop in drops
        if drop and not drop.object.table
    ]


def is_let_go(state: TableMetadata, now: datetime) -> bool:
    """Returns whether a metadata file is the last one of a table whose drop is finalized.

    Its retention has ended, and it has no snapshot and no ref any more.
    """
    drop = read_drop(state.name.catalog, state.properties)
    if drop is None or not is_dropped_name(state.name.namespace):
        return False
    return drop.is_over(now) and not state.snapshots and not state.refs


def let_go_tables(rows: Sequence[KnownTable]) -> dict[str, KnownTable]:
    """Returns tables whose drop is finalized and that no name refers to, by UUID."""
    standing = {row.uuid for row in rows if row.status not in ("gone", LET_GO)}
    return {row.uuid: row for row in rows if row.status == LET_GO and row.uuid not in standing}


def former_names(context: ReadContext) -> dict[str, TableName]:
    """Returns the names that dropped tables had before their drop, by UUID.

    Finalized drops are included. If no run observed a table before its drop, and the drop is
    finalized, only the audit still has its name.
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
    """Returns a dropped table's registered name: its UUID, in the dropped namespace."""
    return TableName(catalog, (DROPPED_NAMESPACE,), uuid.replace("/", "_"))


def require_container(
    name: ObjectName, listing: CatalogListing, namespaces: Sequence[DroppedNamespace], now: datetime
) -> None:
    """Refuses to restore an object whose schema or database is dropped itself.

    Raises:
        ContainerDropped: The schema or database must be undropped first (TT-53).
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
