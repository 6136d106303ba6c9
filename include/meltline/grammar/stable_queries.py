"""Queries that are one table, filtered and grouped, and say the same whenever they are run."""

from sqlglot import exp

_PARTS = frozenset({"expressions", "from", "from_", "where", "group", "having", "order"})
_OF_TABLE = frozenset({"this", "db", "catalog", "alias"})
_OF_THE_MOMENT_OR_CHANCE = """
    now clock_timestamp statement_timestamp transaction_timestamp timeofday current_timestamp
    current_date current_time current_datetime curdate sysdate localtime localtimestamp
    random rand randn randstr uniform shuffle uuid gen_random_uuid uuid_generate_v4 nextval
    current_user session_user current_role current_catalog current_database current_schema
    input_file_name monotonically_increasing_id spark_partition_id
"""
_OF_THE_ORDER_OF_ROWS = """
    array_agg collect_list collect_set array_unique_agg group_concat string_agg listagg
    any_value arbitrary
"""
_CHANGING = frozenset((_OF_THE_MOMENT_OR_CHANCE + _OF_THE_ORDER_OF_ROWS).split())
_NOW_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp"})
_BY_ORDER_WITHOUT_A_TIME = frozenset({"first", "last", "first_value", "last_value"})


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
    name = function_name(node)
    if name in _NOW_WITHOUT_ARGUMENTS:
        return not _arguments(node)
    if name in _BY_ORDER_WITHOUT_A_TIME:
        return len(_arguments(node)) < 2
    return name in _CHANGING


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    return [argument for argument in node.iter_expressions() if isinstance(argument, exp.Expr)]
