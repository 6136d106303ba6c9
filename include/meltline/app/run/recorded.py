"""What the ledger keeps of a run: when it began and ended, and what came of it."""

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
    """Does the steps of a run: a `Run`, or what does those of another list."""

    def visit(self, steps: Sequence[Step[Any]]) -> Summary:
        """Does steps in their order, and says what came of them."""
        ...


def run_recorded(
    context: RunContext,
    request: RunRequest,
    steps: Sequence[Step[Any]] = STEPS,
    visitor: Visitor | None = None,
) -> Summary:
    """Stages of a run in one process; the ledger keeps what came of it, save of a dry run.

    Args:
        context: The ports.
        request: What was asked for.
        steps: Those that are done.
        visitor: Does them; None is the run of the lifecycle.
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
    """Adds what a step of a run came to to what is kept of the run; its last step ends it.

    Of batches that run side by side nothing is added: their plans say what came of each.

    Args:
        runs: Where it is kept.
        record: The run; ended now, if this is its end.
        step: Which.
        summary: What it came to.
        is_last: Whether no other step follows, though in other runs some do.
    """
    before = runs.get(record.id)
    documents = [json.loads(before.summary)] if before.summary else []
    document = json.dumps(merge([*documents, summary.as_json()]))
    ends = is_last or step in (STEPS[-1], SWEEP, CHUNK_STEPS[-1])
    runs.finish(replace(before, ended_at=record.ended_at if ends else None, summary=document))
