"""Dispatches a call of a lakets function, and names the substitute of one that does not run here.

`app/sql/statements` calls it.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from meltline.app.sql.lakets import chunk_functions, policy_functions, rollup_functions
from meltline.app.sql.lakets.session import Session
from meltline.app.sql.lakets.signatures import Function, Signature, bound
from meltline.app.sql.statement_results import StatementResult
from meltline.domain.errors import StatementUnsupported
from meltline.grammar.statements import FunctionCall
from meltline.grammar.tokens import unreadable
from meltline.ports import ReadColumn, ReadRows

_TABLES = {
    "create_chronotable": "CREATE TABLE … USING iceberg PARTITIONED BY (days(ts)): nothing is "
    "converted; lakets.enable_sync, or the first policy, says that it has chunks",
    "create_hypertable": "CREATE TABLE … USING iceberg PARTITIONED BY (days(ts)): nothing is "
    "converted; lakets.enable_sync, or the first policy, says that it has chunks",
    "set_chunk_interval": "ALTER TABLE … REPLACE PARTITION FIELD, before the table has its first "
    "policy: a table's chunks keep their length",
    "show_chunks": "`meltline chunks list TABLE`: also why each chunk waits",
    "drop_chunks": "lakets.add_retention_policy with the age, then lakets.execute_retention",
    "create_metric_table": "CREATE TABLE … USING iceberg PARTITIONED BY (days(ts)), with a column "
    "for each tag and field",
    "cardinality_stats": "SELECT approx_count_distinct(tag) FROM the table",
    "cardinality_check": "SELECT approx_count_distinct(struct(tags)) > the limit FROM the table",
}
_SERIES = {
    "time_bucket": "Spark's date_trunc('HOUR', ts), or window(ts, '15 minutes').start in GROUP BY",
    "time_bucket_gapfill": "Spark's explode(sequence(start, end, INTERVAL 1 HOUR)), and a LEFT "
    "JOIN to it",
    "first": "Spark's min_by(value, ts)",
    "last": "Spark's max_by(value, ts)",
    "locf": "Spark's last_value(value) IGNORE NULLS OVER (ORDER BY ts)",
    "interpolate": "lag() and lead() OVER (ORDER BY ts), and the line between them",
    "delta": "value - lag(value) OVER (ORDER BY ts); where that is negative, value itself",
    "rate": "(value - lag(value) OVER w) / (unix_timestamp(ts) - lag(unix_timestamp(ts)) OVER w)",
    "histogram": "Spark's width_bucket(value, least, most, buckets): it counts from 1",
}
_POLICIES = {
    "add_compression_policy": "lakets.add_tiering_policy: data files are compressed from the "
    "start, by the table's property write.parquet.compression-codec",
    "remove_compression_policy": "lakets.remove_tiering_policy",
    "show_compression_policy": "lakets.show_tiering_policy",
    "compress_chunk": "lakets.tier_chunk: it flags a chunk that is proved to be in cold",
    "decompress_chunk": "lakets.untier_chunk",
}
_MONITORING = {
    "lakets_metrics": "lakets.show_tiering_status(), or `meltline chunks status --json`",
    "chunk_health": "`meltline chunks status`, and `meltline chunks list TABLE`",
    "query_stats": "the page of Spark: it knows the queries, and what each of them took",
}
_ROLLUPS = {
    "disable_rollup_invalidation": "nothing: what has changed is read from the table's commits, "
    "which nobody can switch off; a rollup that is not wanted is dropped",
    "enable_rollup_export": "nothing: a rollup is an Iceberg table, which every engine can read",
    "disable_rollup_export": "nothing: a rollup is an Iceberg table, and nothing is exported",
    "show_rollup_exports": "nothing: a rollup is an Iceberg table, and nothing is exported",
    "register_uc_table": "the catalog itself: a rollup is a table in it",
    "tag_uc_table": "ALTER TABLE … SET TBLPROPERTIES",
    "get_uc_registrations": "SHOW TABLES",
    "unregister_uc_table": "the catalog itself: a rollup is a table in it",
    "create_downsample_pipeline": "lakets.create_rollup, one for each resolution",
    "query_auto_resolution": "a query of the rollup with the resolution that is wanted",
    "show_downsample_pipelines": "lakets.show_rollups()",
    "drop_downsample_pipeline": "lakets.drop_rollup",
}
_ELSEWHERE = {
    "enable_lvc": "SELECT key, max_by(value, ts) FROM the table GROUP BY key: no copy is kept",
    "disable_lvc": "nothing: no copy of last values is kept",
    "latest_values": "SELECT key, max_by(value, ts) FROM the table GROUP BY key",
    "lvc_stats": "nothing: no copy of last values is kept",
    "alert_check": "the query itself, run by a scheduler such as Airflow",
    "alert_deadman": "SELECT key, max(ts) FROM the table GROUP BY key HAVING max(ts) < a time",
    "ingest_batch": "INSERT INTO, or meltline.append with the rows",
    "ingest_prometheus": "INSERT INTO, or meltline.append with the rows",
}
_RUN = "`meltline chunks run`, or the DAG meltline_chunks"
_NOTHING = "nothing: what it does is done here without being called"
_INTERNAL = {
    "_get_chunks_to_tier": _RUN,
    "_get_chunks_to_compress": _RUN,
    "_cdf_committed_lsn": "lakets.show_tiering_status()",
    "_resolve_bucket_tier": "`meltline chunks list TABLE`",
    "_rollup_watermark": "lakets.show_rollups(); it is understood within lakets.create_rollup_view",
    "_enable_chronotable_sync": "lakets.enable_sync",
    "_enable_rollup_sync": "lakets.enable_sync",
    "_disable_chronotable_sync": "lakets.disable_sync",
    "_disable_rollup_sync": "lakets.disable_sync",
    **dict.fromkeys(
        (
            "_ensure_partitions",
            "_resolve_partition_parent",
            "_first_sfunc",
            "_first_ffunc",
            "_last_sfunc",
            "_last_ffunc",
            "_stamp_tiered_chunk_lsn",
            "_install_tiering_write_tracking",
            "_remove_tiering_write_tracking",
            "_build_shadow_table",
            "_sync_trigger_fn",
            "_lvc_trigger_fn",
            "_touch_chunk_metadata",
            "_get_dirty_chunks",
            "_inject_time_predicate",
            "_refresh_buckets_batch",
            "_refresh_buckets_chunked",
            "_validate_rollup_dependencies",
            "_build_rollup_dag",
            "_rollup_invalidation_trigger_fn",
            "_bulk_import_invalidation",
            "_detect_bucket_column",
        ),
        _NOTHING,
    ),
}
INSTEAD: Mapping[str, str] = {
    **_TABLES,
    **_SERIES,
    **_POLICIES,
    **_MONITORING,
    **_ROLLUPS,
    **_ELSEWHERE,
    **_INTERNAL,
}
"""By function name: the substitute, or why none is needed."""


FUNCTIONS: Mapping[str, Function] = {
    function.signature.name: function
    for module in (policy_functions, chunk_functions, rollup_functions)
    for function in module.FUNCTIONS
}
"""The supported functions, by name."""


def run_call(session: Session, call: FunctionCall) -> StatementResult:
    """Executes SELECT lakets.…(…).

    Raises:
        StatementUnsupported: The function does not exist, or does not run here.
        SqlUnreadable: The arguments do not match the function's parameters.
        MeltlineError: Whatever its step raises.
    """
    function = FUNCTIONS.get(call.name)
    if function is None:
        raise refused(call.name)
    values, columns = bound(call, function.signature), _columns(call, function.signature)
    answer = function.run(session, values)
    return StatementResult(read=ReadRows(columns, answer.rows), warnings=answer.notices)


def refused(name: str) -> StatementUnsupported:
    """Builds the error for a call that is not supported.

    Args:
        name: The function, in lower case; a supported one was called within a query.
    """
    subject = f"lakets.{name}"
    if name in FUNCTIONS:
        return StatementUnsupported(
            f"{subject} is called within a statement",
            object=subject,
            expected=f"SELECT {subject}(…), or SELECT * FROM {subject}(…), and nothing more",
            found="more than that",
            next="call it by itself, and use what it answers",
        )
    if name in INSTEAD:
        return StatementUnsupported(
            f"{subject} does not run here",
            object=subject,
            expected="a function that docs/sql.md lists",
            found=subject,
            next=f"instead: {INSTEAD[name]}",
        )
    near = get_close_matches(name, [*FUNCTIONS, *INSTEAD], n=3)
    return StatementUnsupported(
        f"there is no function {subject}",
        object=subject,
        expected="a function that docs/sql.md lists",
        found=subject,
        next=f"similar: {', '.join(f'lakets.{n}' for n in near)}" if near else "look there",
    )


def _columns(call: FunctionCall, signature: Signature) -> tuple[ReadColumn, ...]:
    """Returns the result's columns, as the call names them.

    Raises:
        SqlUnreadable: It names more than the function has.
    """
    names = call.columns
    if call.alias and not names and not signature.is_rows:
        names = (call.alias,)
    if len(names) > len(signature.columns):
        expected = f"at most {len(signature.columns)} names of columns"
        raise unreadable(call.text, call.closed, expected, str(len(names)))
    named = [
        ReadColumn(name, column.type)
        for name, column in zip(names, signature.columns, strict=False)
    ]
    return (*named, *signature.columns[len(named) :])
