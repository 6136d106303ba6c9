"""Views of MD_INFORMATION_SCHEMA: shares, databases, storage.

`object_statements` calls it for SELECT * of a view (ML-21, ML-35 to ML-37).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from meltline.app.catalog.dropped import former_names
from meltline.app.catalog.tables import is_ledger, levels_around, remembered
from meltline.app.clone.shares import list_shares
from meltline.app.retention.policies import INHERITED
from meltline.app.services import ReadContext
from meltline.app.sql.statement_results import StatementResult, unsupported
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.drop.drops import is_dropped_name
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.retention.policy import RETENTION, Retention, effective_retention
from meltline.grammar.statements import ReadView
from meltline.ports import ReadColumn, ReadRows

Cells = tuple[object, ...]
Sums = Mapping[ObjectName, Sequence[int]]

HISTORY_DAYS = 30
"""Days that STORAGE_INFO_HISTORY covers, today included (ML-37)."""

_OWNED_SHARES = (
    ReadColumn("share_name", "string"),
    ReadColumn("source", "string"),
    ReadColumn("source_table", "string"),
    ReadColumn("pinned_snapshot_id", "bigint"),
    ReadColumn("pinned_at", "timestamp"),
    ReadColumn("update_mode", "string"),
    ReadColumn("state", "string"),
)
_DATABASES = (
    ReadColumn("database_name", "string"),
    ReadColumn("database_id", "string"),
    ReadColumn("retention_days_raw", "string"),
    ReadColumn("retention_days_effective", "string"),
    ReadColumn("retention_source", "string"),
    ReadColumn("transient", "boolean"),
    ReadColumn("failsafe_days", "bigint"),
    ReadColumn("profile", "string"),
)
_BYTES = ("active_bytes", "historical_bytes", "retained_for_clone_bytes", "failsafe_bytes")
_STORAGE_INFO = (
    ReadColumn("database_name", "string"),
    ReadColumn("database_id", "string"),
    *(ReadColumn(name, "bigint") for name in _BYTES),
    ReadColumn("transient", "boolean"),
    ReadColumn("computed_ts", "timestamp"),
)


def read_view(context: ReadContext, standing: ObjectName, statement: ReadView) -> StatementResult:
    """Reads all rows of a view, from every catalog, whatever the session's current one.

    Raises:
        StatementUnsupported: This release has no such view.
        CatalogUnlistable: A catalog cannot be listed.
        MetadataUnreadable: A share's table cannot be read.
    """
    if statement.view not in _VIEWS:
        raise unsupported(f"MD_INFORMATION_SCHEMA.{statement.view.upper()}")
    columns, rows = _VIEWS[statement.view]
    return StatementResult(read=ReadRows(columns, tuple(rows(context))))


def _shares(context: ReadContext) -> Iterator[Cells]:
    """Yields a row for each table of a share; one without a table for an empty share."""
    for shared in list_shares(context):
        share = shared.share
        for table in shared.tables or (None,):
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


def _databases(context: ReadContext) -> Iterator[Cells]:
    """Yields a row for each database of each catalog, with its own or inherited policies."""
    for name, raw, retention in _policies(context):
        yield (
            name.namespace[0],
            str(name),
            raw,
            str(retention.days),
            retention.source,
            retention.transient,
            retention.failsafe // timedelta(hours=24),
            context.config.account.profile.name,
        )


def _policies(context: ReadContext) -> Iterator[tuple[ObjectName, str, Retention]]:
    """Yields the existing databases, each with its own retention and the effective one."""
    remembered_policies = context.control.policies.all()
    for catalog in context.catalogs.values():
        listing = catalog.listing()
        for levels, properties in sorted(listing.namespaces.items()):
            name = ObjectName(catalog.name, levels)
            mine = is_ledger(context, TableName(catalog.name, levels, ""))
            if name.kind is ObjectKind.DATABASE and not is_dropped_name(levels) and not mine:
                around = levels_around(context, name, listing)
                before = remembered(remembered_policies, around, str(name))
                retention = effective_retention(context.config.account, around, before)
                yield name, properties.get(RETENTION, INHERITED), retention


# --- storage by stage -----------------------------------------------------------------------------


def _storage(context: ReadContext) -> Iterator[Cells]:
    """Yields a row for each database of each catalog, and for dropped ones with bytes."""
    totals = totals_now(context)
    transient = _transient(context)
    sums = _by_database(storage_rows(totals), former_names(context))
    for name in _sorted({*sums, *transient}):
        numbers = sums.get(name, (0,) * len(_BYTES))
        if name in transient or any(numbers):
            yield (*_named(name), *numbers, transient.get(name), totals.at)


def _storage_history(context: ReadContext) -> Iterator[Cells]:
    """Yields a row for each day with a run and each database that had bytes then, newest first.

    Runs have recorded these totals, so nothing is computed here.
    """
    transient, former = _transient(context), former_names(context)
    today = context.clock.now().date()
    for back in range(HISTORY_DAYS):
        rows = context.control.storage.of((today - timedelta(days=back)).isoformat())
        sums = _by_database(rows, former)
        for name in _sorted(name for name, numbers in sums.items() if any(numbers)):
            computed = max(row.computed_at for row in rows)
            yield (*_named(name), *sums[name], transient.get(name), computed)


def _named(database: ObjectName) -> tuple[str | None, str | None]:
    """Returns its name and id; neither if a dropped table's database is unknown."""
    return (database.namespace[0], str(database)) if database.namespace else (None, None)


def _sorted(names: Iterable[ObjectName]) -> list[ObjectName]:
    return sorted(names, key=lambda name: (name.catalog, name.namespace))


def _transient(context: ReadContext) -> dict[ObjectName, bool]:
    """Whether tables of a database are transient by default."""
    return {name: retention.transient for name, _, retention in _policies(context)}


def _by_database(rows: Sequence[StorageRow], former: Mapping[str, TableName]) -> Sums:
    sums: dict[ObjectName, list[int]] = {}
    for row in rows:
        dropped = is_dropped_name(row.table.namespace)
        table = former.get(row.table_uuid) if dropped else row.table
        database = table.namespace[:1] if table else ()
        into = sums.setdefault(ObjectName(row.table.catalog, database), [0] * len(_BYTES))
        for at, column in enumerate(_BYTES):
            into[at] += getattr(row, column)
    return sums


_VIEWS: Mapping[str, tuple[tuple[ReadColumn, ...], Callable[[ReadContext], Iterator[Cells]]]] = {
    "owned_shares": (_OWNED_SHARES, _shares),
    "databases": (_DATABASES, _databases),
    "storage_info": (_STORAGE_INFO, _storage),
    "storage_info_history": (_STORAGE_INFO, _storage_history),
}
