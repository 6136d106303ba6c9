"""Options that commands share, and the objects built from them.

Every command module uses it.
"""

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from meltline.app.run_request import DURATION, INSTANT, OPTIONS, RunRequest
from meltline.app.safety.preconditions import require_prepared
from meltline.app.services import ReadContext
from meltline.cli.progress import progress
from meltline.config.load import load_config
from meltline.domain.clock import resolve_as_of
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.units import parse_instant
from meltline.wiring import Wiring

ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", help="meltline.yaml; else MELTLINE_CONFIG, else ./meltline.yaml"),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def declared(name: str, **more: Any) -> Any:
    """Declares an option as `RunRequest` defines it."""
    return typer.Option(OPTIONS[name].flag, help=OPTIONS[name].help, **more)


Tables = Annotated[str, declared("tables")]
AsOf = Annotated[str | None, declared("as_of")]
DryRun = Annotated[bool, declared("dry_run")]
Once = Annotated[str, declared("once", metavar="REASON")]

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.namespace.table")]
PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="an id, a prefix of one, or `last`")]
Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="why; it is recorded in the audit")
]
Kind = Annotated[
    ObjectKind | None,
    typer.Option("--kind", help="table, schema or database, where a name could be two of them"),
]


def wire(config: Path | None) -> Wiring:
    """Builds the wiring for a command's configuration."""
    return Wiring(load_config(config, os.environ, Path.cwd()), progress=progress())


def ready(config: Path | None) -> ReadContext:
    """Opens the services of a command that starts no JVM.

    Raises:
        SetupMissing: `meltline init` has not been run.
    """
    return ready_wiring(config)[1]


def ready_wiring(config: Path | None) -> tuple[Wiring, ReadContext]:
    """As `ready`, with the wiring for services that start a JVM later. Raises as `ready` does."""
    wiring = wire(config)
    context = wiring.ledgers()
    require_prepared(context)
    return wiring, context


def instant(
    text: str | None,
    option: str = "--as-of",
    parse: Callable[[str], datetime] = parse_instant,
) -> datetime | None:
    """Parses an option's instant.

    Raises:
        UsageInvalid: It is not an instant.
    """
    return None if text is None else replace(INSTANT, parse=parse).read(text, option)


def duration(text: str, option: str) -> timedelta:
    """Parses an option's duration.

    Raises:
        UsageInvalid: It is not a duration.
    """
    span: timedelta = DURATION.read(text, option)
    return span


def request(
    wiring: Wiring, *, run_id: str = "", as_of: str | None = None, **written: Any
) -> RunRequest:
    """Builds a run request from a command line; without a run id it gets a new one.

    Raises:
        UsageInvalid: An option has an invalid value.
        AsOfInFuture: A real run was requested for a future time.
    """
    now, dry_run = wiring.clock.now(), bool(written.get("dry_run"))
    return RunRequest.read(
        run_id or f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        resolve_as_of(instant(as_of), now, dry_run=dry_run),
        written,
    )
