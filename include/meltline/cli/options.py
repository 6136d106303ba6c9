"""Options that commands share, and what they come to."""

import os
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from meltline.app.ground.preconditions import require_prepared
from meltline.app.run.lifecycle import RunRequest
from meltline.app.services import ReadContext
from meltline.config.load import load_config
from meltline.domain.clock import resolve_as_of
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.objects import ObjectKind
from meltline.domain.units import parse_duration, parse_instant
from meltline.wiring import Wiring

ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", help="meltline.yaml; else MELTLINE_CONFIG, else ./meltline.yaml"),
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]
Tables = Annotated[
    str, typer.Option("--tables", help="globs over catalog.namespace.table, comma-separated")
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="the logical date: ISO 8601; now when left out")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say what would happen; change nothing")]

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.namespace.table")]
Kind = Annotated[
    ObjectKind | None,
    typer.Option("--kind", help="table, schema or database, where a name could be two of them"),
]


def wire(config: Path | None) -> Wiring:
    """The wiring for a command's configuration."""
    return Wiring(load_config(config, os.environ, Path.cwd()))


def ready(config: Path | None) -> ReadContext:
    """What a command needs that starts no JVM.

    Raises:
        SetupMissing: `meltline init` has not been run.
    """
    return ready_wiring(config)[1]


def ready_wiring(config: Path | None) -> tuple[Wiring, ReadContext]:
    """The same, with the wiring for what starts a JVM later on. Raises as `ready` does."""
    wiring = wire(config)
    ledgers = wiring.ledgers()
    require_prepared(ledgers)
    return wiring, ledgers


def instant(
    text: str | None,
    option: str = "--as-of",
    parse: Callable[[str], datetime] = parse_instant,
) -> datetime | None:
    """An option's instant.

    Raises:
        UsageInvalid: It is none.
    """
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as odd:
        raise UsageInvalid(
            f"{option} is not an instant",
            object=option,
            expected="ISO 8601 with an offset, such as 2026-11-21T00:00:00Z, or a date",
            found=text,
            next=str(odd),
        ) from odd


def duration(text: str, option: str) -> timedelta:
    """An option's duration.

    Raises:
        UsageInvalid: It is none.
    """
    try:
        return parse_duration(text)
    except ValueError as odd:
        raise UsageInvalid(
            f"{option} is not a duration",
            object=option,
            expected="a whole number and s, m, h or d, such as 1h",
            found=text,
            next=str(odd),
        ) from odd


def request(wiring: Wiring, tables: str, as_of: str | None, dry_run: bool) -> RunRequest:
    """A run of its own, under a new id."""
    now = wiring.clock.now()
    return RunRequest(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        as_of=resolve_as_of(instant(as_of), now, dry_run=dry_run),
        tables=globs(tables),
        dry_run=dry_run,
    )


def globs(text: str) -> tuple[str, ...]:
    """`--tables` taken apart."""
    return tuple(glob.strip() for glob in text.split(",") if glob.strip())
