"""The functions of LakeTS by the statements that its users write (LT-5 to LT-24, LT-34)."""

from datetime import timedelta

import pytest

from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.retention.holds import add_hold
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.errors import (
    ChunkNotFound,
    InvalidHorizons,
    MeltlineError,
    NotChunked,
    PolicyExists,
    SqlUnreadable,
    TableNotFound,
    UsageInvalid,
)
from tests.chunks.chunk_tables import day_name, reading
from tests.unit.sql.lakets_session import LaketsSession


@pytest.fixture
def sql() -> LaketsSession:
    return LaketsSession()


@pytest.fixture
def synced(sql: LaketsSession) -> LaketsSession:
    """The table synced, with both ages; on day 10 those of days 0 to 2 are due."""
    sql.value("enable_sync('metrics')")
    sql.value("add_tiered_retention_policy('metrics', '5 days', '7 days')")
    sql.lake.on(10)
    replicate(sql.lake.services(), chunked_tables(sql.lake.services()))
    sql.opened.clear()
    return sql


def policies(sql: LaketsSession) -> list[tuple[str, str, str]]:
    stored = sql.lake.control.chunk_policies.all([sql.lake.uuid])
    return [(str(p.type), str(p.tier_after or ""), str(p.drop_after or "")) for p in stored]


# --- names and arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        "'metrics', '7 days'",
        "'air.metrics', INTERVAL '7 days'",
        "'lake.air.metrics', '7 days'::interval",
        "'`air`.metrics', p_after => '1 week'",
        "p_after => '7 days', p_table_name => 'metrics'",
        "p_table_name := 'metrics', p_after := '7 days'",
        "'metrics', '7 days', 'air'",
        "'metrics', '7 days', p_schema_name => 'air'",
        "'metrics', '7 days', NULL",
        "$$metrics$$, $t$7 days$t$",
    ],
)
def test_a_table_and_an_age_are_said_in_every_way_of_postgres(
    sql: LaketsSession, arguments: str
) -> None:
    assert sql.value(f"add_tiering_policy({arguments})") == 1
    assert policies(sql) in ([("tiering", "7d", "")], [("tiering", "1w", "")])


def test_a_schema_of_its_own_completes_a_name_wherever_the_session_stands(
    sql: LaketsSession,
) -> None:
    assert sql.at("lake").value("add_tiering_policy('metrics', '7 days', 'air')") == 1
    with pytest.raises(UsageInvalid, match="not a complete name"):
        sql.at("lake").value("remove_tiering_policy('metrics')")
    with pytest.raises(UsageInvalid, match="says its schema already"):
        sql.value("remove_tiering_policy('air.metrics', 'air')")
    with pytest.raises(TableNotFound):
        sql.value("remove_tiering_policy('metrics', 'public')")
    with pytest.raises(TableNotFound, match=r"lake\.lake\.metrics"):  # no catalog stands there
        sql.value("remove_tiering_policy('metrics', 'lake')")
    with pytest.raises(UsageInvalid, match="is not a name"):
        sql.value("remove_tiering_policy('air..metrics')")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("add_tiering_policy('metrics')", "column 43: p_after expected, the end"),
        ("add_tiering_policy('metrics', NULL)", "p_after expected, NULL"),
        ("add_tiering_policy()", "p_table_name expected"),
        ("add_tiering_policy('metrics', '7 days', 'air', 'x')", "at most 3 arguments expected"),
        ("add_tiering_policy('metrics', p_afterr => '7 days')", "one of p_table_name, p_after"),
        ("add_tiering_policy('metrics', '7 days', p_after => '8 days')", "p_after once expected"),
        ("add_tiering_policy('metrics', 7)", "for p_after an interval .* a number: 7 found"),
        ("add_tiering_policy('metrics', TRUE)", "for p_after an interval"),
        ("add_tiering_policy(7, '7 days')", "for p_table_name a text expected"),
        ("execute_retention('metrics', p_force => 'maybe')", "for p_force TRUE or FALSE"),
        ("execute_retention('metrics', p_force => 1)", "for p_force TRUE or FALSE"),
        ("execute_retention('metrics', p_chunks => '2026-01-01')", "for p_chunks an array"),
        ("execute_retention('metrics', p_chunks => '{a,,b}')", "for p_chunks an array"),
        ("execute_retention('metrics', p_chunks => '{a,}')", "for p_chunks an array"),
        ("add_tiering_policy('metrics', now())", "column 45: a literal"),
    ],
)
def test_arguments_that_are_not_the_functions_are_refused_with_their_place(
    sql: LaketsSession, call: str, told: str
) -> None:
    with pytest.raises(SqlUnreadable, match=told):
        sql.value(call)
    assert policies(sql) == [] and sql.opened == []


