"""Parses the aggregation of a rollup, and translates it to Spark's dialect.

`app/chunks/rollups` calls it for declarations and refreshes. Only listed functions are allowed: any
other may give another result each time, or run code.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from meltline.domain.chunks.buckets import BucketWidth
from meltline.domain.chunks.rollup import PARTS, RollupQuery
from meltline.domain.errors import RollupInvalid

_PARTS = frozenset({"expressions", "from", "from_", "where", "group", "having", "order"})
_OF_TABLE = frozenset({"this", "db", "catalog", "alias"})
_OF_GROUPS = """
    count count_if sum avg mean min max min_by max_by first last first_value last_value stddev
    stddev_pop stddev_samp variance var_pop var_samp variance_pop corr covar_pop covar_samp
    skewness kurtosis median percentile percentile_cont approx_count_distinct bool_and bool_or
    logical_and logical_or bit_and bit_or bit_xor arg_min arg_max approx_distinct quantile
    bitwise_and_agg bitwise_or_agg bitwise_xor_agg
"""
AGGREGATES = frozenset(_OF_GROUPS.split())
"""Aggregates with the same result for the same rows, in whatever order."""
_OF_VALUES = """
    and or not xor case if cast try_cast coalesce nullif ifnull nvl nvl2 greatest least abs ceil
    ceiling floor round bround sign sqrt cbrt exp ln log log2 log10 power pow mod pmod degrees
    radians sin cos tan asin acos atan atan2 try_divide try_add try_subtract try_multiply
    safe_divide int_div isnull isnotnull isnan is_nan is_inf nanvl width_bucket lower upper
    initcap trim ltrim rtrim btrim length char_length character_length bit_length substring
    substr left right replace translate concat concat_ws lpad rpad pad repeat reverse split_part
    strpos position locate instr str_position starts_with startswith ends_with endswith contains
    like ilike rlike regexp regexp_like regexp_ilike regexp_replace regexp_extract ascii hex md5
    sha sha1 sha2 crc32 hash xxhash64 extract date_part year quarter month week weekofyear
    week_of_year day dayofmonth day_of_month dayofweek day_of_week dayofyear day_of_year hour
    minute second date_trunc timestamp_trunc trunc date_bin time_bucket date to_date
    to_timestamp str_to_time str_to_date ts_or_ds_to_date ts_or_ds_to_timestamp date_add
    date_sub dateadd datediff date_diff add_months months_between last_day make_date
    make_timestamp date_from_parts from_unixtime unix_to_time unix_seconds unix_millis
    unix_micros timestamp_seconds timestamp_millis timestamp_micros date_format time_to_str
    interval between in element_at size cardinality array_size get_json_object json_extract
    json_extract_scalar jsonb_extract jsonb_extract_scalar _rollup_watermark
"""
SCALARS = frozenset(_OF_VALUES.split())
"""Functions and operators whose value depends only on their arguments."""
_LAKETS = "lakets"
_NOW_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp", "str_to_unix", "time_to_unix"})
_BY_ORDER_WITHOUT_A_TIME = frozenset({"first", "last", "first_value", "last_value"})
_NOW_AS_TEXT = re.compile(
    r"\s*(?:epoch|now|today|tomorrow|yesterday)(?:\s.*)?", re.IGNORECASE | re.DOTALL
)
_VARIABLES = (exp.Parameter, exp.SessionParameter, exp.Placeholder, exp.Lambda)


def function_name(node: exp.Expr) -> str:
    """Returns a function's name in lower case; empty for other nodes."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def odd_part(select: exp.Select) -> str:
    """Finds a part of a SELECT other than one table, a filter and groups; empty without one.

    Only known parts are allowed: an unknown one would be missing from the translation.
    """
    surplus = [name for name, part in select.args.items() if part and name not in _PARTS]
    origin = select.args.get("from_") or select.args.get("from")
    table = origin.this if origin is not None else None
    if isinstance(table, exp.Table):
        surplus += [name for name, part in table.args.items() if part and name not in _OF_TABLE]
        alias = table.args.get("alias")
        surplus += ["columns"] if alias is not None and alias.columns else []
    return surplus[0].strip("_").upper() if surplus else ""


def unstable_part(select: exp.Select) -> str:
    """Finds a part whose value depends on more than the rows of the table; empty without one."""
    for node in select.walk():
        is_other_query = isinstance(node, exp.Query) and node is not select
        if isinstance(node, exp.Window) or (is_other_query and not isinstance(node, exp.Table)):
            return node.sql()
        if _depends_on_more(node):
            return node.sql()
    return ""


