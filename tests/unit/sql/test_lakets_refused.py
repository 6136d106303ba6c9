"""What of the reference does not run here: each by name, with what to use instead (LT-34)."""

import pytest

from meltline.app.sql.lakets.dispatch import FUNCTIONS, INSTEAD
from meltline.app.sql.lakets.rollup_functions import HANDLERS, SIGNATURES
from meltline.domain.errors import StatementUnsupported
from tests.unit.sql.lakets_session import LaketsSession


def names(text: str) -> list[str]:
    return text.split()


TIERING = names("""
    add_tiering_policy remove_tiering_policy show_tiering_policy tier_chunk untier_chunk
    add_retention_policy add_tiered_retention_policy remove_retention_policy
    show_retention_policy execute_retention enable_sync disable_sync show_tiering_status
""")
ROLLUPS = names("""
    create_rollup refresh_rollup refresh_rollup_cascade drop_rollup show_rollups show_rollup_dag
    invalidate_rollup_range enable_rollup_invalidation create_rollup_view
""")
OTHERS = names("""
    create_chronotable create_hypertable set_chunk_interval show_chunks drop_chunks
    time_bucket time_bucket_gapfill first last locf interpolate delta rate histogram
    disable_rollup_invalidation
    add_compression_policy remove_compression_policy show_compression_policy
    compress_chunk decompress_chunk
    lakets_metrics chunk_health query_stats
    create_metric_table cardinality_stats cardinality_check
    enable_lvc disable_lvc latest_values lvc_stats
    create_downsample_pipeline query_auto_resolution show_downsample_pipelines
    drop_downsample_pipeline
    alert_check alert_deadman ingest_batch ingest_prometheus
    enable_rollup_export disable_rollup_export show_rollup_exports
    register_uc_table tag_uc_table get_uc_registrations unregister_uc_table
""")
INTERNAL = names("""
    _ensure_partitions _resolve_partition_parent _first_sfunc _first_ffunc _last_sfunc _last_ffunc
    _cdf_committed_lsn _stamp_tiered_chunk_lsn _install_tiering_write_tracking
    _remove_tiering_write_tracking _get_chunks_to_tier _get_chunks_to_compress
    _sync_trigger_fn _build_shadow_table _enable_chronotable_sync _enable_rollup_sync
    _disable_chronotable_sync _disable_rollup_sync _lvc_trigger_fn
    _touch_chunk_metadata _get_dirty_chunks _inject_time_predicate _refresh_buckets_batch
    _refresh_buckets_chunked _validate_rollup_dependencies _build_rollup_dag _resolve_bucket_tier
    _rollup_invalidation_trigger_fn _bulk_import_invalidation _detect_bucket_column
    _rollup_watermark
""")
OURS = ["remove_tiered_retention_policy", "show_tiered_retention_policy"]
"""What the reference does not have."""


@pytest.fixture
def sql() -> LaketsSession:
    return LaketsSession()


def test_every_function_of_the_reference_runs_or_is_refused_and_none_is_both() -> None:
    reference = {*TIERING, *ROLLUPS, *OTHERS, *INTERNAL}
    assert {*FUNCTIONS, *INSTEAD} == {*reference, *OURS}
    assert not FUNCTIONS.keys() & INSTEAD.keys()
    assert FUNCTIONS.keys() >= {*TIERING, *OURS}
    assert INSTEAD.keys() >= {*OTHERS, *INTERNAL}


def test_a_function_about_rollups_runs_once_something_does_it() -> None:
    assert {signature.name for signature in SIGNATURES} == set(ROLLUPS)
    assert set(HANDLERS) <= set(ROLLUPS)
    assert set(ROLLUPS) - set(HANDLERS) <= INSTEAD.keys()


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_does_not_run_is_refused_by_name_with_what_to_use(
    sql: LaketsSession, name: str
) -> None:
    for text in (f"SELECT lakets.{name}(whatever, 1)", f"SELECT max(lakets.{name}(v)) FROM t"):
        with pytest.raises(StatementUnsupported) as refused:
            sql(text)
        assert refused.value.object == f"lakets.{name}"
        assert refused.value.next == f"instead: {INSTEAD[name]}"
    assert sql.opened == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("add_tierring_policy", "lakets.add_tiering_policy"),
        ("drop_chunk", "lakets.drop_chunks"),
        ("zzzz", "look there"),
    ],
)
def test_a_function_that_the_reference_does_not_have_is_told_with_names_alike(
    sql: LaketsSession, name: str, near: str
) -> None:
    for text in (f"SELECT lakets.{name}()", f"SELECT 1 + lakets.{name}()"):
        with pytest.raises(StatementUnsupported, match=f"there is no function lakets.{name}") as no:
            sql(text)
        assert near in no.value.next


def test_a_function_that_runs_is_called_by_itself(sql: LaketsSession) -> None:
    for text in (
        "SELECT lakets.enable_sync('metrics'), lakets.add_tiering_policy('metrics', '7 days')",
        "SELECT * FROM lakets.show_tiering_status() WHERE caught_up",
        "CALL lakets.enable_sync('metrics')",
    ):
        with pytest.raises(StatementUnsupported, match="called within a statement"):
            sql(text)
    assert sql.opened == [] and sql.lake.sync is None