def test_an_answers_column_is_called_as_the_statement_says(sql: LaketsSession) -> None:
    assert sql.rows("SELECT lakets.add_tiering_policy('metrics', '7 days') AS id") == [{"id": 1}]
    (row,) = sql.rows("SELECT * FROM lakets.show_tiering_policy('metrics') p (id, age)")
    assert list(row) == ["id", "age", "enabled", "last_run_at"]
    (row,) = sql.rows("SELECT * FROM lakets.show_tiering_policy('metrics') AS p")
    assert list(row) == ["policy_id", "after", "enabled", "last_run_at"]
    with pytest.raises(SqlUnreadable, match="at most 4 names"):
        sql("SELECT * FROM lakets.show_tiering_policy('metrics') p (a, b, c, d, e)")


# --- policies -------------------------------------------------------------------------------------


def test_every_kind_of_policy_is_added_shown_and_removed(sql: LaketsSession) -> None:
    tiering = sql.value("add_tiering_policy('metrics', '7 days')")
    retention = sql.value("add_retention_policy('metrics', p_drop_after => '90 days')")
    assert isinstance(tiering, int) and isinstance(retention, int)
    assert sql.rows("SELECT * FROM lakets.show_tiering_policy('metrics')") == [
        {"policy_id": tiering, "after": "7d", "enabled": True, "last_run_at": None}
    ]
    assert sql.rows("SELECT * FROM lakets.show_retention_policy('metrics');") == [
        {
            "policy_id": retention,
            "policy_type": "retention",
            "drop_after": "90d",
            "tier_after": None,
            "enabled": True,
            "last_run_at": None,
        }
    ]
    assert sql.value("remove_tiering_policy('metrics')") == ""
    assert sql.value("remove_retention_policy('metrics')") == ""
    assert policies(sql) == []

    sql.value("add_tiered_retention_policy('metrics', '7 days', '90 days')")
    for show in ("show_retention_policy", "show_tiered_retention_policy"):
        (row,) = sql.rows(f"SELECT * FROM lakets.{show}('metrics')")
        assert (row["policy_type"], row["tier_after"], row["drop_after"]) == (
            "tiered_retention",
            "7d",
            "90d",
        )
    assert sql.rows("SELECT * FROM lakets.show_tiering_policy('metrics')") == []
    assert sql.value("remove_tiered_retention_policy('metrics')") == ""
    assert policies(sql) == [] and sql.opened == []


def test_removing_a_retention_policy_removes_a_tiered_one_as_in_the_reference(
    sql: LaketsSession,
) -> None:
    sql.value("add_tiered_retention_policy('metrics', '7 days', '90 days')")
    assert sql.notices("remove_tiering_policy('metrics')") == (
        "lake.air.metrics has no tiering policy"
    )
    assert policies(sql) != []
    assert sql.value("remove_retention_policy('metrics')") == ""
    assert policies(sql) == []
    assert "no retention or tiered_retention policy" in sql.notices(
        "remove_retention_policy('metrics')"
    )


def test_a_policy_of_a_table_that_is_not_synced_is_a_notice(sql: LaketsSession) -> None:
    # LT-9
    assert "not synced" in sql.notices("add_tiering_policy('metrics', '7 days')")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("add_tiered_retention_policy('metrics', '7 days', '7 days')", InvalidHorizons),
        ("add_tiering_policy('metrics', 'soon')", InvalidHorizons),
        ("add_tiering_policy('never', '7 days')", TableNotFound),
        ("remove_tiering_policy('never')", TableNotFound),
        ("show_tiering_policy('never')", TableNotFound),
        ("enable_sync('never')", TableNotFound),
        ("execute_retention('never')", TableNotFound),
        ("tier_chunk('never@2026-01-01')", TableNotFound),
        ("tier_chunk('metrics@2026-01-01')", NotChunked),
        ("tier_chunk('metrics_20260101_000000')", UsageInvalid),
    ],
)
def test_what_a_command_refuses_a_statement_refuses(
    sql: LaketsSession, call: str, error: type[MeltlineError]
) -> None:
    # LT-24
    with pytest.raises(error):
        sql.value(call)
    assert policies(sql) == []


def test_a_second_policy_that_says_the_same_is_refused(sql: LaketsSession) -> None:
    sql.value("add_retention_policy('metrics', '90 days')")
    with pytest.raises(PolicyExists):
        sql.value("add_retention_policy('metrics', '90 days')")


# --- replication ----------------------------------------------------------------------------------


def test_a_sync_copies_everything_before_it_streams_and_is_ended(sql: LaketsSession) -> None:
    # LT-9, H1
    assert sql.value("enable_sync('metrics')") == ""
    assert sql.opened == ["enable_sync"] and len(sql.lake.cold_rows()) == 12
    assert sql.lake.sync is not None and sql.lake.sync.state == "STREAMING"
    assert "synced already" in sql.notices("enable_sync('metrics')")
    assert sql.opened == ["enable_sync"]
    assert "keeps what it has" in sql.notices("disable_sync('metrics')")
    assert sql.lake.sync is not None and sql.lake.sync.state == "STOPPED"
    assert "is not synced" in sql.notices("disable_sync('metrics')")
    sql.lake.check()


