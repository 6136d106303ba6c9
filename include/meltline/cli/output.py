"""Output of commands: one JSON document on stdout with `--json`, otherwise text or a table.

Every command module uses it. Progress is in `progress`.
"""

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from meltline.cli.progress import end_progress
from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MeltlineError
from meltline.domain.json_values import plain
from meltline.domain.safe_text import visible
from meltline.domain.units import format_instant, format_size

_GOOD, _BAD, _ODD = "green", "red", "yellow"
_STYLES = {
    **dict.fromkeys(("ok", "done", "passed", "applied", "in force", "current"), _GOOD),
    **dict.fromkeys(("failed", "refused", "error", "unreadable", "written to"), _BAD),
    **dict.fromkeys(
        ("skipped", "unfinished", "stale", "warning", "not observed yet", "ends soon", "behind"),
        _ODD,
    ),
}
"""Terminal style of a status."""

_CAUSED = "Caused by: "


def print_json(document: Any) -> None:
    """Prints the only document of a command."""
    end_progress()
    print(json.dumps(plain(document), indent=2, ensure_ascii=False))


def answer(document: Any, lines: Sequence[str], *, as_json: bool) -> int:
    """Prints a command's answer: the document with `--json`, otherwise lines of text.

    Returns:
        0, the exit code of success.
    """
    if as_json:
        print_json(document)
        return 0
    for line in lines:
        console().print(line)
    return 0


def answer_rows(
    document: Any,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    as_json: bool,
    title: str = "",
    nothing: str = "",
    unreadable: Sequence[str] = (),
) -> int:
    """Prints a command's answer: the document with `--json`, otherwise a table.

    Args:
        document: The answer.
        columns: Heads of the table.
        rows: Its rows.
        as_json: Whether to print the document.
        title: A line above the table.
        nothing: Printed instead of a table without rows.
        unreadable: Objects that could not be read, by name; below the table.

    Returns:
        The exit code: 4 if something was not readable, else 0.
    """
    if as_json:
        print_json(document)
    elif nothing and not rows:
        console().print(nothing)
    else:
        print_rows(title, columns, rows)
        if unreadable:
            print_rows("", ("not readable",), [[name] for name in unreadable])
    return 4 if unreadable else 0


def with_tables(tables: Sequence[object]) -> str:
    """Formats the number of an object's tables, to follow its name."""
    return f", with {len(tables)} table{'s' if len(tables) != 1 else ''}"


def shown_instant(at: datetime | None, absent: str = "-") -> str:
    """Formats an instant, or a substitute without one."""
    return format_instant(at) if at else absent


class PeoplesConsole(Console):
    """Prints text of external origin with its control characters escaped."""

    def print(self, *objects: Any, **style: Any) -> None:
        """Prints as rich does."""
        shown = (visible(each, keep="\n") if isinstance(each, str) else each for each in objects)
        super().print(*shown, **style)


def console(stream: TextIO | None = None) -> Console:
    """Opens a console for text: stdout, or another stream.

    Colours are for terminals only, and not if `NO_COLOR` is set.
    """
    end_progress()
    file = stream or sys.stdout
    # A pipe has no width: lines stay unbroken for grep.
    width = None if file.isatty() else 400
    return PeoplesConsole(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        width=width,
        force_terminal=file.isatty(),
    )


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; numbers are right-aligned."""
    if title:  # in its own line: the table would cut it to its width
        console().print(title, style="bold")
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[position]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell), style=_STYLES.get(cell, "")) for cell in row))
    console().print(table)


def print_notes(notes: Sequence[str]) -> None:
    """Prints sentences below an answer, a line each."""
    for note in notes:
        console().print(note)


def print_plans(plans: list[Plan]) -> None:
    """Prints plans, a line each."""
    if not plans:
        console().print("Nothing to do.")
        return
    rows = [
        [
            p.id,
            str(p.kind),
            str(p.table),
            str(len(p.snapshots)),
            str(p.files),
            format_size(p.bytes),
            str(p.state),
        ]
        for p in plans
    ]
    print_rows("", ("plan", "kind", "table", "snapshots", "files", "bytes", "state"), rows)


def _is_number(text: str) -> bool:
    return bool(text) and (text[0].isdigit() or text == "-")


def print_error(error: MeltlineError, *, as_json: bool) -> None:
    """Prints an error: on stdout as a document with `--json`, otherwise on stderr in full."""
    if as_json:
        print_json({"error": error.as_json()})
        return
    head, *labels = error.lines
    text = Text(head)
    text.stylize("bold red", 0, len(error.type))
    on_stderr = console(sys.stderr)
    on_stderr.print(text, soft_wrap=True)
    for line in labels:
        on_stderr.print(line, soft_wrap=True)


def unforeseen(error: Exception) -> MeltlineError:
    """Builds the error for an exception that no step expects."""
    return MeltlineError(
        "something went wrong that Meltline did not foresee; nothing more was done",
        object=type(error).__name__,
        found=_reason(error)[:500],
        next="run again: every step is safe to repeat; MELTLINE_DEBUG=1 shows the whole trace",
    )


def _reason(error: Exception) -> str:
    """Returns the first line; for a Java trace, which begins with a call, the deepest cause."""
    lines = str(error).splitlines()
    thrown = [line.removeprefix(": ") for line in lines[1:2] if line.startswith(": ")]
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    told = [*lines[:1], *thrown, *causes]
    return told[-1] if told else ""
