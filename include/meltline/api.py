"""Implements the public functions of `meltline`: SQL with time travel, leases, consumers.

`meltline/__init__.py` declares and documents them, and imports this module only when one is called:
`import meltline` loads nothing else. Functions about chunks are in `chunk_api`.
"""

import os
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.reading.complete_rows import complete_rows
from meltline.app.retention.consumers import find_consumers, remove_consumer, set_consumer
from meltline.app.retention.leases import KeptLease, leased
from meltline.app.safety.preconditions import require_prepared
from meltline.app.services import ReadContext
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.app.time_travel.query import SchemaChoice
from meltline.config.load import load_config
from meltline.domain.iceberg.names import TableName
from meltline.domain.retention.consumers import Consumer
from meltline.domain.units import parse_duration
from meltline.wiring import Wiring


def sql(
    spark: Any,
    statement: str,
    *,
    config: Path | str | None = None,
    schema: str = "current",
    statement_id: str = "",
) -> Any:
    """Runs a SQL statement in the caller's session. See `meltline.sql`."""
    wiring, context = open_context(config)
    engine = wiring.sql_engine_of(spark)
    request = StatementRequest(
        statement,
        standing=engine.standing,
        schema=SchemaChoice(schema),
        statement_id=statement_id,
        fetch=False,
    )
    outcome = run_statement(context, lambda: engine, request, wiring.services)
    for warning in outcome.warnings:
        warnings.warn(warning, stacklevel=3)  # where the program calls `meltline.sql`
    if outcome.read is not None:
        return engine.frame(outcome.read)
    return outcome.frame


def all_rows(spark: Any, table: str, *, config: Path | str | None = None) -> Any:
    """Returns all rows of a table, from hot and cold. See `meltline.all_rows`."""
    wiring, context = open_context(config)
    complete = complete_rows(context, parse_table_name(table))
    if complete.notice:
        warnings.warn(complete.notice, stacklevel=3)  # where the program reads
    return wiring.sql_engine_of(spark).rows(complete.read)


def lease(
    table: str,
    *,
    snapshot_id: int | None = None,
    ttl: timedelta | str = "10m",
    config: Path | str | None = None,
) -> AbstractContextManager[KeptLease]:
    """Keeps a snapshot for the duration of a `with` block. See `meltline.lease`."""
    lasting = parse_duration(ttl) if isinstance(ttl, str) else ttl
    return leased(open_context(config)[1], parse_table_name(table), snapshot_id, lasting)


@dataclass(frozen=True)
class Reader:
    """A named consumer of one table: reads and moves its position."""

    table: TableName
    name: str
    _context: ReadContext = field(repr=False)

    def position(self) -> Consumer | None:
        """Returns the snapshot that it has read up to, and its expiry; None if it is not known yet.

        Raises:
            MeltlineError: The table does not exist, or cannot be read.
        """
        consumers = find_consumers(self._context, self.table).consumers
        return next((consumer for consumer in consumers if consumer.name == self.name), None)

    def set(
        self,
        snapshot_id: int,
        *,
        expires_after: timedelta | str | None = None,
        reset: bool = False,
    ) -> Consumer:
        """Moves the consumer to the snapshot that it has read up to.

        Raises the errors of `meltline.app.retention.consumers.set_consumer`.

        Args:
            snapshot_id: This snapshot and all later ones are kept.
            expires_after: How long the consumer lasts after each move, such as `30d`.
            reset: Whether it may also move backwards, or to another linear history.
        """
        keep = parse_duration(expires_after) if isinstance(expires_after, str) else expires_after
        return set_consumer(
            self._context, self.table, self.name, snapshot_id, expires_after=keep, reset=reset
        )

    def remove(self) -> None:
        """Removes the consumer. Raises ConsumerNotFound if it does not exist."""
        remove_consumer(self._context, self.table, self.name)


def consumer(table: str, name: str, *, config: Path | str | None = None) -> Reader:
    """Returns a named consumer of a table. See `meltline.consumer`."""
    return Reader(parse_table_name(table), name, open_context(config)[1])


def open_context(config: Path | str | None) -> tuple[Wiring, ReadContext]:
    """Returns the wiring of a configuration, and a context that starts no JVM.

    Raises:
        SetupMissing: `meltline init` has not been run.
        ConfigInvalid: The configuration cannot be used.
    """
    path = None if config is None else Path(config)
    wiring = Wiring(load_config(path, os.environ, Path.cwd()), progress=lambda line: None)
    context = wiring.ledgers()
    require_prepared(context)
    return wiring, context
