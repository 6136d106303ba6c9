"""Runs steps and records the run in the control ledger: its start, its end, and its summary.

The command and Spark apps call it. A dry run is not recorded.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Protocol

from meltline.app.run.lifecycle import Run
from meltline.app.run.run_document import merge
from meltline.app.run.steps import CHUNK_STEPS, STEPS, SWEEP, Step
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.app.services import RunContext
from meltline.app.status.metrics import metrics_of_failures
from meltline.ports import RunLog, RunRecord


class Visitor(Protocol):
    """Runs the steps of a run: a `Run`, or the equivalent for another list of steps."""

    def visit(self, steps: Sequence[Step[Any]]) -> Summary:
        """Runs steps in their order, and returns their summary."""
        ...


def run_recorded(
    context: RunContext,
    request: RunRequest,
    steps: Sequence[Step[Any]] = STEPS,
    visitor: Visitor | None = None,
) -> Summary:
    """Runs steps in one process, and records their result, unless it is a dry run.

    Args:
        context: The ports.
        request: The options of the run.
        steps: The steps to run.
        visitor: Runs them; None is the run of the lifecycle.
    """
    record = RunRecord(request.run_id, request.as_of, context.clock.now())
    if not request.dry_run:
        context.control.runs.start(record)
    with nullcontext() if request.dry_run else metrics_of_failures(context):
        summary = (visitor or Run(context, request)).visit(steps)
    if not request.dry_run:
        document, ended = json.dumps(summary.as_json()), context.clock.now()
        context.control.runs.finish(replace(record, ended_at=ended, summary=document))
    return summary


def keep_summary(
    runs: RunLog, record: RunRecord, step: Step[Any], summary: Summary, *, is_last: bool = False
) -> None:
    """Merges the result of one step into the record of its run; the last step ends the run.

    Batches that run in parallel add nothing: their plans have the result of each.

    Args:
        runs: The run log.
        record: The run; ended now, if this is its end.
        step: The step.
        summary: Its result.
        is_last: Whether no other step follows, though in other runs some do.
    """
    before = runs.get(record.id)
    documents = [json.loads(before.summary)] if before.summary else []
    document = json.dumps(merge([*documents, summary.as_json()]))
    ends = is_last or step in (STEPS[-1], SWEEP, CHUNK_STEPS[-1])
    runs.finish(replace(before, ended_at=record.ended_at if ends else None, summary=document))