def test_ending_a_sync_that_nobody_began_is_a_notice(sql: LaketsSession) -> None:
    assert sql.notices("disable_sync('metrics')") == "lake.air.metrics is not synced"


# --- chunks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["metrics", "air.metrics", "lake.air.metrics"])
def test_a_chunk_is_flagged_whatever_its_age_and_the_flag_is_taken_back(
    synced: LaketsSession, table: str
) -> None:
    chunk = f"{table}@{day_name(5)}"
    assert synced.value(f"tier_chunk('{chunk}')") is True
    assert synced.statuses()[5] == "tiered"
    assert synced.value(f"untier_chunk('{chunk}')") == ""
    assert synced.statuses()[5] == "active"
    with pytest.raises(ChunkNotFound):
        synced.value(f"untier_chunk('{chunk}')")


def test_a_chunk_that_is_not_durable_or_unknown_is_not_flagged_and_the_notice_says_why(
    synced: LaketsSession,
) -> None:
    synced.hot.append_rows(reading(99, 1))
    assert synced.value(f"tier_chunk('metrics@{day_name(1)}')") is False
    assert "BEHIND" in synced.notices(f"tier_chunk('metrics@{day_name(1)}')")
    assert synced.value("tier_chunk('metrics@1999-01-01')") is False


# --- retention ------------------------------------------------------------------------------------


def test_what_is_due_is_dropped_at_once_and_cold_has_it(synced: LaketsSession) -> None:
    # LT-18, LT-21
    assert synced.value("execute_retention('metrics')") == 3
    assert synced.statuses() == ["dropped"] * 3 + ["active"] * 3
    assert len(synced.lake.cold_rows()) == 12
    assert synced.value("execute_retention('metrics', 'air', FALSE)") == 0
    synced.lake.check()


def test_nothing_is_dropped_without_a_policy_and_nothing_is_started(sql: LaketsSession) -> None:
    assert sql.value("execute_retention('metrics')") == 0
    assert sql.value("execute_retention('metrics', p_force => TRUE)") == 0
    sql.value("add_tiering_policy('metrics', '5 days')")
    sql.lake.on(10)
    assert sql.value("execute_retention('metrics')") == 0
    assert sql.value("execute_retention('metrics', p_force => TRUE)") == 0
    assert sql.opened == [] and len(sql.lake.hot_rows()) == 12


def test_a_tiered_policy_of_a_table_that_is_not_synced_drops_nothing(sql: LaketsSession) -> None:
    # LT-20
    sql.value("add_tiered_retention_policy('metrics', '5 days', '7 days')")
    sql.lake.on(10)
    outcome = sql("SELECT lakets.execute_retention('metrics')")
    assert outcome.read is not None and outcome.read.rows == ((0,),)
    assert any("NOT_SYNCED" in warning for warning in outcome.warnings)


# --- force ----------------------------------------------------------------------------------------


@pytest.fixture
def behind(synced: LaketsSession) -> LaketsSession:
    """A row of day 1 that cold has not got yet."""
    late = reading(99, 1)
    synced.hot.append_rows(late)
    synced.lake.accepted.rows.add(late)
    return synced


def audited(sql: LaketsSession) -> list[tuple[str, str]]:
    entries = sql.lake.control.audit.entries()
    return [(e.reason, e.detail) for e in entries if e.action == "chunks drop --force"]


def test_a_force_without_chunks_is_about_those_that_are_due_and_says_which(
    behind: LaketsSession,
) -> None:
    # LT-22: the reference's own call
    assert behind.value("execute_retention('metrics')") == 2
    days = [day_name(1)]
    behind.lake.forced = frozenset(days)
    outcome = behind("SELECT lakets.execute_retention('metrics', p_force => TRUE)")
    assert outcome.read is not None and outcome.read.rows == ((1,),)
    told = "\n".join(outcome.warnings)
    assert f"dropped by force: {days[0]}" in told
    assert f"{days[0]} (BEHIND): 3 rows" in told
    assert behind.statuses() == ["dropped"] * 3 + ["active"] * 3
    ((reason, detail),) = audited(behind)
    assert reason == "execute_retention(p_force => TRUE) by tester"
    assert detail.startswith(f"1 chunks: {days[0]}, ")
    behind.lake.check()


