"""Lists live and dropped tables, schemas and databases in one history.

The CLI and SQL call it. It is apart from `app/run_history`, which lists runs (TT-47 to TT-50).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from meltline.app.catalog.dropped import dropped_namespaces
from meltline.app.catalog.metadata import load_concurrently, load_document
from meltline.app.catalog.resolve import catalog_of
from meltline.app.catalog.tables import (
    is_ledger,
    levels_around,
    observed_table,
    remembered,
    retention_of,
)
from meltline.app.services import ReadContext
from meltline.config.load import Config
from meltline.domain.drop.drops import is_dropped_name, read_drop
from meltline.domain.drop.history import (
    HistoryRow,
    Version,
    cluster_by,
    created_on,
    is_like,
    ordered,
    total,
)
from meltline.domain.errors import MeltlineError, NamespaceNotFound, UsageInvalid
from meltline.domain.iceberg.names import split_name
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.retention.policy import Levels, effective_retention
from meltline.domain.units import from_millis
from meltline.ports import CatalogEntry, CatalogListing

_OWNER, _COMMENT = "owner", "comment"
_LONG_AGO = from_millis(0)
"""The drop time of a namespace among drops of one moment: no catalog records it."""


class Listed(StrEnum):
    """The kind of objects that a history lists."""

    TABLES = "tables"
    SCHEMAS = "schemas"
    DATABASES = "databases"


def history(
    context: ReadContext, listed: Listed, *, like: str | None = None, within: str | None = None
) -> tuple[list[HistoryRow], list[str]]:
    """Lists every version that exists or can be restored, one row each.

    Args:
        context: The ports.
        listed: Tables, schemas or databases.
        like: A pattern of SQL's LIKE for the object's own name, case-insensitive.
        within: A catalog, database or schema; None is the account.

    Returns:
        The rows, and the names of tables that could not be read.

    Raises:
        NamespaceNotFound: There is no such schema or database, and none was dropped.
        UsageInvalid: `within` is not a name.
        CatalogUnlistable: The catalog cannot be listed.
    """
    scope = _scope(context.config, within)
    listing = catalog_of(context, scope.catalog, within or "").listing()
    unread: list[str] = []
    if listed is Listed.TABLES:
        rows = _tables(context, scope, listing, unread)
    else:
        kind = ObjectKind.SCHEMA if listed is Listed.SCHEMAS else ObjectKind.DATABASE
        rows = _namespaces(context, scope, listing, kind)
    versions = list(rows)
    if not versions and not unread:
        _require_scope(scope, listing)
    listed_versions = (v for v in versions if like is None or is_like(v.row.name, like))
    return ordered(listed_versions), sorted(unread)


def _scope(config: Config, within: str | None) -> ObjectName:
    if within is None:
        return ObjectName(config.hot)
    try:
        parts = split_name(within)
    except ValueError as error:
        raise UsageInvalid(
            f"{within!r} is not a name",
            object="--in",
            expected="a catalog, database or schema",
            found=str(error),
            next="put odd parts in backticks",
        ) from error
    return ObjectName(parts[0], parts[1:])


def _require_scope(scope: ObjectName, listing: CatalogListing) -> None:
    depth = len(scope.namespace)
    dropped = (n.drop.object.namespace for n in dropped_namespaces(scope.catalog, listing))
    all_levels = [*listing.namespaces, *dropped]
    if depth and not any(levels[:depth] == scope.namespace for levels in all_levels):
        raise NamespaceNotFound(
            f"there is no {scope.kind} {scope}",
            object=str(scope),
            expected="a database or schema, also a dropped one",
            found="nothing of that name",
            next="`meltline history databases` lists them",
        )


def _tables(
    context: ReadContext, scope: ObjectName, listing: CatalogListing, unread: list[str]
) -> Iterator[Version]:
    policies = context.control.policies.all()
    ids = {(row.table_uuid, row.name): row.uuid for row in context.control.registrations.all()}
    entries = [
        pointer
        for pointer in listing.entries
        if not is_ledger(context, pointer.name)
        and (is_dropped_name(pointer.name.namespace) or scope.covers(pointer.name))
    ]

    def read(pointer: CatalogEntry) -> Version | None:
        state, document = load_document(context.store, pointer.name, pointer.metadata_location)
        state = replace(state, uuid=ids.get((state.table_uuid, state.name), state.uuid))
        recorded_drop = read_drop(scope.catalog, state.properties)
        drop = recorded_drop if is_dropped_name(state.name.namespace) else None
        name = drop.object.table_name if drop else state.name
        if not scope.covers(name) or (drop and not drop.is_restorable(context.clock.now())):
            return None
        retention = retention_of(
            context.config.account, observed_table(context, state, listing), policies
        )
        row = HistoryRow(
            created_on=created_on(state),
            name=name.name,
            database_name=name.namespace[0],
            schema_name=".".join(name.namespace[1:]),
            kind="TRANSIENT" if retention.transient else "TABLE",
            comment=state.properties.get(_COMMENT, ""),
            cluster_by=cluster_by(document),
            rows=total(state, "total-records"),
            bytes=total(state, "total-files-size"),
            owner=state.properties.get(_OWNER, ""),
            retention_time=drop.retention_days if drop else retention.days,
            dropped_on=drop.at if drop else None,
        )
        return Version(row, (state.last_updated, drop.batch) if drop else None)

    def attempt(pointer: CatalogEntry) -> Version | MeltlineError | None:
        try:
            return read(pointer)
        except MeltlineError as error:
            return error

    for pointer, version in zip(entries, load_concurrently(attempt, entries), strict=True):
        if isinstance(version, MeltlineError):
            unread.append(str(pointer.name))
        elif version is not None:
            yield version


def _namespaces(
    context: ReadContext, scope: ObjectName, listing: CatalogListing, kind: ObjectKind
) -> Iterator[Version]:
    policies = context.control.policies.all()
    ledger = (context.config.hot, (context.config.ledger_namespace,))
    for levels, properties in listing.namespaces.items():
        name = ObjectName(scope.catalog, levels)
        is_hidden = is_dropped_name(levels) or (name.catalog, levels) == ledger
        if name.kind is kind and _within(scope, name) and not is_hidden:
            around: Levels = levels_around(context, name, listing)
            remembered_policy = remembered(policies, around, str(name))
            days = effective_retention(context.config.account, around, remembered_policy).days
            yield Version(_namespace_row(name, properties, days, None))
    for dropped in dropped_namespaces(scope.catalog, listing):
        name, drop = dropped.drop.object, dropped.drop
        if name.kind is kind and _within(scope, name) and drop.is_restorable(context.clock.now()):
            row = _namespace_row(name, dropped.properties, drop.retention_days, drop.at)
            yield Version(row, (_LONG_AGO, drop.batch))


def _namespace_row(
    name: ObjectName, properties: Mapping[str, str], days: int | str, dropped_on: datetime | None
) -> HistoryRow:
    below = name.namespace[1:]
    return HistoryRow(
        created_on=None,  # no catalog records it
        name=".".join(below) or name.namespace[0],
        database_name=name.namespace[0],
        schema_name=".".join(below),
        kind=name.kind.upper(),
        comment=properties.get(_COMMENT, ""),
        cluster_by="",
        rows=None,
        bytes=None,
        owner=properties.get(_OWNER, ""),
        retention_time=days,
        dropped_on=dropped_on,
    )


def _within(scope: ObjectName, name: ObjectName) -> bool:
    depth = len(scope.namespace)
    return name.namespace[:depth] == scope.namespace and len(name.namespace) >= depth
