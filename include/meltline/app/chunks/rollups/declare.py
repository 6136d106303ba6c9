"""Declares rollups, and invalidates ranges of them.

The LakeTS functions call it on a user's request. It is apart from `refresh`, which runs call on
schedule.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from meltline.app.catalog.resolve import load_table, require_changeable
from meltline.app.chunks.late_data import dropped_on
from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.replication.declare import LayoutWish, tracked_or_new
from meltline.app.chunks.rollups.refresh import (
    RefreshedRollup,
    change_rollup,
    query_of,
    refresh_rollup,
    rollup_lock,
    rollup_of,
)
from meltline.app.chunks.rollups.rollup_snapshot import RollupLook
from meltline.app.chunks.tracking import chunk_lock
from meltline.app.safety.audit import audit
from meltline.app.services import ReadContext, RunContext
from meltline.domain.chunks.buckets import BucketWidth, without
from meltline.domain.chunks.columns import ColumnKind
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import TimeRange, merged
from meltline.domain.chunks.rollup import (
    ROLLUP_OF,
    TABLE_PREFIX,
    Rollup,
    RollupQuery,
    rollup_exists,
)
from meltline.domain.errors import (
    RollupInvalid,
    RollupNotFound,
)
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.objects import ObjectName
from meltline.domain.units import counted
from meltline.grammar.rollups import rollup_query
from meltline.ports import RollupReader

_NAME = re.compile(r"[A-Za-z_]\w{0,99}")
_TIMED = (ColumnKind.DATE, ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMPTZ)


@dataclass(frozen=True)
class RollupWish:
    """A rollup, as a user declares it.

    Attributes:
        width: How long its buckets are; empty if only the query defines it.
        source: The table that it aggregates, as the user names it; None if the query defines it.
        depends_on: Rollups to be refreshed before it; the one that it reads is always among them.
    """

    name: str
    query: str
    width: str = ""
    source: TableName | None = None
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreatedRollup:
    """A declared rollup, the result of its first refresh, and its risks."""

    rollup: Rollup
    refreshed: RefreshedRollup
    notices: Sequence[str]


def create_rollup(
    context: RunContext, wish: RollupWish, resolve: Callable[[tuple[str, ...]], TableName]
) -> CreatedRollup:
    """Declares a rollup and aggregates all rows of hot.

    Args:
        context: The ports.
        wish: The user's declaration.
        resolve: Completes a table's name as the session does.

    Raises:
        RollupInvalid: It cannot be refreshed by parts, contradicts itself, or Spark refuses it.
        RollupNotFound: A rollup that it depends on does not exist.
        NameConflict: Its name is taken, or another table has the name of its table.
        NotChunked: Its source cannot be split into chunks by time.
        CatalogReadOnly: The source is not in a catalog that Meltline may change.
    """
    _require_name(wish.name)
    rollups = context.control.rollups.all()
    query = rollup_query(wish.query)
    below, source = _source(rollups, query, resolve)
    _require_same_source(wish, below, source)
    hot = HotTable.load(context, source)
    require_changeable(context, ObjectName(source.catalog, source.namespace, source.name))
    with chunk_lock(context, hot.state.uuid):
        layout = tracked_or_new(context, hot, LayoutWish()).layout
    _require_fits(wish, query, layout)
    depends_on = _dependencies(rollups, wish, below)
    rollup = _declared(wish, query, hot, depends_on, context.clock.now(), context.who)
    with rollup_lock(context, wish.name):
        stored = _made(context, rollup, query_of(rollups, rollup))
    audit(context, "create rollup", wish.name, detail=f"of {source}, by {query.width}")
    refreshed = refresh_rollup(context, wish.name)
    return CreatedRollup(stored, refreshed, _notices(context, hot, stored))


def _declared(
    wish: RollupWish,
    query: RollupQuery,
    hot: HotTable,
    depends_on: tuple[str, ...],
    at: datetime,
    who: str,
) -> Rollup:
    """Builds the rollup without an id and a table yet."""
    source = hot.state.name
    return Rollup(
        id=0,
        name=wish.name,
        table=replace(source, name=f"{TABLE_PREFIX}{wish.name}"),
        table_uuid="",
        source=source,
        source_uuid=hot.state.uuid,
        query=wish.query,
        width=str(query.width),
        bucket_column=query.bucket_column,
        depends_on=depends_on,
        created_at=at,
        who=who,
    )


def _made(context: RunContext, rollup: Rollup, query: RollupQuery) -> Rollup:
    """Creates the rollup's table and stores the rollup."""
    engine = context.rollups
    assert engine is not None  # only a process with an engine declares
    _require_free(context.control.rollups, rollup.name)
    engine.create(
        rollup.table,
        query,
        rollup.source,
        query.width.partition,
        {ROLLUP_OF: rollup.source_uuid},
    )
    own = replace(rollup, table_uuid=load_table(context, rollup.table).uuid)
    return context.control.rollups.add(own)


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise RollupInvalid(
            f"{name!r} cannot be the name of a rollup",
            object=name,
            expected="letters, digits and underscores, of which the first is no digit",
            found=name,
            next="choose another name",
        )


