"""Meltline: retention and safe deletion for Apache Iceberg tables. The public Python API."""

from typing import TYPE_CHECKING, Any

from meltline.version import VERSION

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from pathlib import Path

    from meltline.api import Reader
    from meltline.app.retention.leases import KeptLease
    from meltline.chunk_api import (
        add_retention_policy,
        add_tiered_retention_policy,
        add_tiering_policy,
        append,
        disable_sync,
        enable_sync,
        execute_retention,
        remove_retention_policy,
        remove_tiered_retention_policy,
        remove_tiering_policy,
        show_retention_policy,
        show_tiered_retention_policy,
        show_tiering_policy,
        show_tiering_status,
        tier_chunk,
        untier_chunk,
    )

__version__ = VERSION

__all__ = [
    "add_retention_policy",
    "add_tiered_retention_policy",
    "add_tiering_policy",
    "all_rows",
    "append",
    "consumer",
    "disable_sync",
    "enable_sync",
    "execute_retention",
    "lease",
    "remove_retention_policy",
    "remove_tiered_retention_policy",
    "remove_tiering_policy",
    "show_retention_policy",
    "show_tiered_retention_policy",
    "show_tiering_policy",
    "show_tiering_status",
    "sql",
    "tier_chunk",
    "untier_chunk",
]


def __getattr__(name: str) -> Any:
    """Loads a function of `meltline.chunk_api` on first use, so that other programs do not."""
    if name not in __all__:
        raise AttributeError(f"module 'meltline' has no attribute {name!r}")
    from meltline import chunk_api  # noqa: PLC0415

    return getattr(chunk_api, name)


def sql(
    spark: Any,
    statement: str,
    *,
    config: "Path | str | None" = None,
    schema: str = "current",
    statement_id: str = "",
) -> Any:
    """Runs a statement in your session: Spark SQL, plus AT | BEFORE, UNDROP and more.

    Args:
        spark: A `SparkSession` that has the catalogs of `meltline.yaml`.
        statement: One statement; docs/sql.md lists the syntax beyond Spark's own.
        config: Path of `meltline.yaml`; else MELTLINE_CONFIG, else the one in this folder.
        schema: `current` shows old rows under the present columns, `snapshot` under their own.
        statement_id: The id by which AT and BEFORE refer to it later; empty for a new one.

    Returns:
        A `DataFrame`. Spark computes its rows later; `lease` keeps the files of a long read.

    Raises:
        MeltlineError: The statement failed; see docs/when-things-go-wrong.md.
    """
    from meltline import api  # noqa: PLC0415 - unused code is not loaded

    return api.sql(spark, statement, config=config, schema=schema, statement_id=statement_id)


def all_rows(spark: Any, table: str, *, config: "Path | str | None" = None) -> Any:
    """Returns every row of a table split into chunks: those of hot, and dropped ones from cold.

    Each row is returned once.

    Args:
        spark: A `SparkSession` that has the catalogs of `meltline.yaml`; it need not have cold's.
        table: catalog.namespace.table.
        config: As for `sql`.

    Returns:
        A `DataFrame` of the current state of both tiers. `lease` keeps the files of a long read.

    Raises:
        NotChunked: The table is not split into chunks.
        MeltlineError: The rows could not be read; see docs/when-things-go-wrong.md.
    """
    from meltline import api  # noqa: PLC0415

    return api.all_rows(spark, table, config=config)


def lease(
    table: str,
    *,
    snapshot_id: int | None = None,
    ttl: "timedelta | str" = "10m",
    config: "Path | str | None" = None,
) -> "AbstractContextManager[KeptLease]":
    """Keeps a snapshot for the duration of a `with` block; a thread renews the lease.

    Args:
        table: catalog.namespace.table.
        snapshot_id: The snapshot; None for the current one.
        ttl: How long the lease remains after this process has died.
        config: As for `sql`.

    Raises:
        LeaseLost: At the end of the block, if the lease ended before.
        MeltlineError: The lease could not be created.
    """
    from meltline import api  # noqa: PLC0415

    return api.lease(table, snapshot_id=snapshot_id, ttl=ttl, config=config)


def consumer(table: str, name: str, *, config: "Path | str | None" = None) -> "Reader":
    """Returns a named consumer of a table, which keeps the snapshots that it has still to read.

    Args:
        table: catalog.namespace.table.
        name: The consumer's name on that table; it need not exist yet.
        config: As for `sql`.

    Raises:
        MeltlineError: The configuration, the ledger or the name cannot be used.
    """
    from meltline import api  # noqa: PLC0415

    return api.consumer(table, name, config=config)