def test_a_force_does_not_go_past_a_hold(behind: LaketsSession) -> None:
    days = [day_name(n) for n in range(3)]
    behind.lake.forced = frozenset(days)
    add_hold(behind.lake.services(), str(behind.hot.name), reason="case 17")
    outcome = behind("SELECT lakets.execute_retention('metrics', 'air', TRUE)")
    assert outcome.read is not None and outcome.read.rows == ((0,),)
    assert "HELD" in "\n".join(outcome.warnings)
    assert behind.statuses() == ["active"] * 6


def test_a_force_past_the_age_names_its_chunks_and_says_why(behind: LaketsSession) -> None:
    days = (day_name(1), day_name(4))
    behind.lake.forced = frozenset(days)
    chunks = f"p_chunks => ARRAY['{days[0]}', 'air.metrics@{days[1]}']"
    with pytest.raises(UsageInvalid, match="and a reason"):
        behind.value(f"execute_retention('metrics', p_force => TRUE, {chunks})")
    why = "p_reason => 'case 17'"
    assert behind.value(f"execute_retention('metrics', p_force => TRUE, {chunks}, {why})") == 2
    assert [reason for reason, _ in audited(behind)] == ["case 17"]
    behind.lake.check()


def test_words_of_a_force_without_one_are_refused(behind: LaketsSession) -> None:
    for word in ("p_chunks => '{2026-01-02}'", "p_reason => 'why not'"):
        with pytest.raises(UsageInvalid, match="for a forced drop only"):
            behind.value(f"execute_retention('metrics', {word})")
    with pytest.raises(UsageInvalid, match="is no chunk of"):
        behind.value(
            "execute_retention('metrics', p_force => TRUE, p_reason => 'x',"
            " p_chunks => ARRAY['lake.air.other@2026-01-02'])"
        )
    with pytest.raises(UsageInvalid, match="needs the chunks by name"):
        behind.value("execute_retention('metrics', p_force => TRUE, p_chunks => '{}')")
    assert behind.statuses() == ["active"] * 6


# --- status ---------------------------------------------------------------------------------------

_STATUS = [
    "schema_name",
    "table_name",
    "after",
    "active_chunks",
    "tiered_chunks",
    "pending_chunks",
    "reclaimable_bytes",
    "reclaimed_bytes",
    "cdf_status",
    "cdf_lag_bytes",
    "caught_up",
    "last_run_at",
    "pending_bytes",
    "pending_since",
    "pending_lag_seconds",
    "on_disk_bytes",
    "on_disk_until",
]


def test_the_status_has_the_columns_and_words_of_the_reference(sql: LaketsSession) -> None:
    # LT-16
    assert sql.rows("SELECT * FROM lakets.show_tiering_status()") == []
    sql.value("add_tiering_policy('metrics', '7 days')")
    (row,) = sql.rows("SELECT * FROM lakets.show_tiering_status()")
    assert list(row) == _STATUS
    assert (row["schema_name"], row["table_name"], row["cdf_status"]) == ("air", "metrics", "NONE")
    assert (row["cdf_lag_bytes"], row["caught_up"]) == (None, False)
    sql.value("enable_sync('metrics')")
    (row,) = sql.rows("SELECT lakets.show_tiering_status('metrics')")
    assert (row["cdf_status"], row["caught_up"], row["active_chunks"]) == ("STREAMING", True, 6)
    sql.value("disable_sync('metrics')")
    (row,) = sql.rows("SELECT * FROM lakets.show_tiering_status(p_schema_name => 'air')")
    assert (row["cdf_status"], row["caught_up"]) == ("SKIPPED", False)
    assert sql.rows("SELECT * FROM lakets.show_tiering_status('other')") == []


def test_the_status_counts_what_is_past_its_age_and_how_long_it_has_been_that(
    synced: LaketsSession,
) -> None:
    (row,) = synced.rows("SELECT * FROM lakets.show_tiering_status()")
    now, since = synced.lake.clock.now(), row["pending_since"]
    assert row["pending_chunks"] == 5 and row["pending_bytes"] > 0  # past five days, of six
    assert now - since == timedelta(days=4) == timedelta(seconds=row["pending_lag_seconds"])
    synced.value("execute_retention('metrics')")
    (row,) = synced.rows("SELECT * FROM lakets.show_tiering_status()")
    assert row["pending_chunks"] == 2 and now - row["pending_since"] == timedelta(days=1)


def test_a_run_is_seen_in_the_status_and_the_policy(synced: LaketsSession) -> None:
    synced.value("execute_retention('metrics')")
    now = synced.lake.clock.now()
    (row,) = synced.rows("SELECT * FROM lakets.show_tiering_status()")
    assert (row["last_run_at"], row["reclaimed_bytes"]) == (now, 0)
    assert row["on_disk_bytes"] > 0 and row["on_disk_until"] is None  # time travel reads them
    (policy,) = synced.rows("SELECT * FROM lakets.show_retention_policy('metrics')")
    assert policy["last_run_at"] == now
    assert policy["policy_type"] == PolicyType.TIERED_RETENTION
