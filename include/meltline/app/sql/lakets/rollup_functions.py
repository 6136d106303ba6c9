"""LakeTS functions for rollups: their signatures and handlers.

`dispatch` calls them. Each translates its arguments for `app/chunks/rollups` (LT-27, LT-28).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from meltline.app.chunks.rollups.declare import RollupWish, create_rollup, invalidate
from meltline.app.chunks.rollups.drop import drop_rollup
from meltline.app.chunks.rollups.realtime import note_view, realtime_text, realtime_view
from meltline.app.chunks.rollups.refresh import (
    RefreshedRollup,
    refresh_rollup,
    refresh_rollups,
    rollup_of,
)
from meltline.app.chunks.rollups.status import rollup_lines
from meltline.app.sql.lakets.session import FunctionAnswer, Session, answer_of, void
from meltline.app.sql.lakets.signatures import (
    Function,
    Handler,
    Parameter,
    Type,
    of_rows,
    of_value,
    required,
)
from meltline.app.sql.naming import full_table_name, spoken_name
from meltline.domain.chunks.rollup import with_dependencies
from meltline.domain.iceberg.names import TableName
from meltline.domain.safe_text import quote

Values = Mapping[str, Any]
COLD = "cold"


def _create(session: Session, values: Values) -> FunctionAnswer:
    source = values["p_source_table"]
    named = None if source is None else session.table(source, values["p_source_schema"])
    wish = RollupWish(
        name=values["p_name"],
        query=values["p_query"],
        width=values["p_bucket_interval"] or "",
        source=named,
        depends_on=tuple(values["p_depends_on"]),
    )

    def resolve(parts: tuple[str, ...]) -> TableName:
        return full_table_name(session.context, session.standing, parts)

    created = create_rollup(session.services("create_rollup"), wish, resolve)
    return answer_of(created.rollup.id, *created.notices)


def _refresh(session: Session, values: Values) -> FunctionAnswer:
    name = rollup_of(session.context.control.rollups, values["p_name"]).name
    done = refresh_rollup(session.services("refresh_rollup"), name)
    return answer_of(bool(done.buckets), *_missed(done))


def _refresh_cascade(session: Session, values: Values) -> FunctionAnswer:
    """Refreshes a rollup and its dependencies; a failed one does not stop the others."""
    rollups = session.context.control.rollups.all()
    if values["p_name"] is not None:
        rollups = with_dependencies(
            rollups, rollup_of(session.context.control.rollups, values["p_name"]).name
        )
    if not rollups:
        return FunctionAnswer(())
    refreshed = refresh_rollups(session.services("refresh_rollup_cascade"), rollups)
    notices = [notice for done in refreshed for notice in _missed(done)]
    notices += [f"{d.rollup.name}: {d.error.message}" for d in refreshed if d.error is not None]
    rows = tuple((d.rollup.name, bool(d.buckets), d.seconds * 1000) for d in refreshed)
    return FunctionAnswer(rows, tuple(notices))


def _missed(done: RefreshedRollup) -> list[str]:
    if not done.missed:
        return []
    return [f"{done.rollup.name}: {done.missed} frozen buckets have rows that came too late"]


def _drop(session: Session, values: Values) -> FunctionAnswer:
    rollup = drop_rollup(session.context, values["p_name"])
    if rollup.realtime_view:
        text = f"DROP VIEW IF EXISTS {_spoken(session, realtime_view(rollup))}"
        session.engine().run(text, str(uuid4()), {})
    return void(f"`meltline undrop {quote(rollup.table)}` can bring its table back")


def _create_view(session: Session, values: Values) -> FunctionAnswer:
    """Creates an Iceberg view, if the catalog supports views: Spark refuses it elsewhere."""
    rollups, spoken = session.context.control.rollups, partial(_spoken, session)
    rollup = rollup_of(rollups, values["p_name"])
    text = realtime_text(rollups.all(), rollup, values["p_raw_query"], spoken)
    session.engine().run(text, str(uuid4()), {})
    note_view(rollups, rollup.name)
    return void()


def _spoken(session: Session, table: TableName) -> str:
    return spoken_name(session.context.config.catalogs, table)


def _show(session: Session, values: Values) -> FunctionAnswer:
    lines = rollup_lines(session.context)
    ids = {line.rollup.name: line.rollup.id for line in lines}
    return FunctionAnswer(
        tuple(
            (
                line.rollup.name,
                str(line.rollup.table),
                line.rollup.realtime_view or None,
                line.rollup.width,
                None,
                line.watermark,
                line.rollup.last_refreshed_at,
                str(line.rollup.source),
                line.rollup.bucket_column,
                [ids[name] for name in line.rollup.depends_on if name in ids],
            )
            for line in sorted(lines, key=lambda line: line.rollup.name)
        ),
        tuple(f"{line.rollup.name}: {line.problem}" for line in lines if line.problem),
    )


def _show_dag(session: Session, values: Values) -> FunctionAnswer:
    return FunctionAnswer(
        tuple(
            (
                line.rollup.name,
                list(line.rollup.depends_on),
                line.order,
                line.rollup.width,
                line.rollup.last_refreshed_at,
            )
            for line in rollup_lines(session.context)
        )
    )


def _invalidate(session: Session, values: Values) -> FunctionAnswer:
    name = rollup_of(session.context.control.rollups, values["p_name"]).name
    if values["p_tier"] == COLD:
        return answer_of(0, "buckets whose source is in cold alone are frozen")
    return answer_of(invalidate(session.context, name, values["p_from"], values["p_to"]))


def _enable_invalidation(session: Session, values: Values) -> FunctionAnswer:
    rollup = rollup_of(session.context.control.rollups, values["p_rollup_name"])
    return void(f"nothing to do: what has changed is read from the commits of {rollup.source}")


HANDLERS: Mapping[str, Handler] = {
    "create_rollup": _create,
    "refresh_rollup": _refresh,
    "refresh_rollup_cascade": _refresh_cascade,
    "create_rollup_view": _create_view,
    "drop_rollup": _drop,
    "show_rollups": _show,
    "show_rollup_dag": _show_dag,
    "invalidate_rollup_range": _invalidate,
    "enable_rollup_invalidation": _enable_invalidation,
}
"""Handlers of the functions, by name."""


_NAME = required("p_name")
_MADE_OF = (
    _NAME,
    required("p_query"),
    Parameter("p_bucket_interval", Type.INTERVAL),
    Parameter("p_source_table"),
    Parameter("p_source_schema"),
)
_DEPENDS_ON = Parameter("p_depends_on", Type.TEXTS, default=())
_REFRESH_MODE = Parameter("p_refresh_mode", default="incremental", choices=("incremental",))

SIGNATURES = (
    replace(
        of_value("create_rollup", "int", *_MADE_OF, _DEPENDS_ON),
        older=(*_MADE_OF, _REFRESH_MODE, _DEPENDS_ON),
    ),
    of_value("refresh_rollup", "boolean", _NAME),
    of_rows(
        "refresh_rollup_cascade",
        {"rollup_name": "string", "refreshed": "boolean", "refresh_ms": "double"},
        Parameter("p_name"),
    ),
    of_value("drop_rollup", "string", _NAME),
    of_rows(
        "show_rollups",
        {
            "name": "string",
            "rollup_table": "string",
            "realtime_view": "string",
            "bucket_interval": "string",
            "refresh_lag": "string",
            "watermark": "timestamp",
            "last_refreshed_at": "timestamp",
            "source_table": "string",
            "bucket_column": "string",
            "depends_on": "array<int>",
        },
    ),
    of_rows(
        "show_rollup_dag",
        {
            "rollup_name": "string",
            "depends_on_names": "array<string>",
            "refresh_order": "int",
            "bucket_interval": "string",
            "last_refreshed": "timestamp",
        },
    ),
    of_value(
        "invalidate_rollup_range",
        "int",
        _NAME,
        required("p_from", Type.INSTANT),
        required("p_to", Type.INSTANT),
        Parameter("p_tier", choices=("hot", "cold")),
    ),
    of_value("enable_rollup_invalidation", "string", required("p_rollup_name")),
    of_value("create_rollup_view", "string", _NAME, required("p_raw_query")),
)
FUNCTIONS = tuple(Function(signature, HANDLERS[signature.name]) for signature in SIGNATURES)
