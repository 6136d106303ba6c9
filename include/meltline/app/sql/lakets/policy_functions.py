"""LakeTS functions for policies: add_, remove_ and show_.

`dispatch` calls them. Each translates its arguments for `app/chunks/policies` (LT-5, LT-18, LT-24).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from meltline.app.chunks.lookups import HotTable
from meltline.app.chunks.policies import PolicyWish, add_policy, forget_policy
from meltline.app.sql.lakets.session import FunctionAnswer, Session, answer_of, void
from meltline.app.sql.lakets.signatures import (
    Function,
    Parameter,
    Type,
    of_rows,
    of_value,
    required,
)
from meltline.domain.chunks.policies import ChunkPolicy, PolicyType

TABLE = (required("p_table_name"), Parameter("p_schema_name"))
Values = Mapping[str, Any]
Cell = Callable[[ChunkPolicy], object]

_DROPPING = (PolicyType.RETENTION, PolicyType.TIERED_RETENTION)
"""Policy types that LakeTS calls a retention policy, except when it adds one."""


def _add(type: PolicyType, session: Session, values: Values) -> FunctionAnswer:
    wish = PolicyWish(
        type,
        tier_after=values.get("p_tier_after") or values.get("p_after") or "",
        drop_after=values.get("p_drop_after") or "",
    )
    table = session.table(values["p_table_name"], values["p_schema_name"])
    added = add_policy(session.context, table, wish)
    return answer_of(added.policy.id, *added.notices)


def _remove(types: tuple[PolicyType, ...], session: Session, values: Values) -> FunctionAnswer:
    """Removes matching policies; if there are none, answers with a notice, as in LakeTS."""
    context = session.context
    table = session.table(values["p_table_name"], values["p_schema_name"])
    uuid = HotTable.load(context, table).state.uuid
    standing = [p.type for p in context.control.chunk_policies.all([uuid]) if p.type in types]
    for type in standing:
        forget_policy(context, table, type)
    return void() if standing else void(f"{table} has no {' or '.join(types)} policy")


def _show(
    types: tuple[PolicyType, ...], cells: Mapping[str, Cell], session: Session, values: Values
) -> FunctionAnswer:
    """Lists policies; all count as enabled, since none can be switched off."""
    context = session.context
    table = session.table(values["p_table_name"], values["p_schema_name"])
    uuid = HotTable.load(context, table).state.uuid
    last_run_at = next((t.last_run_at for t in context.control.chunks.tracked([uuid])), None)
    return FunctionAnswer(
        tuple(
            (policy.id, *(cell(policy) for cell in cells.values()), True, last_run_at)
            for policy in context.control.chunk_policies.all([uuid])
            if policy.type in types
        )
    )


def _tier_after(policy: ChunkPolicy) -> str | None:
    return str(policy.tier_after) if policy.tier_after else None


def _drop_after(policy: ChunkPolicy) -> str | None:
    return str(policy.drop_after) if policy.drop_after else None


_TIERING_CELLS: Mapping[str, Cell] = {"after": _tier_after}
_RETENTION_CELLS: Mapping[str, Cell] = {
    "policy_type": lambda policy: str(policy.type),
    "drop_after": _drop_after,
    "tier_after": _tier_after,
}


def _adds(type: PolicyType, *ages: str) -> Function:
    table, schema = TABLE
    parameters = (table, *(required(age, Type.INTERVAL) for age in ages), schema)
    return Function(of_value(f"add_{type}_policy", "int", *parameters), partial(_add, type))


def _removes(kind: str, *types: PolicyType) -> Function:
    return Function(of_value(f"remove_{kind}_policy", "string", *TABLE), partial(_remove, types))


def _shows(kind: str, cells: Mapping[str, Cell], *types: PolicyType) -> Function:
    columns = {
        "policy_id": "int",
        **dict.fromkeys(cells, "string"),
        "enabled": "boolean",
        "last_run_at": "timestamp",
    }
    signature = of_rows(f"show_{kind}_policy", columns, *TABLE)
    return Function(signature, partial(_show, types, cells))


FUNCTIONS = (
    _adds(PolicyType.TIERING, "p_after"),
    _adds(PolicyType.RETENTION, "p_drop_after"),
    _adds(PolicyType.TIERED_RETENTION, "p_tier_after", "p_drop_after"),
    _removes("tiering", PolicyType.TIERING),
    _removes("retention", *_DROPPING),
    _removes("tiered_retention", PolicyType.TIERED_RETENTION),
    _shows("tiering", _TIERING_CELLS, PolicyType.TIERING),
    _shows("retention", _RETENTION_CELLS, *_DROPPING),
    _shows("tiered_retention", _RETENTION_CELLS, PolicyType.TIERED_RETENTION),
)
