"""Commands that only look, without a JVM: storage, show, explain, doctor."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from meltline.app.doctor.doctor import examine
from meltline.app.run.summary import plan_document
from meltline.app.run_request import globs
from meltline.app.services import ReadContext
from meltline.app.storage.explain import Explanation, explain_path, explain_table
from meltline.app.storage.report import StorageHistory, in_flight_bytes, listed_files, storage_rows
from meltline.cli.options import AsJson, AsOf, ConfigPath, PlanName, Tables, instant, ready, wire
from meltline.cli.output import (
    answer_rows,
    console,
    plain,
    print_json,
    print_plans,
    print_rows,
    shown_instant,
)
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName, selected, split_snapshot
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


def show_plan(
    plan: PlanName,
    config: ConfigPath = None,
    as_json: AsJson = False,
    items: Annotated[bool, typer.Option("--items", help="list every file")] = False,
) -> int:
    """A stored plan, and with --items every file of it."""
    context = ready(config)
    stored = context.control.plans.get(plan)
    document: dict[str, Any] = plan_document(stored)
    files = context.reader.items(stored.id) if items else []
    if items:
        document["items"] = [plain(file) for file in files]
    if as_json:
        print_json(document)
        return 0
    print_plans([stored])
    if stored.note:
        console().print(stored.note)
    if items:
        rows = [[f.path, str(f.kind), format_size(f.bytes)] for f in files]
        print_rows("", ("path", "kind", "bytes"), rows)
    return 0


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


def explain(
    subject: Annotated[str, typer.Argument(metavar="PATH | TABLE | TABLE@SNAPSHOT")],
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> int:
    """Why a file, a table's snapshots, or one snapshot is kept, and until when."""
    context = ready(config)
    answer = _explain(context, subject)
    if as_json:
        print_json(answer if isinstance(answer, Explanation) else {"snapshots": answer})
    else:
        _print(answer if isinstance(answer, list) else [answer])
    return 0


def _print(explanations: list[Explanation]) -> None:
    rows = [
        [
            e.path,
            e.stage,
            ", ".join(e.keep_reasons) or "-",
            ", ".join(e.referenced_by[:3]) or "-",
            shown_instant(e.since),
            shown_instant(e.due_at),
        ]
        for e in explanations
    ]
    print_rows("", ("path", "stage", "kept because", "named by", "since", "until"), rows)
    for line in dict.fromkeys(line for e in explanations for line in e.writers):
        console().print(f"writer: {line}")
    for sentence in sorted({s for e in explanations for s in e.consumers}):
        console().print(f"{sentence}.", markup=False)


def _explain(context: ReadContext, subject: str) -> Explanation | list[Explanation]:
    if "/" in subject:
        return explain_path(context, subject)
    table, snapshot_id = split_snapshot(subject)
    try:
        name = TableName.parse(table)
    except ValueError as error:
        raise UsageInvalid(
            f"{subject} is neither a path nor a table",
            object=subject,
            expected="a path, catalog.namespace.table, or catalog.namespace.table@snapshot",
            found=subject,
            next=str(error),
        ) from error
    explanations = explain_table(context, name, snapshot_id)
    return explanations if snapshot_id is None else explanations[0]


def doctor(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Everything that keeps a table out, holds a run back, or endangers files."""
    findings = examine(wire(config).ledgers())
    rows = [[f.level, f.code, f.object, f.message, f.fix] for f in findings]
    columns = ("level", "code", "object", "message", "fix")
    document, nothing = {"findings": findings}, "Nothing to report."
    answer_rows(document, columns, rows, as_json=as_json, nothing=nothing)
    return 1 if any(finding.level == "error" for finding in findings) else 0
