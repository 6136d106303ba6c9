"""Storage by stage, without a JVM."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from meltline.app.run_request import globs
from meltline.app.storage.report import StorageHistory, in_flight_bytes, listed_files, storage_rows
from meltline.cli.options import AsJson, AsOf, ConfigPath, Tables, instant, ready
from meltline.cli.output import answer_rows, plain
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName, selected
from meltline.domain.units import format_instant, format_size

_BY: dict[str, Callable[[TableName], str]] = {
    "table": str,
    "namespace": lambda name: str(name).rsplit(".", 1)[0],
    "catalog": lambda name: name.catalog,
}
_BYTES = (
    "active_bytes",
    "historical_bytes",
    "retained_for_clone_bytes",
    "failsafe_bytes",
    "deleted_bytes",
    "foreign_bytes",
    "in_flight_bytes",
    "cold_bytes",
    "deep_bytes",
)
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
    _require_sensible(by, listing, as_of)
    context = ready(config)
    stored = listed_files(context) if listing else ()
    totals = StorageHistory(context).at(instant(as_of), [file.path for file in stored])
    flying = in_flight_bytes(context, stored, totals) if listing else None
    rows = [r for r in storage_rows(totals, flying) if selected(r.table, globs(tables))]
    sums = _summed(rows, by)
    columns = _columns(sums)
    return answer_rows(
        {"rows": sums},
        (by, *(column.removesuffix("_bytes").replace("_", " ") for column in columns)),
        [[line["table"], *(_size(line[column]) for column in columns)] for line in sums],
        as_json=as_json,
        title=f"Storage at {format_instant(totals.at)}",
    )


def _columns(sums: list[dict[str, Any]]) -> list[str]:
    """Of other tiers only where there is something in them."""
    return [b for b in _BYTES if b not in _ELSEWHERE or any(line[b] for line in sums)]


def _require_sensible(by: str, listing: bool, as_of: str | None) -> None:
    if by not in _BY:
        raise UsageInvalid(
            f"--by {by} is not known",
            object="--by",
            expected=", ".join(_BY),
            found=by,
            next="choose one of them",
        )
    if listing and as_of is not None:
        raise UsageInvalid(
            "--listing shows what is in the store now: it does not go with --as-of",
            object="--listing",
            next="leave out one of the two",
        )


def _size(bytes: int | None) -> str:
    return "-" if bytes is None else format_size(bytes)


def _summed(rows: list[StorageRow], by: str) -> list[dict[str, Any]]:
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = plain(row)
        name = _BY[by](row.table)
        into = sums.setdefault(name, {"table": name, **dict.fromkeys(_BYTES, 0)})
        for column in _BYTES:
            size = line[column]
            into[column] = None if size is None or into[column] is None else into[column] + size
        into["computed_at"] = line["computed_at"]
    return [sums[name] for name in sorted(sums)]
