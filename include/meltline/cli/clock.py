"""The clock disown command, which discards a time that a wrong clock has recorded.

`commands` loads it by name.
"""

from typing import Annotated

import typer

from meltline.app.retention.clock_override import disown
from meltline.cli.options import AsJson, ConfigPath, instant, ready_wiring
from meltline.cli.output import answer
from meltline.domain.units import format_instant


def clock_disown(
    recorded: Annotated[str, typer.Argument(metavar="TIME", help="as the refusal names it")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="how it is known that it was wrong")
    ],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Discard the ledger's newest time: it was a wrong clock's, and the clock is right now."""
    then = instant(recorded, "TIME")
    assert then is not None  # the argument is required
    wiring, _ = ready_wiring(config)
    done = disown(wiring.services("clock"), then, reason)
    now = format_instant(done.word.at)
    lines = [
        f"{recorded} was a wrong clock's. It is {now} now: is that right? Else set the clock.",
        f"{done.departures} files wait their failsafe anew, {done.leases} leases end earlier.",
        *done.remaining,
    ]
    document = {
        "recorded": done.word.recorded,
        "at": done.word.at,
        "who": done.word.who,
        "reason": done.word.reason,
        "files_that_wait_anew": done.departures,
        "leases_shortened": done.leases,
        "left": done.remaining,
    }
    return answer(document, lines, as_json=as_json)