def _depends_on_more(node: exp.Expr) -> bool:
    """Whether a node is a variable, the current time, or a function that is not allowed."""
    if isinstance(node, _VARIABLES):
        return True
    if isinstance(node, exp.Literal):
        return node.is_string and bool(_NOW_AS_TEXT.fullmatch(node.name))
    if isinstance(node, exp.Dot):
        return isinstance(node.expression, exp.Func) and node.this.name.lower() != _LAKETS
    names = _names(node)
    if names & _NOW_WITHOUT_ARGUMENTS:
        return not _arguments(node)
    if names & _BY_ORDER_WITHOUT_A_TIME:
        return len(_arguments(node)) < 2
    return bool(names) and not names & (AGGREGATES | SCALARS)


def _names(node: exp.Expr) -> set[str]:
    """Returns all names of a function, in lower case; none for other nodes."""
    if isinstance(node, exp.Anonymous):
        return {node.name.lower()}
    return {name.lower() for name in node.sql_names()} if isinstance(node, exp.Func) else set()


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    return [argument for argument in node.iter_expressions() if isinstance(argument, exp.Expr)]


SOURCE_VIEW = "meltline_rollup_source"
"""Name of the view from which the Spark query reads."""
_ORIGIN_MICROS = 946_684_800_000_000  # 2000-01-01, the origin of buckets
_ORIGIN_MONTHS = 24_000
_BUCKETS = ("time_bucket", "date_bin")
_BY_TIME = {"first": "MIN_BY", "last": "MAX_BY"}
_ORIGIN_TEXT = re.compile(r"2000-01-01([ T]00:00(:00)?)?(Z|\+00(:00)?)?")
_WIDE = exp.DataType.build("DECIMAL(38, 10)", dialect="spark")


def rollup_query(text: str, averages: Collection[str] = ()) -> RollupQuery:
    """Parses an aggregation in the dialect of Postgres, else of Spark.

    Args:
        text: The query.
        averages: Columns of its source that are averages with parts. An average over one of them
            uses the parts, since a mean of means weighs an hour of one row like one of many.

    Raises:
        RollupInvalid: It cannot be parsed; or it is not a single table grouped by one bucket and
            columns, with the same result whenever it is run.
    """
    select = _select(text)
    source = _source(select, text)
    bucket = _bucket(select, text)
    width, time_column = _width(bucket, text)
    bucket_column = _name_of(select, bucket, text)
    _group(select, bucket, text)
    if part := unstable_part(select):
        _refuse(text, "the same result of the same rows, whenever it is run", part)
    own_averages = _with_parts(select, _all_named(select, text))
    _for_spark(select, bucket, width, time_column)
    _by_parts(select, averages)
    select.set("order", None)
    select.set("from_" if "from_" in select.args else "from", exp.From(this=_view(select)))
    return RollupQuery(
        text=text,
        sql=select.sql(dialect="spark"),
        source=source,
        bucket_column=bucket_column,
        time_column=time_column,
        width=width,
        columns=tuple(projection.alias_or_name for projection in select.expressions),
        averages=own_averages,
    )


def _select(text: str) -> exp.Select:
    statements: list[Any] = []
    for dialect in ("postgres", "spark"):
        try:
            statements = [s for s in sqlglot.parse(text, read=dialect) if s is not None]
            break
        except SqlglotError as error:
            reason = " ".join(str(error).split())[:200]
    else:
        _refuse(text, "a SELECT in the words of Postgres or Spark", reason)
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        _refuse(text, "one SELECT", f"{len(statements)} statements or another one")
    select = statements[0]
    if part := odd_part(select):
        _refuse(text, "one table, filtered and grouped", f"{part} in it")
    return select


def _from(select: exp.Select) -> Any:
    return select.args.get("from_") or select.args.get("from")


def _source(select: exp.Select, text: str) -> tuple[str, ...]:
    origin = _from(select)
    table = origin.this if origin is not None else None
    if not isinstance(table, exp.Table) or not table.name:
        _refuse(text, "FROM one table, by its name", "something else")
    return tuple(part.name for part in table.parts)


def _view(select: exp.Select) -> exp.Table:
    """Replaces the source by the view, under the name that may qualify its columns."""
    table = _from(select).this
    return exp.Table(
        this=exp.to_identifier(SOURCE_VIEW),
        alias=exp.TableAlias(this=exp.to_identifier(table.alias_or_name)),
    )


def _bucket(select: exp.Select, text: str) -> exp.Expr:
    buckets = [
        projection.unalias()
        for projection in select.expressions
        if _is_bucket(projection.unalias())
    ]
    if len(buckets) != 1:
        _refuse(text, "one column that is lakets.time_bucket('1 hour', TIME)", f"{len(buckets)}")
    bucket: exp.Expr = buckets[0]
    return bucket


def _is_bucket(expression: exp.Expr) -> bool:
    if isinstance(expression, exp.Dot):
        return _is_bucket(expression.expression)
    if isinstance(expression, exp.TimestampTrunc | exp.DateTrunc | exp.DateBin):
        return True
    return function_name(expression) in _BUCKETS


