"""Entry point of every Spark app: runs one step in a session and writes a summary file.

The files in `spark_apps` and the driver call `main`.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meltline.app.chunks.run import run_chunk_step
from meltline.app.run.lifecycle import run_step
from meltline.app.run.recorded import keep_summary
from meltline.app.run.steps import CHUNK_STEPS, Role, Step, step_of
from meltline.app.run.summary import Summary
from meltline.app.run_request import OPTIONS, RunRequest
from meltline.app.services import SweepServices
from meltline.app.status.metrics import metrics_of_failures
from meltline.argfile import spelt_out
from meltline.cli.options import request, wire
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import MeltlineError
from meltline.extras import explained
from meltline.file_permissions import Access, make_file, make_folder
from meltline.ports import RunRecord
from meltline.wiring import to_stderr


def main(step: str, arguments: Sequence[str] | None = None) -> None:
    """Runs one step and exits: 0 unless the step failed as a whole.

    The summary reports refused and skipped tables, because SparkSubmitOperator takes any other exit
    code for a crash. The DAG's last task names them.
    """
    try:
        words = spelt_out(sys.argv[1:] if arguments is None else arguments)
        options = app_parser(step).parse_args(words)
        document = _run(step, options)
    except MeltlineError as error:
        to_stderr("\n".join(error.lines))
        sys.exit(1)
    except Exception as error:  # the trace is in a log that others read, and may quote settings
        missing = explained(error)
        to_stderr("\n".join(missing.lines) if missing else traceback.format_exc())
        sys.exit(1)
    _write(options.summary, document)


def _run(step: str, options: argparse.Namespace) -> dict[str, object]:
    wiring, doing = wire(options.config), step_of(step, options.kind)
    run = request(wiring, **{name: getattr(options, name) for name in OPTIONS})
    services = wiring.services(step, run.run_id, judges=doing.role is Role.GATE)
    context = replace(services, who=run.who or wiring.who)
    record, runs = RunRecord(run.run_id, run.as_of, wiring.clock.now()), context.control.runs
    if run.dry_run:
        return _summary(doing, context, run, options).as_json()
    runs.start(record)
    with metrics_of_failures(context):
        summary = _summary(doing, context, run, options)
    if not options.batch:
        ended = replace(record, ended_at=wiring.clock.now())
        keep_summary(runs, ended, doing, summary, is_last=options.last)
    return summary.as_json()


def _summary(
    step: Step[Any], context: SweepServices, run: RunRequest, options: argparse.Namespace
) -> Summary:
    if step in CHUNK_STEPS:
        return run_chunk_step(step, context, run, options.batch)
    return run_step(step, context, run, options.batch, options.plan)


def _write(path: Path, document: dict[str, object]) -> None:
    """Writes the summary atomically: the operator never reads half of it."""
    make_folder(path.parent, Access.OWNER)
    draft = path.with_suffix(".part")
    make_file(draft, Access.OWNER)
    draft.write_text(json.dumps(document))
    draft.replace(path)


def app_parser(step: str) -> argparse.ArgumentParser:
    """Builds the parser of a Spark app: the options of a run, and those of its step."""
    parser = argparse.ArgumentParser(prog=f"{step}.py", description=f"Meltline's step {step}.")
    for name, option in OPTIONS.items():
        if option.default is False:
            parser.add_argument(option.flag, help=option.help, action="store_true")
        else:
            parser.add_argument(option.flag, help=option.help, required=name == "run_id")
    parser.add_argument("--config", type=Path, help="meltline.yaml")
    parser.add_argument("--kind", type=PlanKind, help="of the plans a gate judges")
    parser.add_argument("--batch", type=int, default=0, help="only this batch of the run's plans")
    parser.add_argument("--last", action="store_true", help="no step of the run follows")
    parser.add_argument("--plan", default="", help="only this stored plan, whichever run made it")
    parser.add_argument("--summary", type=Path, required=True, help="where the summary goes")
    return parser
