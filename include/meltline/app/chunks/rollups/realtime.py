"""Realtime view of a rollup: its table plus later rows, aggregated when they are read.

`create_rollup_view` of LakeTS calls it. Stale buckets before the watermark show the values of the
last refresh.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from meltline.app.chunks.rollups.refresh import change_rollup, query_of
from meltline.domain.chunks.rollup import TABLE_PREFIX, Rollup, RollupQuery
from meltline.domain.errors import RollupInvalid
from meltline.domain.iceberg.names import TableName, quoted
from meltline.grammar.rollups import SOURCE_VIEW
from meltline.ports import RollupLedger

VIEW_PREFIX = f"{TABLE_PREFIX}rt_"
WATERMARK = "_rollup_watermark"
"""The name by which a query calls the end of the newest bucket."""


def realtime_view(rollup: Rollup) -> TableName:
    """Names the view."""
    return replace(rollup.table, name=f"{VIEW_PREFIX}{rollup.name}")


def realtime_text(
    rollups: Sequence[Rollup], rollup: Rollup, raw_query: str, spoken: Callable[[TableName], str]
) -> str:
    """Builds the statement that creates the view.

    Args:
        rollups: All rollups.
        rollup: The rollup of the view.
        raw_query: The query that aggregates later rows, in the source's dialect.
        spoken: A table as Spark calls it.

    Raises:
        RollupInvalid: The query has other columns than the rollup, reads another table, or does not
            exclude the rollup's rows.
    """
    mark = f"lakets.{WATERMARK}('{rollup.name}')"
    query, own = (query_of(rollups, replace(rollup, query=q)) for q in (raw_query, rollup.query))
    if mark not in query.sql or _shape(query) != _shape(own):
        raise RollupInvalid(
            f"the query cannot go on where rollup {rollup.name} ends",
            object=rollup.name,
            expected=f"the rollup's own query over {'.'.join(own.source)}, its columns in the same "
            f"order, with a condition {own.time_column} > {mark}",
            found=" ".join(raw_query.split())[:200],
            next="write it like this",
        )
    table = spoken(rollup.table)
    # Last microsecond of the newest bucket; later rows are in no bucket yet.
    end = f"max({quoted(rollup.bucket_column)}) + INTERVAL {_interval(rollup)}"
    newest = f"(SELECT {end} - INTERVAL '0.000001' SECOND FROM {table})"
    later = query.sql.replace(mark, newest).replace(SOURCE_VIEW, spoken(rollup.source))
    view = spoken(realtime_view(rollup))
    return f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {table} UNION ALL {later}"


def _shape(query: RollupQuery) -> tuple[object, ...]:
    """Properties that both sides must share: the view matches columns by position."""
    return query.source[-1], query.width, [name.lower() for name in query.columns]


def note_view(rollups: RollupLedger, name: str) -> None:
    """Records that the view exists."""
    change_rollup(
        rollups, name, lambda rollup: replace(rollup, realtime_view=str(realtime_view(rollup)))
    )


def _interval(rollup: Rollup) -> str:
    width = rollup.buckets
    if width.months:
        return f"'{width.months}' MONTH"
    return f"'{round(width.span.total_seconds())}' SECOND"
