"""What commands print: one document on stdout with `--json`, else a few clear lines."""

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_instant


def plain(node: Any) -> Any:
    """Turns facts into JSON: instants in UTC with Z, names as Spark SQL writes them."""
    if isinstance(node, datetime):
        return format_instant(node)
    if isinstance(node, date):
        return node.isoformat()
    if isinstance(node, TableName):
        return str(node)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return {f.name: plain(getattr(node, f.name)) for f in dataclasses.fields(node)}
    if isinstance(node, Mapping):
        return {str(key): plain(child) for key, child in node.items()}
    if isinstance(node, str) or node is None or isinstance(node, (bool, int, float)):
        return str(node) if isinstance(node, str) else node
    if isinstance(node, (Sequence, set, frozenset)):
        return [plain(child) for child in node]
    return str(node)


def print_json(document: Any) -> None:
    """The one document of a command."""
    print(json.dumps(plain(document), indent=2, ensure_ascii=False))


def answer(document: Any, lines: Sequence[str], *, as_json: bool) -> None:
    """A command's one answer: the document with `--json`, else a few lines for people."""
    if as_json:
        print_json(document)
        return
    for line in lines:
        console().print(line, markup=False)


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


def _is_number(text: str) -> bool:
    return bool(text) and (text[0].isdigit() or text == "-")


def print_error(error: MeltlineError, *, as_json: bool) -> None:
    """An error: on stdout as the answer's document with `--json`, else on stderr in full."""
    if as_json:
        print_json({"error": error.as_json()})
        return
    lines = [f"{error.type}: {error.message}"]
    for label in ("object", "expected", "found", "next"):
        text = getattr(error, label)
        if text:
            lines.append(f"  {label + ':':10}{text}")
    print("\n".join(lines), file=sys.stderr)
