"""What commands print: one document on stdout with `--json`, else a few clear lines."""

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
"""How words that say how something stands are shown on a terminal."""

_CAUSED = "Caused by: "


def print_json(document: Any) -> None:
    """The one document of a command."""
    end_progress()
    print(json.dumps(plain(document), indent=2, ensure_ascii=False))


def answer(document: Any, lines: Sequence[str], *, as_json: bool) -> int:
    """A command's one answer: the document with `--json`, else a few lines for people.

    Returns:
        0, the exit code of a command that did what it was asked for.
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
    """A command's one answer: the document with `--json`, else a table for people.

    Args:
        document: The answer.
        columns: Heads of the table.
        rows: Its rows.
        as_json: Which of the two.
        title: A line above the table.
        nothing: What is said instead of a table without rows.
        unreadable: What nobody could look at, by name; below the table.

    Returns:
        The exit code: 4 where something was not readable, else 0.
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
    """How many tables come with an object, in the words that follow its name."""
    return f", with {len(tables)} table{'s' if len(tables) != 1 else ''}"


def shown_instant(at: datetime | None, absent: str = "-") -> str:
    """An instant for people, or what stands where there is none."""
    return format_instant(at) if at else absent


class PeoplesConsole(Console):
    """Shows text of other people's with its control characters escaped."""

    def print(self, *objects: Any, **style: Any) -> None:
        """Prints as rich does."""
        shown = (visible(each, keep="\n") if isinstance(each, str) else each for each in objects)
        super().print(*shown, **style)


def console(stream: TextIO | None = None) -> Console:
    """Where words for people go: stdout, or another stream.

    Colours are for terminals alone, and not for those who have set `NO_COLOR`.
    """
    end_progress()
    file = stream or sys.stdout
    # A pipe has no width: lines stay whole for grep.
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
    """A table for people; numbers to the right."""
    if title:  # as a line of its own: the table's would be cut to the table's width
        console().print(title, style="bold")
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[position]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell), style=_STYLES.get(cell, "")) for cell in row))
    console().print(table)


def print_notes(notes: Sequence[str]) -> None:
    """Sentences below an answer, a line each."""
    for note in notes:
        console().print(note)


def print_plans(plans: list[Plan]) -> None:
    """Plans, a line each."""
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
    """An error: on stdout as the answer's document with `--json`, else on stderr in full."""
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
    """What is said of an error that no step expects."""
    return MeltlineError(
        "something went wrong that Meltline did not foresee; nothing more was done",
        object=type(error).__name__,
        found=_reason(error)[:500],
        next="run again: every step is safe to repeat; MELTLINE_DEBUG=1 shows the whole trace",
    )


def _reason(error: Exception) -> str:
    """The first line; of a trace of Java, which names a call there, the deepest cause."""
    lines = str(error).splitlines()
    thrown = [line.removeprefix(": ") for line in lines[1:2] if line.startswith(": ")]
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    told = [*lines[:1], *thrown, *causes]
    return told[-1] if told else ""
