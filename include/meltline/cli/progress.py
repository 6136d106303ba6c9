"""Progress of a command: live bars on a terminal, else lines on stderr.

`options` gives it to the wiring, and `output` ends it before the answer.
"""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from meltline.domain.redaction import discreet
from meltline.progress import Counted

if TYPE_CHECKING:  # only a terminal needs it
    from rich.progress import Progress, TaskID


class LiveProgress:
    """Progress lines above bars that are shown until the answer."""

    def __init__(self) -> None:
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, line: str) -> None:
        """Shows a line; one with a count moves the bar of its subject."""
        bars = self._bars or self._begin()
        if not isinstance(line, Counted):
            bars.console.print(discreet(line), style="dim", soft_wrap=True)
            return
        subject = line.subject
        if subject not in self._tasks:
            self._tasks[subject] = bars.add_task(discreet(line), total=line.total)
        is_over = line.done >= line.total
        bars.update(
            self._tasks[subject],
            description=discreet(line),
            completed=line.done,
            total=line.total,
            visible=not is_over,
        )

    def _begin(self) -> "Progress":
        from rich.console import Console  # noqa: PLC0415 - a command that answers at once has none
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            SpinnerColumn,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        # Its own file descriptor: Spark's JVM is started with another stderr.
        file = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8")
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=Console(file=file, markup=False, emoji=False, highlight=False),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._bars.start()
        return self._bars

    def end(self) -> None:
        """Removes the bars before the answer is printed."""
        if self._bars is not None:
            self._bars.stop()
            self._bars.console.file.close()
            self._bars, self._tasks = None, {}


_LIVE = LiveProgress()


def progress() -> Callable[[str], None]:
    """Returns the progress callback of this process: live on a terminal, else lines on stderr."""
    if sys.stderr.isatty():
        return _LIVE
    from meltline.wiring import to_stderr  # noqa: PLC0415 - whoever prints an answer needs it not

    return to_stderr


def end_progress() -> None:
    """Ends progress before the answer."""
    _LIVE.end()
