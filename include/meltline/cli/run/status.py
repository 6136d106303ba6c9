"""The status command: whether purging works in the whole lake, without a JVM.

`commands` loads it by name.
"""

from collections.abc import Iterator

from meltline.app.status.purge_status import purge_status
from meltline.app.status.recorded import as_document
from meltline.cli.options import AsJson, ConfigPath, ready
from meltline.cli.output import answer, shown_instant
from meltline.domain.purging.purge_status import PurgeStatus
from meltline.domain.units import counted, format_instant, format_size


def status(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Show whether purging works: the last good run, stops, waiting files."""
    state = purge_status(ready(config))
    answer(as_document(state), list(_lines(state)), as_json=as_json)
    return 4 if state.has_stopped else 0


def _lines(state: PurgeStatus) -> Iterator[str]:
    yield f"last good run:  {shown_instant(state.last_success, 'none')}"
    yield f"armed:          {'yes' if state.is_armed else 'no'}"
    for halt in state.halts:
        yield f"stopped since:  {format_instant(halt.since)}: {halt.why}; next: {halt.next}"
    if not state.has_stopped:
        yield "stopped:        no"
    yield f"held back:      {_held_back(state)}"
    yield f"overdue:        {format_size(state.due.overdue)}"
    waiting = state.waiting
    yield f"for approval:   {counted(waiting.plans, 'purge')}, {format_size(waiting.bytes)}"
    yield f"refused:        {counted(state.plans_refused, 'plan')}"
    yield f"next due:       {_next_due(state)}"
    if state.catching_up:
        yield f"catching up:    {counted(state.catching_up, 'table')}"
    if state.chunks_unknown:
        yield f"drops unknown:  {counted(state.chunks_unknown, 'chunk')}"


def _held_back(state: PurgeStatus) -> str:
    reasons = [f"{format_size(size)} {why}" for why, size in state.held_back.items() if size]
    return f"{', '.join(reasons)}; next: `meltline doctor`" if reasons else "nothing"


def _next_due(state: PurgeStatus) -> str:
    due = state.due
    return f"{due.next_day}: {format_size(due.next_bytes)}" if due.next_day else "nothing"
