"""Meltline decides what melts, and when: the storage lifecycle of Apache Iceberg tables."""

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
    """The functions about chunks, which `meltline.chunk_api` has; only who uses them loads it."""
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
    """Carries out a statement in your session: Spark's SQL, with AT | BEFORE, UNDROP and more.

    Args:
        spark: A `SparkSession` that has the catalogs of `meltline.yaml`.
        statement: One statement; docs/sql.md lists what there is beside Spark's own.
        config: `meltline.yaml`; else MELTLINE_CONFIG, else the one in this folder.
        schema: `current` shows old rows under the present columns, `snapshot` under their own.
        statement_id: By which id AT and BEFORE know it afterwards; empty for a new one.

    Returns:
        A `DataFrame`. Spark computes its rows later; `lease` keeps what a long reading needs.

    Raises:
        MeltlineError: What could not be done, and why; see docs/when-things-go-wrong.md.
    """
    from meltline import api  # noqa: PLC0415 - what is not used is not loaded

    return api.sql(spark, statement, config=config, schema=schema, statement_id=statement_id)


def all_rows(spark: Any, table: str, *, config: "Path | str | None" = None) -> Any:
    """All rows of a table that is cut into chunks: hot's, and of cold what was dropped, once each.

    Args:
        spark: A `SparkSession` that has the catalogs of `meltline.yaml`; cold's need not be there.
        table: catalog.namespace.table.
        config: As for `sql`.

    Returns:
        A `DataFrame` of the state that both have now. `lease` keeps what a long reading needs.

    Raises:
        NotChunked: The table is not cut into chunks.
        MeltlineError: What could not be read, and why; see docs/when-things-go-wrong.md.
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
    """Keeps a snapshot for the length of a `with` block; a thread renews the lease meanwhile.

    Args:
        table: catalog.namespace.table.
        snapshot_id: The snapshot; None for what is current.
        ttl: How long the lease lasts once this process has died.
        config: As for `sql`.

    Raises:
        LeaseLost: At the end of the block, if the lease had ended before.
        MeltlineError: Why there is no lease.
    """
    from meltline import api  # noqa: PLC0415

    return api.lease(table, snapshot_id=snapshot_id, ttl=ttl, config=config)


def consumer(table: str, name: str, *, config: "Path | str | None" = None) -> "Reader":
    """A named reader of a table, which keeps what it has still to read.

    Args:
        table: catalog.namespace.table.
        name: What the reader is called, on that table; it need not be known yet.
        config: As for `sql`.

    Raises:
        MeltlineError: The configuration, the ledger or the name cannot be used.
    """
    from meltline import api  # noqa: PLC0415

    return api.consumer(table, name, config=config)
