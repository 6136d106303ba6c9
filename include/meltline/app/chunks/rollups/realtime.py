"""A view of a rollup with what came after its newest bucket, aggregated when it is read.

Dirty buckets before it show what the last refresh made of them.
"""

from collections.abc import Callable
from dataclasses import replace

from meltline.app.chunks.rollups.refresh import query_of, rollup_of
from meltline.app.services import ReadContext
from meltline.domain.chunks.rollup import TABLE_PREFIX, Rollup
from meltline.domain.errors import RollupInvalid
from meltline.domain.iceberg.names import TableName, quoted
from meltline.grammar.rollups import SOURCE_VIEW, rollup_query

VIEW_PREFIX = f"{TABLE_PREFIX}rt_"
WATERMARK = "_rollup_watermark"
"""What a query calls the end of the newest bucket."""


def realtime_view(rollup: Rollup) -> TableName:
    """The view's name."""
    return replace(rollup.table, name=f"{VIEW_PREFIX}{rollup.name}")


def realtime_text(
    context: ReadContext, name: str, raw_query: str, spoken: Callable[[TableName], str]
) -> str:
    """The statement that makes the view.

    Args:
        context: Where the rollup is.
        name: The rollup's.
        raw_query: What aggregates the rest, as the source writes it.
        spoken: A table as Spark calls it.

    Raises:
        RollupNotFound: There is no such rollup.
        RollupInvalid: The query has other columns than the rollup, reads something else, or does
            not leave out what the rollup has.
    """
    rollup = rollup_of(context, name)
    known = context.control.rollups.all()
    mark = f"lakets.{WATERMARK}('{rollup.name}')"
    query = query_of(known, replace(rollup, query=raw_query))
    own = rollup_query(rollup.query)
    if mark not in query.sql or query.source[-1] != own.source[-1] or query.width != own.width:
        raise RollupInvalid(
            f"the query cannot go on where rollup {name} ends",
            object=name,
            expected=f"the rollup's own query over {'.'.join(own.source)}, with a condition "
            f"{own.time_column} > lakets._rollup_watermark('{name}')",
            found=" ".join(raw_query.split())[:200],
            next="write it like this",
        )
    table = spoken(rollup.table)
    # The last microsecond of the newest bucket: what is later is in no bucket yet.
    end = f"max({quoted(rollup.bucket_column)}) + INTERVAL {_interval(rollup)}"
    newest = f"(SELECT {end} - INTERVAL '0.000001' SECOND FROM {table})"
    rest = query.sql.replace(mark, newest).replace(SOURCE_VIEW, spoken(rollup.source))
    view = spoken(realtime_view(rollup))
    return f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {table} UNION ALL {rest}"


def note_view(context: ReadContext, name: str) -> None:
    """Remembers that the view is there."""
    rollup = rollup_of(context, name)
    context.control.rollups.save(rollup, replace(rollup, realtime_view=str(realtime_view(rollup))))


def _interval(rollup: Rollup) -> str:
    width = rollup.buckets
    if width.months:
        return f"'{width.months}' MONTH"
    return f"'{round(width.span.total_seconds())}' SECOND"
