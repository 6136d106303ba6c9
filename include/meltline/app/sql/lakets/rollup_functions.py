"""Functions about rollups, as LakeTS has them: what they take and answer (LT-27, LT-28)."""

from dataclasses import replace

from meltline.app.sql.lakets.rollup_handlers import HANDLERS
from meltline.app.sql.lakets.signatures import (
    Function,
    Parameter,
    Type,
    of_rows,
    of_value,
    required,
)

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
