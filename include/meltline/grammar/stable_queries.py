"""Queries that are one table, filtered and grouped, and say the same whenever they are run.

Functions are taken from a list: what is not on it may answer differently each time, or run code.
"""

import re

from sqlglot import exp

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
"""Aggregates that give the same result of the same rows, in whatever order these come."""
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
"""Functions and operators whose value depends on their arguments alone."""
_LAKETS = "lakets"
_NOW_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp", "str_to_unix", "time_to_unix"})
_BY_ORDER_WITHOUT_A_TIME = frozenset({"first", "last", "first_value", "last_value"})
_NOW_AS_TEXT = re.compile(
    r"\s*(?:epoch|now|today|tomorrow|yesterday)(?:\s.*)?", re.IGNORECASE | re.DOTALL
)
_VARIABLES = (exp.Parameter, exp.SessionParameter, exp.Placeholder, exp.Lambda)


def function_name(node: exp.Expr) -> str:
    """What a function is called, in small letters; empty for what is none."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def odd_part(select: exp.Select) -> str:
    """A part of a SELECT that it has beside one table, a filter and groups; empty without one.

    Only parts that are known are taken: one that was passed over would be left out of the answer.
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
    """A part whose value depends on more than the rows of the table; empty without one."""
    for node in select.walk():
        is_other_query = isinstance(node, exp.Query) and node is not select
        if isinstance(node, exp.Window) or (is_other_query and not isinstance(node, exp.Table)):
            return node.sql()
        if _depends_on_more(node):
            return node.sql()
    return ""


def _depends_on_more(node: exp.Expr) -> bool:
    """Whether a part is a variable, a time that is always another, or no allowed function."""
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
    """All names that a function has, in small letters; none of what is none."""
    if isinstance(node, exp.Anonymous):
        return {node.name.lower()}
    return {name.lower() for name in node.sql_names()} if isinstance(node, exp.Func) else set()


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    return [argument for argument in node.iter_expressions() if isinstance(argument, exp.Expr)]
