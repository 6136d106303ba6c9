"""Commands for policies by age: chunks tier-after, drop-after, tier-and-drop and others.

`commands` loads it by name.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.policies import (
    AddedPolicy,
    ChunkPolicyLine,
    PolicyWish,
    add_policy,
    policy_lines,
)
from meltline.app.chunks.policies import forget_policy as remove_policy
from meltline.cli.chunks.declared import Column, Pattern, UnitOption, cut
from meltline.cli.options import AsJson, ConfigPath, TableArgument, duration, ready
from meltline.cli.output import answer, answer_rows
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.ranges import Unit
from meltline.domain.safe_text import quote
from meltline.domain.units import counted, format_duration, format_instant, format_size

Age = Annotated[str, typer.Argument(metavar="AGE", help="36h, 7d, 2w, 3mo or 1y")]
TierAge = Annotated[str, typer.Argument(metavar="TIER_AGE", help="such as 7d")]
DropAge = Annotated[str, typer.Argument(metavar="DROP_AGE", help="such as 90d; the longer one")]
MaxLateness = Annotated[
    str,
    typer.Option("--max-lateness", metavar="DURATION", help="how late rows may come, such as 2d"),
]
KeepLatest = Annotated[
    int,
    typer.Option(
        "--keep-latest", min=0, metavar="N", help="number of newest chunks that always stay"
    ),
]
Optional = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="catalog.namespace.table; else all")
]


def tier_after(
    table: TableArgument,
    age: Age,
    config: ConfigPath = None,
    as_json: AsJson = False,
    column: Column = "",
    unit: UnitOption = None,
    pattern: Pattern = "",
) -> int:
    """Flag a table's chunks from an age on, once they are proved to be in cold."""
    wish = PolicyWish(PolicyType.TIERING, tier_after=age)
    return _added(config, table, wish, (column, unit, pattern), as_json=as_json)


def drop_after(
    table: TableArgument,
    age: Age,
    config: ConfigPath = None,
    as_json: AsJson = False,
    max_lateness: MaxLateness = "",
    keep_latest: KeepLatest = 0,
    column: Column = "",
    unit: UnitOption = None,
    pattern: Pattern = "",
) -> int:
    """Drop a table's chunks from an age on; of a synced table only those that cold has."""
    wish = PolicyWish(
        PolicyType.RETENTION,
        drop_after=age,
        max_lateness=duration(max_lateness, "--max-lateness") if max_lateness else None,
        keep_latest=keep_latest,
    )
    return _added(config, table, wish, (column, unit, pattern), as_json=as_json)


def tier_and_drop(
    table: TableArgument,
    tier_age: TierAge,
    drop_age: DropAge,
    config: ConfigPath = None,
    as_json: AsJson = False,
    max_lateness: MaxLateness = "",
    keep_latest: KeepLatest = 0,
    column: Column = "",
    unit: UnitOption = None,
    pattern: Pattern = "",
) -> int:
    """Flag chunks from one age on and drop them from a later one, never before cold has them."""
    wish = PolicyWish(
        PolicyType.TIERED_RETENTION,
        tier_after=tier_age,
        drop_after=drop_age,
        max_lateness=duration(max_lateness, "--max-lateness") if max_lateness else None,
        keep_latest=keep_latest,
    )
    return _added(config, table, wish, (column, unit, pattern), as_json=as_json)


def _added(
    config: ConfigPath,
    table: str,
    wish: PolicyWish,
    layout: tuple[str, Unit | None, str],
    *,
    as_json: bool,
) -> int:
    name = parse_table_name(table)
    added = add_policy(ready(config), name, wish, cut(*layout))
    document = {
        "table": str(name),
        "id": added.policy.id,
        "type": str(added.policy.type),
        "tier_after": str(added.policy.tier_after or "") or None,
        "drop_after": str(added.policy.drop_after or "") or None,
        "max_lateness": _lateness(added),
        "keep_latest": added.policy.keep_latest,
        "first_chunk": added.first or None,
        "first_at": added.first_at,
        "drops_from": added.acts_after,
        "chunks_to_tier": added.tiers,
        "chunks_to_drop": added.drops,
        "bytes_to_drop": added.bytes,
        "notices": list(added.notices),
    }
    return answer(document, list(_sentences(str(name), added)), as_json=as_json)


def _lateness(added: AddedPolicy) -> str | None:
    span = added.policy.max_lateness
    return None if span is None else format_duration(span)


def _sentences(table: str, added: AddedPolicy) -> Iterator[str]:
    """Describes what the policy drops and when: users ask most about one without visible effect."""
    policy = added.policy
    yield f"{table}: {policy.sentence} (policy {policy.id})."
    if not added.first:
        yield "It has no chunk in hot yet."
    elif added.first_at:
        yield f"The first chunk is {added.first}, old enough at {format_instant(added.first_at)}."
    if policy.tier_after:
        yield f"The next run offers {counted(added.tiers, 'chunk')} for proof."
    if policy.drop_after and added.acts_after:
        drops = f"{counted(added.drops, 'chunk')}, {format_size(added.bytes)}"
        yield f"Old enough to be dropped now: {drops}."
        yield (
            f"Runs of the DAG drop from {format_instant(added.acts_after)} on; "
            f"`meltline chunks drop {quote(table)}` does it at once."
        )
    yield from (f"Note: {notice}." for notice in added.notices)


def forget_policy(
    table: TableArgument,
    kind: Annotated[PolicyType, typer.Argument(metavar="KIND", help=", ".join(PolicyType))],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Remove a policy by age: flagged chunks stay flagged, dropped ones stay in cold."""
    name = parse_table_name(table)
    remove_policy(ready(config), name, kind)
    document = {"table": str(name), "type": str(kind), "forgotten": True}
    return answer(document, [f"{name} has no {kind} policy any more."], as_json=as_json)


def policies(table: Optional = None, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """The policies by age of a table, or of all."""
    lines = policy_lines(ready(config), None if table is None else parse_table_name(table))
    return answer_rows(
        {"policies": [asdict(line) for line in lines]},
        ("table", "id", "kind", "what it does", "lateness", "since", "by"),
        [_row(line) for line in lines],
        as_json=as_json,
        nothing="No policy: `meltline chunks tier-and-drop TABLE 7d 90d` adds one.",
    )


def _row(line: ChunkPolicyLine) -> list[str]:
    return [
        line.table,
        str(line.id),
        str(line.type),
        line.sentence,
        format_duration(line.max_lateness) if line.max_lateness is not None else "-",
        format_instant(line.created_at),
        line.who,
    ]