def _require_free(rollups: RollupReader, name: str) -> None:
    """Requires a free name before anything is created, as another schema may have its table.

    The caller holds the rollup's lock.
    """
    if any(rollup.name == name for rollup in rollups.all()):
        raise rollup_exists(name)


def _source(
    rollups: Sequence[Rollup],
    query: RollupQuery,
    resolve: Callable[[tuple[str, ...]], TableName],
) -> tuple[Rollup | None, TableName]:
    """Resolves a query's source: a rollup, by the name of its table alone, else any table."""
    for rollup in rollups:
        if query.source[-1] == rollup.table.name and query.source[:-1] in ((), ("public",)):
            return rollup, rollup.table
    name = resolve(query.source)
    return next((rollup for rollup in rollups if rollup.table == name), None), name


def _require_same_source(wish: RollupWish, below: Rollup | None, source: TableName) -> None:
    """For a rollup over a rollup, accepts as source the table at the bottom, as LakeTS does."""
    if below is None and wish.source not in (None, source):
        raise RollupInvalid(
            f"rollup {wish.name} names another source than its query reads",
            object=wish.name,
            expected=str(source),
            found=str(wish.source),
            next="name the table that the query reads, or leave it out",
        )


def _require_fits(wish: RollupWish, query: RollupQuery, layout: ChunkLayout) -> None:
    column = layout.column
    if query.time_column.lower() != column.name.lower() or column.kind not in _TIMED:
        raise RollupInvalid(
            f"rollup {wish.name} has its buckets by another column than its source has its chunks",
            object=wish.name,
            expected=f"buckets of {column.name}, a date or a timestamp",
            found=f"buckets of {query.time_column}; {column.name} is of type {column.type}",
            next="put the column into time_bucket by which the table is cut into chunks",
        )
    try:
        width = BucketWidth.parse(wish.width) if wish.width else query.width
    except ValueError as error:
        raise _contradiction(wish, query, str(error)) from error
    if width != query.width:
        raise _contradiction(wish, query, str(width))


def _contradiction(wish: RollupWish, query: RollupQuery, actual: str) -> RollupInvalid:
    return RollupInvalid(
        f"rollup {wish.name} has buckets of another width than its query",
        object=wish.name,
        expected=f"{query.width}, as the query says",
        found=actual,
        next="say the same width twice, or leave it out",
    )


def _dependencies(
    rollups: Sequence[Rollup], wish: RollupWish, below: Rollup | None
) -> tuple[str, ...]:
    names = {rollup.name for rollup in rollups}
    if missing := sorted(set(wish.depends_on) - names):
        raise RollupNotFound(
            f"rollup {wish.name} depends on one that there is not",
            object=wish.name,
            expected=", ".join(sorted(names)) or "a rollup; there is none",
            found=", ".join(missing),
            next="declare what it depends on first",
        )
    return tuple(sorted({*wish.depends_on, *([below.name] if below else [])}))


def _notices(context: ReadContext, hot: HotTable, rollup: Rollup) -> list[str]:
    notices = []
    if dropped := dropped_on(context, hot.state):
        chunks = counted(len(dropped[1]), "chunk")
        notices.append(
            f"{chunks} of {hot.state.name} were dropped before: their buckets are not in it"
        )
    drops = [p.drop_after for p in context.control.chunk_policies.all([hot.state.uuid])]
    length = rollup.buckets.after(rollup.created_at) - rollup.created_at
    for horizon in drops:
        if horizon and horizon.rough < length:
            notices.append(
                f"a bucket is longer than drop after {horizon}: chunks wait until theirs is over"
            )
    return notices


def invalidate(context: ReadContext, name: str, start: datetime, end: datetime) -> int:
    """Marks a range's buckets to be aggregated again by the next refresh; frozen ones stay.

    Returns:
        How many buckets were marked.

    Raises:
        RollupNotFound: No rollup has this name.
        RollupInvalid: The range is empty.
        CommitConflict: Others have changed the rollup each time.
    """
    rollups = context.control.rollups
    rollup = rollup_of(rollups, name)
    width = rollup.buckets
    buckets = width.whole([_range(name, start, end)])
    open_ranges = without(buckets, RollupLook.take(context, rollup).stale.frozen)

    def change(now: Rollup) -> Rollup:
        return replace(now, invalidated=tuple(merged((*now.invalidated, *open_ranges))))

    change_rollup(rollups, name, change)
    audit(context, "invalidate rollup", name, detail=f"{start} to {end}")
    return width.count(open_ranges)


def _range(name: str, start: datetime, end: datetime) -> TimeRange:
    if start < end:
        return TimeRange(start, end)
    raise RollupInvalid(
        f"there are no buckets of {name} in that range",
        object=name,
        expected="a begin, and an end after it",
        found=f"{start} to {end}",
        next="say it again",
    )