def _width(bucket: exp.Expr, text: str) -> tuple[BucketWidth, str]:
    call = bucket.expression if isinstance(bucket, exp.Dot) else bucket
    if isinstance(call, exp.TimestampTrunc | exp.DateTrunc):
        length, column = call.args["unit"].name, call.this
        if call.args.get("zone") or length.lower().startswith("week"):
            expected = "date_trunc in UTC; of weeks time_bucket('7 days', TIME), from 2000-01-01 on"
            _refuse(text, expected, call.sql())
    else:
        # sqlglot has no origin of buckets, and stores it under another name
        arguments = call.expressions or [a for a in call.args.values() if isinstance(a, exp.Expr)]
        if not 2 <= len(arguments) <= 3 or not all(map(_is_origin, arguments[2:])):
            _refuse(text, "time_bucket(WIDTH, TIME): buckets are counted from 2000", call.sql())
        length, column = _interval_text(arguments[0]), arguments[1]
    column = _uncast(column, exp.DataType.TEMPORAL_TYPES - {exp.DataType.Type.DATE})
    if not isinstance(column, exp.Column):
        _refuse(text, "a bucket of a column of times", column.sql())
    try:
        return BucketWidth.parse(length), column.name
    except ValueError as error:
        _refuse(text, "a width such as 1 hour", str(error))


def _is_origin(expression: exp.Expr) -> bool:
    return bool(_ORIGIN_TEXT.fullmatch(_uncast(expression).name))


def _interval_text(expression: exp.Expr) -> str:
    """Accepts `'1 hour'`, `'1 hour'::interval` and `INTERVAL '1 hour'`; empty for other nodes."""
    expression = _uncast(expression)
    unit = ""
    if isinstance(expression, exp.Interval):
        unit, expression = expression.text("unit"), expression.this
    return f"{expression.name} {unit}" if isinstance(expression, exp.Literal) else ""


def _uncast(expression: exp.Expr, types: Collection[Any] | None = None) -> exp.Expr:
    """Removes casts, all of them or only those to some types."""
    while isinstance(expression, exp.Cast | exp.Paren):
        if (
            types is not None
            and isinstance(expression, exp.Cast)
            and expression.to.this not in types
        ):
            break
        expression = expression.this
    return expression


def _name_of(select: exp.Select, bucket: exp.Expr, text: str) -> str:
    for projection in select.expressions:
        if projection.unalias() is bucket:
            if isinstance(projection, exp.Alias):
                return projection.alias
            _refuse(text, "a name for the bucket: time_bucket(…) AS bucket", "none")
    raise AssertionError("the bucket is one of the columns")


def _group(select: exp.Select, bucket: exp.Expr, text: str) -> None:
    """Requires each column to be an aggregate or grouped by, with the bucket among the latter.

    Keys are written out: a source may have a column with the bucket's name.
    """
    group = select.args.get("group")
    if group is None or any(part for name, part in group.args.items() if name != "expressions"):
        _refuse(text, "GROUP BY the bucket and columns", "another one, or none")
    keys = [_spelled_out(select, key) for key in group.expressions]
    if bucket not in keys or any(map(_aggregates, keys)):
        _refuse(text, "GROUP BY with the bucket among its columns, and no aggregate", group.sql())
    for projection in select.expressions:
        if projection.unalias() not in keys and not _aggregates(projection):
            _refuse(text, "columns that are aggregates or grouped by", projection.sql())
    group.set("expressions", [key.copy() for key in keys])


def _spelled_out(select: exp.Select, key: exp.Expr) -> exp.Expr:
    """Resolves a key of GROUP BY: an ordinal, a name, or the key itself."""
    columns: list[exp.Expr] = select.expressions
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(columns):
        return columns[int(key.name) - 1].unalias()
    if isinstance(key, exp.Column) and not key.table:
        name = key.name.lower()
        named = (p for p in columns if isinstance(p, exp.Alias) and p.alias.lower() == name)
        return next((p.unalias() for p in named), key)
    return key


def _aggregates(expression: exp.Expr) -> bool:
    return any(
        isinstance(node, exp.AggFunc) or function_name(node) in _BY_TIME
        for node in expression.walk()
    )


def _all_named(select: exp.Select, text: str) -> list[str]:
    names = [
        projection.alias_or_name if isinstance(projection, exp.Alias | exp.Column) else ""
        for projection in select.expressions
    ]
    if not all(names) or len({name.lower() for name in names}) != len(names):
        _refuse(text, "a name of its own for each column: count(*) AS samples", ", ".join(names))
    if reserved := [name for name in names if name.lower().endswith(PARTS)]:
        _refuse(text, f"names that do not end in {' or '.join(PARTS)}", ", ".join(reserved))
    return names


