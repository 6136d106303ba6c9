"""What commands print: one document on stdout with `--json`, else a few clear lines."""

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from meltline.domain.deletion.plan import Plan
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_instant, format_size


def plain(node: Any) -> Any:
    """Turns facts into JSON: instants in UTC with Z, names as Spark SQL writes them."""
    if dataclasses.is_dataclass(node) and not isinstance(node, (type, TableName)):
        return {f.name: plain(getattr(node, f.name)) for f in dataclasses.fields(node)}
    if isinstance(node, Mapping):
        return {str(key): plain(child) for key, child in node.items()}
    if isinstance(node, (Sequence, set, frozenset)) and not isinstance(node, str):
        return [plain(child) for child in node]
    return _leaf(node)


def _leaf(node: Any) -> bool | int | float | str | None:
    if node is None or isinstance(node, (bool, int, float)):
        return node
    return format_instant(node) if isinstance(node, datetime) else str(node)


def print_json(document: Any) -> None:
    """The one document of a command."""
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
        console().print(line, markup=False)
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


def console() -> Console:
    """Where answers for people go."""
    # A pipe has no width: lines stay whole for grep.
    width = None if sys.stdout.isatty() else 400
    return Console(file=sys.stdout, highlight=False, width=width)


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people; numbers to the right."""
    if title:  # as a line of its own: the table's would be cut to the table's width
        console().print(title, markup=False)
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[position]) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))  # names and reasons may have brackets
    console().print(table)


def print_notes(notes: Sequence[str]) -> None:
    """Sentences below an answer, a line each."""
    for note in notes:
        console().print(note, markup=False)


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
    print("\n".join(error.lines), file=sys.stderr)
