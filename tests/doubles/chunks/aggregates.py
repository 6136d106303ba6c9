"""Aggregations over rows in memory: the few that rollups of tests are made of."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

from meltline.domain.chunks.buckets import BucketWidth
from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.ranges import EPOCH
from meltline.domain.chunks.rollup import RollupQuery

Values = Mapping[str, Any]
"""A row's values by the names of its columns; those that are null are left out."""
_OF_MICROS = TimeColumn("", 0, ColumnKind.TIMESTAMPTZ)
_OF_MANY: Mapping[type[exp.Expr], Callable[[Sequence[Any]], Any]] = {
    exp.Sum: sum,
    exp.Min: min,
    exp.Max: max,
    exp.Avg: lambda values: sum(values) / len(values),
}


def aggregated(query: RollupQuery, rows: Sequence[Values]) -> list[Values]:
    """What a query makes of some rows, all of which have a time."""
    select = _select(query)
    if select.args.get("where") or select.args.get("having"):
        raise ValueError("rollups in memory have no filters")
    columns = {p.alias_or_name: p.unalias() for p in select.expressions}
    keys = {name: of for name, of in columns.items() if isinstance(of, exp.Column)}
    groups: dict[tuple[Any, ...], list[Values]] = {}
    for row in rows:
        start = _bucket_micros(query.width, row[query.time_column])
        key = (start, *(row.get(column.name) for column in keys.values()))
        groups.setdefault(key, []).append(row)
    answers: list[Values] = []
    for key, of_group in groups.items():
        answer = dict(zip((query.bucket_column, *keys), key, strict=True))
        for name in columns.keys() - answer.keys():
            answer[name] = _value(columns[name], of_group)
        answers.append({name: cell for name, cell in answer.items() if cell is not None})
    return answers


def column_types(query: RollupQuery, of_source: Mapping[str, str]) -> dict[str, str]:
    """The columns of a query's answer, in order, with their types.

    Raises:
        KeyError: It reads a column that its source has not.
    """
    types = {}
    for projection in _select(query).expressions:
        name, of = projection.alias_or_name, projection.unalias()
        for column in of.find_all(exp.Column):
            of_source[column.name]
        is_fraction = isinstance(of, exp.Avg | exp.SafeDivide)
        types[name] = "double" if is_fraction else "long"
        if isinstance(of, exp.Column):
            types[name] = of_source[of.name]
    return types | {query.bucket_column: "timestamptz"}


def _select(query: RollupQuery) -> exp.Select:
    select = sqlglot.parse_one(query.sql, read="spark")
    assert isinstance(select, exp.Select)  # a query that was read is one
    return select


def _bucket_micros(width: BucketWidth, micros: int) -> int:
    moment = _OF_MICROS.instant(micros)
    if moment is None:
        raise ValueError(f"{micros} is no time of the calendar")
    since = width.floor(moment) - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000


def _value(of: exp.Expr, rows: Sequence[Values]) -> Any:
    if isinstance(of, exp.SafeDivide):
        total, count = _value(of.this, rows), _value(of.expression, rows)
        return None if not count or total is None else total / count
    if isinstance(of, exp.Count) and isinstance(of.this, exp.Star):
        return len(rows)
    if not isinstance(of.this, exp.Column):
        raise ValueError(f"rollups in memory have no {of.sql()}")
    values = [row[of.this.name] for row in rows if row.get(of.this.name) is not None]
    if isinstance(of, exp.Count):
        return len(values)
    if type(of) not in _OF_MANY:
        raise ValueError(f"rollups in memory have no {of.sql()}")
    return _OF_MANY[type(of)](values) if values else None
