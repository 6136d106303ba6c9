"""Meltline in Python programs: SQL with time travel, and leases for long readers."""

import os
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

from meltline.app.leases import KeptLease, leased
from meltline.app.objects import parse_table_name
from meltline.app.permission import require_prepared
from meltline.app.query import SchemaChoice
from meltline.app.services import Ledgers
from meltline.app.statements import StatementRequest, run_statement
from meltline.config import load_config
from meltline.domain.quantities import parse_duration
from meltline.wiring import Wiring


def sql(
    spark: Any,
    statement: str,
    *,
    config: Path | str | None = None,
    schema: str = "current",
    statement_id: str = "",
) -> Any:
    """Carries out a statement in your session. See `meltline.sql`."""
    wiring, ledgers = _open(config)
    engine = wiring.sql_engine_of(spark)
    request = StatementRequest(
        statement,
        standing=engine.standing,
        schema=SchemaChoice(schema),
        statement_id=statement_id,
        fetch=False,
    )
    outcome = run_statement(ledgers, lambda: engine, request)
    if outcome.read is not None:
        return engine.frame(outcome.read)
    return outcome.frame


def lease(
    table: str,
    *,
    snapshot_id: int | None = None,
    ttl: timedelta | str = "10m",
    config: Path | str | None = None,
) -> AbstractContextManager[KeptLease]:
    """Keeps a snapshot for the length of a `with` block. See `meltline.lease`."""
    lasting = parse_duration(ttl) if isinstance(ttl, str) else ttl
    return leased(_open(config)[1], parse_table_name(table), snapshot_id, lasting)


def _open(config: Path | str | None) -> tuple[Wiring, Ledgers]:
    path = None if config is None else Path(config)
    wiring = Wiring(load_config(path, os.environ, Path.cwd()), progress=lambda line: None)
    ledgers = wiring.ledgers()
    require_prepared(ledgers)
    return wiring, ledgers
