"""Commands that remove archived history or use the permanent store: cold prune, deepen, recall.

`commands` loads it by name. Commands that only inspect the archive are in `cold`.
"""

from dataclasses import replace
from typing import Annotated

import typer

from meltline.app.archive.permanent_store import Deepened, recall
from meltline.app.archive.permanent_store import deepen as keep_for_ever
from meltline.app.catalog.resolve import parse_table_name
from meltline.app.prune.cold_prune import prune as take_out
from meltline.app.prune.prune_deletes import Pruned
from meltline.cli.archive.cold import Optional
from meltline.cli.options import (
    AsJson,
    ConfigPath,
    DryRun,
    Once,
    TableArgument,
    instant,
    ready,
    ready_wiring,
)
from meltline.cli.output import answer
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_instant, format_size, parse_moment


def prune(
    table: TableArgument,
    before: Annotated[
        str, typer.Option("--before", metavar="TIME", help="snapshots committed before it")
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="why; it is recorded")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="do it; without it, as --dry-run")] = False,
    once: Once = "",
) -> int:
    """Remove archived snapshots whose retention in cold is past, and their files, for good."""
    if dry_run and yes:
        raise UsageInvalid(
            "either --dry-run or --yes",
            object="--dry-run, --yes",
            expected="one of the two",
            found="both",
            next="look first, with --dry-run",
        )
    moment = instant(before, "--before", parse_moment)
    assert moment is not None  # a required option
    wiring, context = ready_wiring(config)
    engine = wiring.gate(f"cold-prune-{format_instant(context.clock.now())}")
    name = parse_table_name(table)
    context = replace(context, once=once)
    prunes = take_out(context, engine, name, moment, reason, dry_run=not yes)
    lines = [line for pruned in prunes for line in _pruned(pruned)]
    answer({"prunes": prunes, "dry_run": not yes}, lines, as_json=as_json)
    return 1 if any(pruned.errors for pruned in prunes) else 0


def _pruned(pruned: Pruned) -> list[str]:
    if not pruned.snapshots:
        return [f"Nothing of {pruned.cold} is that old, but for its newest snapshot, which stays."]
    counts = f"{len(pruned.snapshots)} snapshots, {pruned.files} files, {format_size(pruned.bytes)}"
    if not pruned.done:
        tags = f"; tags that go with them: {', '.join(pruned.tags)}" if pruned.tags else ""
        return [f"{pruned.cold}: would go: {counts}{tags}. Nothing was changed; --yes does it."]
    return [
        f"{pruned.cold}: gone: {len(pruned.snapshots)} snapshots, {pruned.deleted} files.",
        *(f"kept, for something needs it: {path}" for path in pruned.kept),
        *(f"not deleted: {error}" for error in pruned.errors),
    ]


def deepen(table: Optional = None, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Copy archived snapshots to the permanent store: what the policies want, or all of a table."""
    tables = keep_for_ever(ready(config), None if table is None else parse_table_name(table))
    lines = [line for deepened in tables for line in _deepened(deepened)] or ["Nothing to do."]
    answer({"tables": tables}, lines, as_json=as_json)
    return 1 if any(deepened.errors for deepened in tables) else 0


def bring_back(table: TableArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Restore lost files of cold from the permanent store."""
    tables = recall(ready(config), parse_table_name(table))
    lines = [
        line
        for done in tables
        for line in (
            f"{done.table}: {done.files} files, {format_size(done.bytes)}, are in cold again",
            *(f"not there: {error}" for error in done.errors),
        )
    ]
    answer({"tables": tables}, lines, as_json=as_json)
    return 1 if any(done.errors for done in tables) else 0


def _deepened(deepened: Deepened) -> list[str]:
    counts = (
        f"{deepened.snapshots} snapshots, {deepened.files} files, {format_size(deepened.bytes)}"
    )
    return [f"{deepened.table}: {counts}", *(f"not there: {error}" for error in deepened.errors)]
