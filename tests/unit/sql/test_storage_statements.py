"""Statements that ask what is stored, by stage."""

from meltline.app.run.lifecycle import run_chain
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.retention.policy import RETENTION, TRANSIENT
from tests.unit.sql.test_statements import Session, named_rows, sql

__all__ = ["sql"]


STORAGE = "SELECT * FROM MD_INFORMATION_SCHEMA.STORAGE_INFO"


def test_each_database_has_a_row_with_its_bytes_by_stage(sql: Session) -> None:
    # ML-36
    sql.lake.table("lake.sea.s", properties={}).overwrite("s")
    services = sql.lake.services()
    run_chain(services, sql.lake.request())
    expected: dict[str, list[int]] = {}
    for row in storage_rows(totals_now(services)):
        numbers = (row.active_bytes, row.historical_bytes, row.retained_for_clone_bytes,
                   row.failsafe_bytes)  # fmt: skip
        expected[row.table.namespace[0]] = list(numbers)
    air, sea = named_rows(sql, STORAGE)
    assert [row["database_name"] for row in (air, sea)] == ["air", "sea"]
    for row in (air, sea):
        assert [n for key, n in row.items() if key.endswith("_bytes")] == expected[
            row["database_name"]
        ]
    assert air["active_bytes"] and air["historical_bytes"]
    assert (air["database_id"], air["transient"], air["computed_ts"]) == (
        "lake.air", False, sql.lake.clock.now()
    )  # fmt: skip


def test_a_dropped_database_has_a_row_as_long_as_it_has_bytes(sql: Session) -> None:
    run_chain(sql.lake.services(), sql.lake.request())
    (before,) = named_rows(sql, STORAGE)
    sql.rows("DROP DATABASE air")
    (dropped,) = named_rows(sql, STORAGE)
    assert (dropped["database_name"], dropped["transient"]) == ("air", None)
    assert dropped["active_bytes"] == 0
    assert dropped["historical_bytes"] >= before["active_bytes"] + before["historical_bytes"]


HISTORY = "SELECT * FROM MD_INFORMATION_SCHEMA.STORAGE_INFO_HISTORY;"


def test_the_history_of_storage_has_what_each_run_recorded_for_thirty_days(sql: Session) -> None:
    # ML-37
    recorded = []
    for day in (4, 5, 34):
        sql.lake.on(day + 0.5)
        sql.table.overwrite(f"day{day}")
        run_chain(sql.lake.services(), sql.lake.request())
        recorded.append(named_rows(sql, STORAGE)[0])
    sql.lake.on(34.9)
    assert named_rows(sql, HISTORY) == [recorded[2], recorded[1]]  # day 4 is thirty days ago
    for row in recorded:
        assert row["active_bytes"] and row["historical_bytes"] and row["transient"] is False
    sql.table.overwrite("later")
    assert named_rows(sql, HISTORY) == [recorded[2], recorded[1]]
    sql.lake.on(65)
    assert named_rows(sql, HISTORY) == []


def test_the_history_of_storage_keeps_a_dropped_database_under_its_name(sql: Session) -> None:
    run_chain(sql.lake.services(), sql.lake.request())
    sql.rows("DROP DATABASE air")
    sql.lake.on(4)
    run_chain(sql.lake.services(), sql.lake.request())
    dropped, before = named_rows(sql, HISTORY)
    assert {row["database_id"] for row in (dropped, before)} == {"lake.air"}
    assert before["active_bytes"] and not dropped["active_bytes"] and dropped["historical_bytes"]
    assert dropped["transient"] is None


def test_each_database_says_its_retention_and_where_that_comes_from(sql: Session) -> None:
    # ML-35
    sql.lake.table("lake.sea.s")
    own = {RETENTION: "30"}
    sql.lake.catalogs["lake"].set_namespace_properties(("sea",), own | {TRANSIENT: "true"})
    air, sea = named_rows(sql, "SELECT * FROM md_information_schema.databases")
    assert air == {
        "database_name": "air", "database_id": "lake.air", "retention_days_raw": "inherited",
        "retention_days_effective": "7", "retention_source": "profile", "transient": False,
        "failsafe_days": 7, "profile": "business",
    }  # fmt: skip
    assert sea | {"database_name": "air", "database_id": "lake.air"} == air | {
        "retention_days_raw": "30", "retention_days_effective": "30",
        "retention_source": "lake.sea", "transient": True, "failsafe_days": 1,
    }  # fmt: skip
    sql.rows("ALTER DATABASE air SET SNAPSHOT_RETENTION_DAYS = 9")
    (air, _) = named_rows(sql, "SELECT * FROM MD_INFORMATION_SCHEMA.DATABASES;")
    assert (air["retention_days_raw"], air["retention_days_effective"]) == ("9", "9")


def test_a_dropped_table_that_no_run_had_seen_stays_with_its_database_until_its_last_byte(
    sql: Session,
) -> None:
    # ML-36
    sql.lake.table("lake.sea.s", properties={RETENTION: "1"}).append("s")
    sql.rows("DROP DATABASE sea")
    for day in (4, 6, 8, 10, 14, 16, 18, 22, 26):
        sql.lake.on(day)
        run_chain(sql.lake.services(), sql.lake.request())
        for text in (STORAGE, HISTORY):
            names = {row["database_name"] for row in named_rows(sql, text)}
            assert names <= {"air", "sea"} and "air" in names
    assert "let go" in {entry.action for entry in sql.lake.control.audit.entries()}
