"""Statements about clones and shares (TT-33 to TT-38, ML-20, ML-22, DS-13, DS-14)."""

from meltline.app.catalog.new_names import is_there
from meltline.app.catalog.resolve import catalog_of
from meltline.app.clone.replace import clone_over
from meltline.app.clone.shares import Shared, create_share, drop_share, update_share
from meltline.app.services import ReadContext
from meltline.app.sql.naming import container_name, full_name
from meltline.app.sql.statement_results import Outcome, status
from meltline.domain.iceberg.names import quote_part
from meltline.domain.iceberg.objects import ObjectName
from meltline.grammar.statements import CloneObject, CreateShare, DropShare, UpdateShare


def make_clone(context: ReadContext, standing: ObjectName, statement: CloneObject) -> Outcome:
    """CREATE … CLONE, and CREATE DATABASE … FROM. Tables that are left out are listed (TT-37).

    Raises:
        UsageInvalid: A name is not complete.
        MeltlineError: Whatever `clone_over` raises.
    """
    source = full_name(context, standing, statement.kind, statement.source)
    target = full_name(context, standing, statement.kind, statement.target)
    if statement.if_not_exists and is_there(target, catalog_of(context, target.catalog).listing()):
        return status(f"there is a {target.kind} {target} already")
    done, dropped = clone_over(
        context,
        str(source),
        str(target),
        source.kind,
        replaces=statement.replaces,
        point=statement.point.at(context.clock.now()) if statement.point else None,
        ignore_insufficient=statement.ignore_insufficient,
    )
    return status(
        f"{done.target} is a clone of {done.source}, with {len(done.created)} tables",
        *([f"what was {target} is dropped. {dropped.ways_back('UNDROP')}"] if dropped else ()),
        *(f"left out: {skipped.table}: {skipped.reason}" for skipped in done.skipped),
    )


def make_share(context: ReadContext, standing: ObjectName, statement: CreateShare) -> Outcome:
    """CREATE SHARE … FROM a database, or a schema or table by its name below the catalog.

    Raises:
        MeltlineError: Whatever `create_share` raises.
    """
    source = container_name(context, standing, statement.source)
    text = ".".join(map(quote_part, (source.catalog, *source.namespace)))
    done = create_share(context, statement.name, text)
    return status(f"{done.share.source} is shared as {done.share.place}{_count(done)}")


def renew_share(context: ReadContext, standing: ObjectName, statement: UpdateShare) -> Outcome:
    """UPDATE SHARE: says what somebody had written to it, which is undone, and what has left.

    Raises:
        MeltlineError: Whatever `update_share` raises.
    """
    done = update_share(context, _place(standing, statement.name))
    return status(
        f"{done.share.place} shows {done.share.source} as it is now{_count(done)}",
        *(f"writes undone: {table.table}" for table in done.tables if table.written),
        *(f"taken out: {table}" for table in done.removed),
        *(f"not of the share, left alone: {table}" for table in done.foreign),
    )


def end_share(context: ReadContext, standing: ObjectName, statement: DropShare) -> Outcome:
    """DROP SHARE.

    Raises:
        MeltlineError: Whatever `drop_share` raises.
    """
    done = drop_share(context, _place(standing, statement.name))
    return status(f"{done.share.place} is dropped{_count(done)}; it cannot be brought back")


def _place(standing: ObjectName, name: str) -> str:
    """A share is looked for in the current catalog; with it, a dot in quotes stays in the name."""
    return str(ObjectName(standing.catalog, (name,)))


def _count(done: Shared) -> str:
    return f", with {len(done.tables)} tables"
