"""The entry of every Spark app: arguments → session → one step → a summary file."""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from meltline.access import Access, make_file, make_folder
from meltline.app.run.airflow_steps import StepRequest, run_step
from meltline.app.run.lifecycle import RunRequest
from meltline.config.load import load_config
from meltline.domain.clock import resolve_as_of
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import MeltlineError
from meltline.domain.units import parse_duration, parse_instant
from meltline.ports import Inventory
from meltline.private_words import spelt_out
from meltline.wiring import Wiring, to_stderr


def main(step: str, arguments: Sequence[str] | None = None) -> None:
    """Runs one step and exits: 0 unless the step failed as a whole.

    Refused and skipped tables travel in the summary: SparkSubmitOperator takes any other exit
    code for a crash, and the DAG's last task names them.
    """
    try:
        words = spelt_out(sys.argv[1:] if arguments is None else arguments)
        asked = _parser(step).parse_args(words)
        document = _run(step, asked)
    except MeltlineError as error:
        to_stderr(f"{error.type}: {json.dumps(error.as_json())}")
        sys.exit(1)
    except Exception:  # the trace goes to a log that others read, and may quote the configuration
        to_stderr(traceback.format_exc())
        sys.exit(1)
    _write(asked.summary, document)


def _run(step: str, asked: argparse.Namespace) -> dict[str, object]:
    config = load_config(asked.config, os.environ, Path.cwd())
    wiring = Wiring(config)
    as_of: datetime = resolve_as_of(asked.as_of, wiring.clock.now(), dry_run=asked.dry_run)
    run = RunRequest(
        asked.run_id, as_of, _globs(asked.tables), dry_run=asked.dry_run, any_hour=asked.any_hour
    )
    request = StepRequest(
        run,
        PlanKind(asked.kind),
        asked.batch,
        asked.approve,
        minimum_age=asked.minimum_age,
        inventory=Inventory(asked.inventory) if asked.inventory else None,
    )
    services = replace(wiring.services(step, run.run_id), who=asked.who or wiring.who)
    services.control.start_run(wiring.run_record(run.run_id, run.as_of))
    return run_step(step, services, request).as_json()


def _globs(text: str) -> tuple[str, ...]:
    return tuple(glob.strip() for glob in text.split(",") if glob.strip())


def _write(path: Path, document: dict[str, object]) -> None:
    """Atomically: the operator never reads half a summary."""
    make_folder(path.parent, Access.OWNER)
    draft = path.with_suffix(".part")
    make_file(draft, Access.OWNER)
    draft.write_text(json.dumps(document))
    draft.replace(path)


def _age(text: str) -> timedelta | None:
    """A duration; nothing at all is none."""
    return parse_duration(text) if text else None


def _parser(step: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{step}.py", description=f"Meltline's step {step}.")
    parser.add_argument("--config", type=Path, help="meltline.yaml")
    parser.add_argument("--run-id", required=True, help="names the run its plans belong to")
    parser.add_argument("--as-of", type=parse_instant, help="ISO 8601; now when left out")
    parser.add_argument("--tables", default="", help="globs over catalog.namespace.table")
    parser.add_argument("--dry-run", action="store_true", help="plan, and change nothing")
    parser.add_argument("--any-hour", action="store_true", help="copy outside the quiet window")
    parser.add_argument("--kind", default="expire", choices=["expire", "purge"])
    parser.add_argument("--batch", type=int, default=0, help="only this batch of the run's plans")
    parser.add_argument("--approve", default="", help="why purges over the limit may go ahead")
    parser.add_argument("--minimum-age", type=_age, help="of what a sweep takes")
    parser.add_argument("--inventory", default="", help="a Parquet folder instead of a listing")
    parser.add_argument("--who", default="", help="who asked for it")
    parser.add_argument("--summary", type=Path, required=True, help="where the summary goes")
    return parser
