"""Storage by stage, without a JVM."""

from collections.abc import Sequence
from typing import Annotated

import typer

from meltline.app.run_request import globs
from meltline.app.storage.storage_answer import (
    COLUMNS,
    StorageAnswer,
    StorageLine,
    storage_answer,
)
from meltline.cli.options import AsJson, AsOf, ConfigPath, Tables, instant, ready
from meltline.cli.output import answer_rows, print_notes
from meltline.domain.units import format_instant, format_size

_ELSEWHERE = ("cold_bytes", "deep_bytes")


def storage(
    config: ConfigPath = None,
    as_json: AsJson = False,
    tables: Tables = "",
    as_of: AsOf = None,
    by: Annotated[str, typer.Option("--by", help="table, namespace or catalog")] = "table",
    listing: Annotated[
        bool, typer.Option("--listing", help="list the store too, for files in flight")
    ] = False,
) -> int:
    """Storage by stage: what is active, historical, kept for clones, waiting, gone."""
    answer = storage_answer(ready(config), globs(tables), instant(as_of), by=by, listing=listing)
    lines, columns = answer.lines, _columns(answer.lines)
    marked = any(line.unread for line in lines)
    rows = [
        [
            line.name,
            *(_size(line.bytes[column]) for column in columns),
            *([line.state] if marked else []),
        ]
        for line in lines
    ]
    heads = (by, *(column.removesuffix("_bytes").replace("_", " ") for column in columns))
    answer_rows(
        answer.as_json(),
        (*heads, *(["state"] if marked else [])),
        rows,
        as_json=as_json,
        title=_title(answer),
    )
    if not as_json:
        print_notes(answer.notes)
    return answer.exit_code


def _title(answer: StorageAnswer) -> str:
    fed = answer.observed_at
    since = f", as observed until {format_instant(fed)}" if fed and fed < answer.at else ""
    return f"Storage at {format_instant(answer.at)}{since}"


def _columns(lines: Sequence[StorageLine]) -> list[str]:
    """Of other tiers only where there is something in them."""
    return [c for c in COLUMNS if c not in _ELSEWHERE or any(line.bytes[c] for line in lines)]


def _size(bytes: int | None) -> str:
    return "-" if bytes is None else format_size(bytes)
