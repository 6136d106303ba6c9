"""Public Python functions for chunks by age, with names known from other products (LT-34).

Each function takes a table as `catalog.schema.table`, and `config` as `meltline.sql` does: the path
of `meltline.yaml`; else MELTLINE_CONFIG, else the one in this folder. Functions that read or move
rows open a Spark session, or join the process's. Failures raise MeltlineError. `meltline` loads
this module on first use.
"""

import warnings
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from meltline.api import open_context
from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks import flags
from meltline.app.chunks.late_data import guarded_append
from meltline.app.chunks.manual_runs import execute_retention as drop_at_once
from meltline.app.chunks.manual_runs import first_copy
from meltline.app.chunks.plan_drops import Force
from meltline.app.chunks.policies import (
    ChunkPolicyLine,
    PolicyWish,
    add_policy,
    forget_policy,
    policy_lines,
)
from meltline.app.chunks.reading.status import TieringStatus, tiering_status
from meltline.app.chunks.replication.declare import LayoutWish, start_sync, stop_sync
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.ranges import Unit
from meltline.domain.chunks.sync import TableSync
from meltline.domain.units import parse_duration

Config = Path | str | None


def enable_sync(
    table: str,
    *,
    to: str = "",
    column: str = "",
    unit: Unit | str | None = None,
    pattern: str = "",
    later: bool = False,
    config: Config = None,
) -> TableSync:
    """Starts replication of a table to cold: rows are copied and verified before they count.

    Args:
        table: The table.
        to: Its name in cold; empty for its own name below `meltline_synced`.
        column: The column with a row's time. Like the next two, empty if the partitioning
            determines it.
        unit: The length of a chunk: hour, day, month or year.
        pattern: The format of integers and strings: s, ms, us, h, d since 1970, or such as %Y%m%d.
        later: Whether the first copy is left to the next replication.
        config: See above.
    """
    wiring, context = open_context(config)
    wish = LayoutWish(column, Unit(unit) if unit else None, pattern)
    begun = start_sync(context, parse_table_name(table), to, wish)
    return begun if later else first_copy(wiring.services, wiring.clock.now(), begun).sync


def disable_sync(table: str, *, config: Config = None) -> TableSync:
    """Stops a table's replication: cold keeps its rows, and chunks that need it stay in hot."""
    return stop_sync(open_context(config)[1], parse_table_name(table))


# --- policies ------------------------------------------------------------------------------------


def add_tiering_policy(table: str, after: str, *, config: Config = None) -> int:
    """Flags chunks from an age such as `7 days`, once they are proved. Returns the policy's id.

    A notice, such as that the table is not synced yet, is raised as a Python warning.
    """
    return _add(table, PolicyWish(PolicyType.TIERING, tier_after=after), config)


def add_retention_policy(
    table: str,
    drop_after: str,
    *,
    max_lateness: timedelta | str | None = None,
    keep_latest: int = 0,
    config: Config = None,
) -> int:
    """Drops chunks from an age; of a synced table only those in cold. Returns the policy's id."""
    wish = PolicyWish(
        PolicyType.RETENTION,
        drop_after=drop_after,
        max_lateness=_span(max_lateness),
        keep_latest=keep_latest,
    )
    return _add(table, wish, config)


def add_tiered_retention_policy(
    table: str,
    tier_after: str,
    drop_after: str,
    *,
    max_lateness: timedelta | str | None = None,
    keep_latest: int = 0,
    config: Config = None,
) -> int:
    """Flags chunks from one age and drops them from a later one, never unproved. Returns its id."""
    wish = PolicyWish(
        PolicyType.TIERED_RETENTION,
        tier_after=tier_after,
        drop_after=drop_after,
        max_lateness=_span(max_lateness),
        keep_latest=keep_latest,
    )
    return _add(table, wish, config)


def _span(text: timedelta | str | None) -> timedelta | None:
    return parse_duration(text) if isinstance(text, str) else text


def _add(table: str, wish: PolicyWish, config: Config) -> int:
    added = add_policy(open_context(config)[1], parse_table_name(table), wish)
    for notice in added.notices:
        warnings.warn(notice, stacklevel=3)  # where the program adds the policy
    return added.policy.id


