"""The views of MD_INFORMATION_SCHEMA: the shares, and storage by stage (ML-21, ML-36)."""

from collections.abc import Iterator, Sequence

from meltline.app.outcomes import Outcome, unsupported
from meltline.app.report import StorageHistory, storage_rows
from meltline.app.services import Ledgers
from meltline.app.shares import list_shares
from meltline.app.tables import is_ledger, levels_around
from meltline.domain.drops import is_dropped_name, read_drop
from meltline.domain.names import TableName
from meltline.domain.objects import ObjectKind, ObjectName
from meltline.domain.policy import effective_retention
from meltline.domain.table import TableState
from meltline.grammar.statements import ReadView
from meltline.ports import ReadColumn, ReadRows

Cells = tuple[object, ...]

_OWNED_SHARES = (
    ReadColumn("share_name", "string"),
    ReadColumn("source", "string"),
    ReadColumn("source_table", "string"),
    ReadColumn("pinned_snapshot_id", "bigint"),
    ReadColumn("pinned_at", "timestamp"),
    ReadColumn("update_mode", "string"),
    ReadColumn("state", "string"),
)
_BYTES = ("active_bytes", "historical_bytes", "retained_for_clone_bytes", "failsafe_bytes")
_STORAGE_INFO = (
    ReadColumn("database_name", "string"),
    ReadColumn("database_id", "string"),
    *(ReadColumn(name, "bigint") for name in _BYTES),
    ReadColumn("transient", "boolean"),
    ReadColumn("computed_ts", "timestamp"),
)


def read_view(ledgers: Ledgers, standing: ObjectName, statement: ReadView) -> Outcome:
    """All rows of a view. They are of every catalog, wherever the session stands.

    Raises:
        StatementUnsupported: This release has no such view.
        CatalogUnlistable: A catalog cannot be listed.
        MetadataUnreadable: A share's table cannot be read.
    """
    if statement.view == "owned_shares":
        return Outcome(read=ReadRows(_OWNED_SHARES, tuple(_shares(ledgers))))
    if statement.view == "storage_info":
        return Outcome(read=ReadRows(_STORAGE_INFO, tuple(_storage(ledgers))))
    raise unsupported(f"MD_INFORMATION_SCHEMA.{statement.view.upper()}")


def _shares(ledgers: Ledgers) -> Iterator[Cells]:
    """A row for each table of a share; one without a table for a share that has none."""
    for found in list_shares(ledgers):
        share = found.share
        for table in found.tables or (None,):
            source = table.source if table else None
            yield (
                share.name,
                str(share.source),
                str(source) if source else None,
                table.snapshot_id if table else None,
                share.at,
                share.mode,
                table.condition if table else None,
            )


def _storage(ledgers: Ledgers) -> Iterator[Cells]:
    """A row for each database of each catalog, and for dropped ones that still have bytes."""
    history = StorageHistory(ledgers)
    standing = history.at(None)
    transient = dict(_databases(ledgers))
    sums: dict[ObjectName, dict[str, int]] = {name: dict.fromkeys(_BYTES, 0) for name in transient}
    former = _former_names(ledgers, history.states)
    for row in storage_rows(standing):
        table = former.get(row.table_uuid, row.table)
        database = ObjectName(table.catalog, table.namespace[:1])
        into = sums.setdefault(database, dict.fromkeys(_BYTES, 0))
        for column in _BYTES:
            into[column] += getattr(row, column)
    for name in sorted(sums, key=lambda one: (one.catalog, one.namespace)):
        if name in transient or any(sums[name].values()):
            numbers = sums[name].values()
            yield (name.namespace[0], str(name), *numbers, transient.get(name), standing.at)


def _databases(ledgers: Ledgers) -> Iterator[tuple[ObjectName, bool]]:
    """The databases that are there, and whether what comes to them is transient."""
    for catalog in ledgers.catalogs.values():
        listing = catalog.listing()
        for levels in listing.namespaces:
            name = ObjectName(catalog.name, levels)
            mine = is_ledger(ledgers, TableName(catalog.name, levels, ""))
            if name.kind is ObjectKind.DATABASE and not is_dropped_name(levels) and not mine:
                around = levels_around(ledgers, name, listing)
                yield name, effective_retention(ledgers.config.account, around).transient


def _former_names(ledgers: Ledgers, states: Sequence[TableState]) -> dict[str, TableName]:
    """The names that dropped tables had, also of those that have been let go, by UUID."""
    known = ledgers.control.tables()
    here = {state.uuid for state in states if not is_dropped_name(state.name.namespace)}
    former = {row.uuid: row.name for row in known if not is_dropped_name(row.name.namespace)}
    for state in states:
        drop = read_drop(state.name.catalog, state.properties)
        if drop is not None and drop.object.table:
            former[state.uuid] = drop.object.table_name
    return {uuid: name for uuid, name in former.items() if uuid not in here}
