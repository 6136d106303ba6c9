"""The storage command: bytes by stage, without a JVM.

`commands` loads it by name.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from meltline.app.run_request import globs
from meltline.app.services import ReadContext
from meltline.app.storage.storage_answer import (
    COLUMNS,
    StorageAnswer,
    StorageLine,
    storage_answer,
)
from meltline.cli.options import AsJson, AsOf, ConfigPath, Tables, instant, ready
from meltline.cli.output import answer_rows, print_notes
from meltline.domain.errors import UsageInvalid
from meltline.domain.units import format_instant, format_size
from meltline.file_permissions import make_file

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
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="PATH", help="also write an HTML report with the daily history"
        ),
    ] = None,
) -> int:
    """Show storage by stage: active, historical, kept for clones, waiting, deleted."""
    context = ready(config)
    answer = storage_answer(context, globs(tables), instant(as_of), by=by, listing=listing)
    if html is not None:
        _draw(context, globs(tables), as_of, html)
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


def _draw(context: ReadContext, tables: tuple[str, ...], as_of: str | None, path: Path) -> None:
    """Writes the report as a self-contained file.

    Raises:
        UsageInvalid: A past instant is requested, there is nothing to draw, or no such folder.
    """
    # Imported here, so that only a report waits for it.
    from meltline.pages.lake_picture import NEXT_STEPS, lake_picture  # noqa: PLC0415
    from meltline.pages.storage_picture import storage_page  # noqa: PLC0415

    if as_of is not None:
        raise UsageInvalid(
            "--html draws the days up to now: it does not go with --as-of",
            object="--html",
            next="leave out one of the two",
        )
    page = storage_page(lake_picture(context, tables), next_steps=NEXT_STEPS)
    try:
        make_file(path, context.config.local_access)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageInvalid(
            f"the page cannot be written to {path}",
            object=str(path),
            expected="a file in a folder that is there",
            found=error.strerror or str(error),
            next="name another path",
        ) from error


def _title(answer: StorageAnswer) -> str:
    fed = answer.observed_at
    since = f", as observed until {format_instant(fed)}" if fed and fed < answer.at else ""
    unarmed = f"; {answer.not_armed}: nothing expires" if answer.not_armed else ""
    return f"Storage at {format_instant(answer.at)}{since}{unarmed}"


def _columns(lines: Sequence[StorageLine]) -> list[str]:
    """Returns the columns; those of other tiers only if they are not empty."""
    return [c for c in COLUMNS if c not in _ELSEWHERE or any(line.bytes[c] for line in lines)]


def _size(bytes: int | None) -> str:
    return "-" if bytes is None else format_size(bytes)