def _with_parts(select: exp.Select, names: Sequence[str]) -> tuple[str, ...]:
    """Adds an average's parts as columns, so that rollups over this one can average by them."""
    averages = []
    for name, projection in zip(names, list(select.expressions), strict=True):
        average = _average(projection.unalias())
        if average is None or isinstance(average.this, exp.Distinct):
            continue
        averages.append(name)
        for suffix, part in zip(PARTS, (exp.Sum, exp.Count), strict=True):
            of = _filtered_as(average, part(this=average.this.copy()))
            select.append("expressions", exp.alias_(of, f"{name}{suffix}"))
    return tuple(averages)


def _average(expression: exp.Expr) -> exp.Avg | None:
    """Returns the average of a column, rounding and casts removed; None for other expressions."""
    while isinstance(expression, exp.Round | exp.Cast | exp.Paren | exp.Filter):
        expression = expression.this
    return expression if isinstance(expression, exp.Avg) else None


def _filtered_as(aggregate: exp.Expr, part: exp.Expr) -> exp.Expr:
    """Applies an aggregate's filter to another one."""
    around = aggregate.parent
    if not isinstance(around, exp.Filter):
        return part
    return exp.Filter(this=part, expression=around.expression.copy())


# --- Spark's dialect -----------------------------------------------------------------------------


def _for_spark(select: exp.Select, bucket: exp.Expr, width: BucketWidth, time_column: str) -> None:
    for node in list(_nodes(select)):
        target = node.expression if isinstance(node, exp.Dot) else node
        if node == bucket:
            node.replace(_bucket_expression(width, time_column))
        elif name := _BY_TIME.get(function_name(target)):
            of = list(target.expressions) or [target.this, target.expression]
            node.replace(exp.Anonymous(this=name, expressions=of))
        elif isinstance(node, exp.Cast) and _is_unbounded_decimal(node.to):
            node.set("to", _WIDE.copy())
        elif isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileCont):
            column = node.expression.expressions[0].this  # Spark's other name for it is exact, too
            node.replace(exp.Anonymous(this="PERCENTILE", expressions=[column, node.this.this]))


def _by_parts(select: exp.Select, averages: Collection[str]) -> None:
    """Replaces averages over averages by their parts; likewise parts of such an average."""
    averaged = {name.lower() for name in averages}
    for node in list(select.find_all(exp.Avg, exp.Sum, exp.Count)):
        column = node.this
        if not isinstance(column, exp.Column) or column.name.lower() not in averaged:
            continue
        sums = (exp.Sum(this=exp.column(f"{column.name}{part}")) for part in PARTS)
        total, count = (_filtered_as(node, part) for part in sums)
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        if isinstance(node, exp.Avg):
            whole.replace(exp.Anonymous(this="TRY_DIVIDE", expressions=[total, count]))
        elif isinstance(whole.parent, exp.Alias) and whole.parent.alias.endswith(PARTS):
            # Added by `_with_parts`, not by the user.
            whole.replace(total if isinstance(node, exp.Sum) else count)


def _nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Yields all nodes except those within a qualified call such as `lakets.first(…)`."""
    yield from select.walk(prune=lambda node: isinstance(node, exp.Dot))


def _is_unbounded_decimal(type: exp.DataType) -> bool:
    """Whether it is `numeric` without a scale: Postgres keeps all digits, Spark none."""
    return type.is_type(exp.DataType.Type.DECIMAL) and not type.expressions


def _bucket_expression(width: BucketWidth, time_column: str) -> exp.Expr:
    """Builds the start of a value's bucket, as a timestamp in UTC, the session's time zone."""
    column = exp.column(time_column, quoted=True).sql(dialect="spark")
    if width.months:
        month = f"(YEAR({column}) * 12 + MONTH({column}) - 1 - {_ORIGIN_MONTHS})"
        first = f"TRUNC(CAST({column} AS DATE), 'MM')"
        text = f"CAST(ADD_MONTHS({first}, -PMOD({month}, {width.months})) AS TIMESTAMP)"
    else:
        micros = f"UNIX_MICROS(CAST({column} AS TIMESTAMP))"
        length = round(width.span.total_seconds()) * 1_000_000
        text = f"TIMESTAMP_MICROS({micros} - PMOD({micros} - {_ORIGIN_MICROS}, {length}))"
    return sqlglot.parse_one(text, read="spark")


def _refuse(text: str, expected: str, actual: str) -> NoReturn:
    line = " ".join(text.split())
    raise RollupInvalid(
        "the query of the rollup is no aggregation by buckets that can be refreshed by parts",
        object=line if len(line) <= 120 else f"{line[:119]}…",
        expected=expected,
        found=actual,
        next="docs/rollups.md says what a rollup's query may be",
    )