def remove_tiering_policy(table: str, *, config: Config = None) -> None:
    """Removes the tiering policy. Chunks that it flagged stay flagged."""
    _forget(table, PolicyType.TIERING, config)


def remove_retention_policy(table: str, *, config: Config = None) -> None:
    """Removes the retention policy. Chunks that it dropped stay in cold alone."""
    _forget(table, PolicyType.RETENTION, config)


def remove_tiered_retention_policy(table: str, *, config: Config = None) -> None:
    """Removes the tiered retention policy, with both ages."""
    _forget(table, PolicyType.TIERED_RETENTION, config)


def _forget(table: str, type: PolicyType, config: Config) -> None:
    forget_policy(open_context(config)[1], parse_table_name(table), type)


def show_tiering_policy(
    table: str | None = None, *, config: Config = None
) -> list[ChunkPolicyLine]:
    """Returns the tiering policies of a table, or of all tables."""
    return _lines(table, PolicyType.TIERING, config)


def show_retention_policy(
    table: str | None = None, *, config: Config = None
) -> list[ChunkPolicyLine]:
    """Returns the retention policies of a table, or of all tables."""
    return _lines(table, PolicyType.RETENTION, config)


def show_tiered_retention_policy(
    table: str | None = None, *, config: Config = None
) -> list[ChunkPolicyLine]:
    """Returns the tiered retention policies of a table, or of all tables."""
    return _lines(table, PolicyType.TIERED_RETENTION, config)


def _lines(table: str | None, type: PolicyType, config: Config) -> list[ChunkPolicyLine]:
    name = None if table is None else parse_table_name(table)
    return [line for line in policy_lines(open_context(config)[1], name) if line.type is type]


# --- chunks --------------------------------------------------------------------------------------


def tier_chunk(chunk: str, *, config: Config = None) -> bool:
    """Flags a chunk, such as `lake.air.t@2026-01-05`, if it is proved to be in cold.

    Returns:
        Whether it is flagged now: not if it is unknown, dropped, or not durable. Its age is not
            checked.
    """
    wiring, _ = open_context(config)
    table, name = flags.parse_chunk(chunk)
    return flags.tier_chunk(wiring.services("tier_chunk"), table, name).is_tiered


def untier_chunk(chunk: str, *, config: Config = None) -> None:
    """Removes a chunk's flag. Raises ChunkNotFound if it is not tiered."""
    table, name = flags.parse_chunk(chunk)
    flags.untier_chunk(open_context(config)[1], table, name)


def execute_retention(
    table: str,
    force: bool = False,
    *,
    chunks: Sequence[str] = (),
    reason: str = "",
    once: str = "",
    config: Config = None,
) -> int:
    """Drops at once the chunks that a table's policy considers old enough, behind the gate.

    Args:
        table: The table.
        force: Whether unproved chunks may be dropped; requires the next two arguments.
        chunks: Names of the unproved chunks to drop.
        reason: The reason, for the audit.
        once: An override: why this is allowed in a catalog that is not armed.
        config: See above.

    Returns:
        The number of dropped chunks: 0 without a policy. Why others stay is a Python warning.
    """
    wiring, context = open_context(config)
    words = Force(tuple(chunks), reason) if force else None
    done = drop_at_once(context, wiring.services, parse_table_name(table), words, once)
    for sentence in done.notices:
        warnings.warn(sentence, stacklevel=2)  # where the program drops
    return done.dropped


def show_tiering_status(
    table: str | None = None, *, config: Config = None
) -> Sequence[TieringStatus]:
    """Returns the tiering status of one table, or of each chunked table, from the ledger alone."""
    name = None if table is None else str(parse_table_name(table))
    lines = tiering_status(open_context(config)[1])
    return [line for line in lines if name in (None, line.table)]


def append(table: str, rows: Any, *, config: Config = None) -> None:
    """Appends all rows, or none if one of them lies in a dropped chunk (LT-30).

    Args:
        table: The table.
        rows: A Spark `DataFrame`, or a PyArrow table, which starts no JVM.
        config: Path of `meltline.yaml`.

    Raises:
        LateDataRejected: Some rows are late; names the ranges, and the earliest time that is
            accepted.
        CommitConflict: Another writer committed first at each attempt.
    """
    wiring, context = open_context(config)
    guarded_append(context, wiring.guarded_writer(rows), parse_table_name(table), rows)
