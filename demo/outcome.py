"""What the demo's runs did: printed, and drawn."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

from meltline.app.catalog.resolve import load_table
from meltline.app.catalog.tables import keep_sets, read_tables
from meltline.app.chunks.rollups.status import rollup_lines
from meltline.app.clone.clone import clone
from meltline.app.services import ReadContext
from meltline.app.storage.report import StoredBytes, storage_rows
from meltline.cli.output import print_rows
from meltline.domain.deletion.plan import Plan, PlanTotals
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.units import format_instant, format_size
from meltline.pages.lake_picture import chunk_picture
from meltline.pages.storage_picture import DayOfStorage, RunFacts, StoragePicture, storage_page

_TIERS = ("cold", "deep")  # shown where there is something
_NEXT_STEPS = (
    ("meltline show plan last --items", "lists what the last plan was about"),
    ("meltline explain TABLE", "says why each snapshot is kept"),
    ("meltline storage --by table", "gives these numbers as of now"),
    ("make up", "opens Airflow with every step of the runs and their Data Docs"),
)
_STAGES = ("active", "historical", "retained_for_clone", "failsafe", "deleted")


def print_outcome(ledgers: ReadContext, before: datetime) -> None:
    """Storage before and after, what each run did, and why the snapshots that stay are kept."""
    history = StoredBytes(ledgers)
    _print_storage(f"Before, at {format_instant(before)}", storage_rows(history.at(before)))
    _print_runs(ledgers)
    _print_storage("After", storage_rows(history.at(None)))
    _print_kept(ledgers)
    print(
        "\nWhere to look next:\n"
        "  export MELTLINE_CONFIG=.demo/lake/meltline.yaml MELTLINE_NOW=$(cat .demo/lake/now)\n"
        "  setup/run meltline storage\n"
        "  setup/run meltline explain lake.air.flights\n"
        "  setup/run meltline show plan last --items\n"
        "  make up                # the same runs in Airflow's UI\n"
        "  .demo/lake/meltline-docs/   # what each gate checked, and found"
    )


def print_clone(ledgers: ReadContext, source: str) -> None:
    """Makes a clone of a table, and says what it has and what that took."""
    began = time.monotonic()
    (made,) = clone(ledgers, source, f"{source}_copy").created
    took = time.monotonic() - began
    snapshot = load_table(ledgers, made.table).snapshots[made.snapshot_id or 0]
    files = snapshot.summary.get("total-data-files", "the")
    print(
        f"\nA clone: {made.table} has {files} data files of {made.source}. Not one was copied; "
        f"that took {took:.1f} s.\n  setup/run meltline drop {made.table}   # undrop brings it back"
    )


def _print_storage(title: str, rows: Sequence[StorageRow]) -> None:
    tiers = [tier for tier in _TIERS if any(getattr(row, f"{tier}_bytes") for row in rows)]
    columns = (*_STAGES, *tiers)
    lines = [
        [str(row.table), *(format_size(getattr(row, f"{column}_bytes")) for column in columns)]
        for row in rows
    ]
    print()
    print_rows(title, ("table", *(column.replace("_", " ") for column in columns)), lines)


def _print_runs(ledgers: ReadContext) -> None:
    lines = []
    for run, plans in _runs(ledgers):
        verdicts = ledgers.control.verdicts.newest([plan.id for plan in plans])
        for plan in plans:
            result = verdicts.get(plan.id)
            gate = "no gate" if result is None else "passed" if result.passed else "refused"
            checks = f"{gate} ({result.evaluated} checks)" if result else gate
            lines.append(
                [run.date().isoformat(), str(plan.table), str(plan.kind), str(len(plan.snapshots)),
                 str(plan.files), format_size(plan.bytes), checks, str(plan.state)]
            )  # fmt: skip
    columns = ("as of", "table", "plan", "snapshots", "files", "bytes", "gate", "state")
    print()
    print_rows("What the runs did", columns, lines)


def _print_kept(ledgers: ReadContext) -> None:
    lines = []
    for kept in keep_sets(ledgers, read_tables(ledgers), ledgers.clock.now()):
        reasons = Counter(str(reason) for found in kept.keeps.reasons.values() for reason in found)
        told = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
        lines.append([str(kept.table.state.name), str(len(kept.keeps.reasons)), told])
    print()
    print_rows("Snapshots kept, and why", ("table", "snapshots", "reasons"), lines)


def _runs(ledgers: ReadContext) -> list[tuple[datetime, list[Plan]]]:
    """Each run's logical date and plans, first one first."""
    runs: dict[datetime, list[Plan]] = {}
    for plan in reversed(ledgers.control.plans.find()):
        runs.setdefault(plan.as_of, []).append(plan)
    return sorted(runs.items())


def run_facts(ledgers: ReadContext) -> list[RunFacts]:
    """What each run did, for the picture."""
    return [RunFacts.of(as_of, PlanTotals.of(plans)) for as_of, plans in _runs(ledgers)]


def write_page(ledgers: ReadContext, path: Path, first: date) -> None:
    """Draws storage by stage, day by day, from the ledgers' memory of the past."""
    history, now = StoredBytes(ledgers), ledgers.clock.now()
    days: list[DayOfStorage] = []
    day = first
    while day <= now.date():
        evening = datetime.combine(day, datetime.max.time(), UTC)
        rows = storage_rows(history.at(min(evening, now)))
        days += [DayOfStorage.of(day, row) for row in rows]
        day += timedelta(days=1)
    tables = sorted({row.table for row in days})
    chunks = chunk_picture(ledgers.control, tables, partial(rollup_lines, ledgers))
    picture = StoragePicture(days, tables, run_facts(ledgers), chunks=chunks)
    path.write_text(storage_page(picture, next_steps=_NEXT_STEPS), encoding="utf-8")
