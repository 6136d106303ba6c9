"""History: what is there and what was dropped, one row per version (TT-47 to TT-50)."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from meltline.app.catalog.resolve import find_object
from meltline.app.drop.drop import drop, rename
from meltline.app.drop.history import Listed, history
from meltline.app.drop.undrop import undrop
from meltline.app.retention.policies import change_policy
from meltline.domain.drop.history import HistoryRow, cluster_by, is_like
from meltline.domain.errors import NamespaceNotFound, UsageInvalid
from meltline.domain.retention.policy import RETENTION
from tests.lake.lake import DAY, T0, Lake

COLUMNS = [
    "created_on", "name", "database_name", "schema_name", "kind", "comment", "cluster_by", "rows",
    "bytes", "owner", "retention_time", "dropped_on",
]  # fmt: skip


def rows(lake: Lake, what: Listed = Listed.TABLES, **more: Any) -> list[HistoryRow]:
    found, unread = history(lake.services(), what, **more)
    assert unread == []
    return found


def shown(lake: Lake, what: Listed = Listed.TABLES, **more: Any) -> list[tuple[str, bool]]:
    """Names, and whether each is a dropped one."""
    return [(row.name, row.dropped_on is not None) for row in rows(lake, what, **more)]


def test_the_columns_are_those_that_people_know_in_their_order() -> None:
    # TT-48
    assert [field.name for field in fields(HistoryRow)] == COLUMNS


def test_a_row_says_what_the_catalog_and_the_metadata_say() -> None:
    lake = Lake()
    lake.on(1)
    table = lake.table("lake.air.eu.west.t", properties={"owner": "ann", "comment": "flights"})
    lake.on(2)
    table.append("a")

    def change(document: dict[str, Any]) -> None:
        totals = {"total-records": "48", "total-files-size": "16248"}
        document["snapshots"][0]["summary"].update(totals)
        field = {"source-id": 1, "field-id": 1000, "name": "id_bucket", "transform": "bucket[8]"}
        document["partition-specs"].append({"spec-id": 1, "fields": [field]})
        document["default-spec-id"] = 1

    table.edit(change)
    assert rows(lake) == [
        HistoryRow(
            created_on=T0 + DAY, name="t", database_name="air", schema_name="eu.west",
            kind="TABLE", comment="flights", cluster_by="bucket[8](id)", rows=48, bytes=16248,
            owner="ann", retention_time=7, dropped_on=None,
        )
    ]  # fmt: skip


def test_a_table_without_a_commit_has_no_rows_and_no_bytes() -> None:
    lake = Lake()
    lake.table("t", properties={"meltline.transient": "true"})
    (row,) = rows(lake)
    assert (row.rows, row.bytes, row.kind) == (0, 0, "TRANSIENT")


def test_of_versions_dropped_at_one_moment_the_last_one_comes_first_as_undrop_takes_it() -> None:
    # TT-43
    lake = Lake()
    for version in range(5):
        where, comment = f"file:///w/air/t{version}", {"comment": f"v{version}"}
        lake.on(0).table("t", location=where, properties=comment).append(f"f{version}")
        drop(lake.services(), "lake.air.t")
    assert [row.comment for row in rows(lake)] == ["v4", "v3", "v2", "v1", "v0"]
    for version in (4, 3, 2, 1, 0):
        undrop(lake.services(), "lake.air.t")
        assert next(row.comment for row in rows(lake) if not row.dropped_on) == f"v{version}"
        rename(lake.services(), "lake.air.t", f"lake.air.t{version}")


def test_what_is_there_comes_first_by_name_then_what_was_dropped_the_latest_first() -> None:
    # TT-50
    lake = Lake()
    for day, name in enumerate(["b", "c", "a", "d"]):
        lake.on(day).table(name)
    for day, name in ((4, "d"), (5, "b")):
        lake.on(day)
        drop(lake.services(), f"lake.air.{name}")
    assert shown(lake) == [("a", False), ("c", False), ("b", True), ("d", True)]
    assert [row.dropped_on for row in rows(lake)][2:] == [T0 + 5 * DAY, T0 + 4 * DAY]


def test_an_object_dropped_twice_has_two_rows_and_what_came_back_is_not_dropped() -> None:
    # TT-49
    lake = Lake()
    for day in range(2):
        lake.on(day).table("t", location=f"file:///w/air/t-{day}")
        drop(lake.services(), "lake.air.t")
    assert shown(lake) == [("t", True), ("t", True)]
    created = [row.created_on for row in rows(lake)]
    undrop(lake.services(), "lake.air.t")
    assert shown(lake) == [("t", False), ("t", True)]
    assert [row.created_on for row in rows(lake)] == created


def test_what_cannot_be_brought_back_any_more_is_not_listed() -> None:
    lake = Lake()
    lake.table("t")
    drop(lake.services(), "lake.air.t")
    lake.on(7)
    assert shown(lake) == [("t", True)]
    lake.clock.moment += timedelta(milliseconds=1)
    assert shown(lake) == []


def test_a_dropped_row_shows_the_frozen_retention_and_a_live_one_the_present() -> None:
    lake = Lake()
    for name in ("t", "u"):
        lake.table(name)
    drop(lake.services(), "lake.air.t")
    name = find_object(lake.services(), "lake.air")
    change_policy(lake.services(), name, {RETENTION: "30"}, dry_run=False)
    assert [(row.name, row.retention_time) for row in rows(lake)] == [("u", 30), ("t", 7)]


@pytest.mark.parametrize(
    ("like", "names"),
    [
        ("load%", ["LOADDATA1", "loaddata2"]),
        ("LOAD%", ["LOADDATA1", "loaddata2"]),
        ("%1", ["LOADDATA1", "proddata1"]),
        ("loaddata_", ["LOADDATA1", "loaddata2"]),
        ("loaddata", []),
        ("a[b]", ["a[b]"]),
        ("%", ["LOADDATA1", "a[b]", "loaddata2", "proddata1"]),
    ],
)
def test_like_is_sqls_whatever_the_case(like: str, names: list[str]) -> None:
    # TT-47
    lake = Lake()
    for name in ("LOADDATA1", "loaddata2", "proddata1", "lake.air.`a[b]`"):
        lake.table(name)
    assert sorted(row.name for row in rows(lake, like=like)) == names


def test_a_backslash_spares_a_wildcard() -> None:
    assert is_like("a_b", r"a\_b") and not is_like("axb", r"a\_b")
    assert is_like("a%", r"a\%") and not is_like("ab", r"a\%")


def test_in_narrows_to_a_database_or_schema_also_a_dropped_one() -> None:
    lake = Lake()
    for name in ("lake.air.t", "lake.air.eu.u", "lake.sea.v"):
        lake.table(name)
    assert [row.name for row in rows(lake, within="lake.air")] == ["t", "u"]
    assert [row.name for row in rows(lake, within="lake.air.eu")] == ["u"]
    drop(lake.services(), "lake.air")
    assert shown(lake, within="lake.air.eu") == [("u", True)]
    assert shown(lake, within="lake.sea") == [("v", False)]


@pytest.mark.parametrize(
    ("within", "error"), [("lake.never", NamespaceNotFound), ("lake.`x", UsageInvalid)]
)
def test_in_what_is_not_there_is_refused(within: str, error: type[Exception]) -> None:
    lake = Lake()
    lake.table("t")
    with pytest.raises(error):
        rows(lake, within=within)


def test_schemas_and_databases_have_their_histories_and_our_own_are_not_among_them() -> None:
    lake = Lake()
    for name in ("lake.air.t", "lake.air.eu.u", "lake.sea.deep.v"):
        lake.table(name)
    drop(lake.services(), "lake.sea")
    assert shown(lake, Listed.DATABASES) == [("air", False), ("sea", True)]
    assert shown(lake, Listed.SCHEMAS) == [("eu", False), ("deep", True)]
    assert shown(lake, Listed.SCHEMAS, within="lake.air") == [("eu", False)]
    undrop(lake.services(), "lake.sea")
    assert shown(lake, Listed.DATABASES) == [("air", False), ("sea", False)]


def test_a_table_that_cannot_be_read_is_named_and_the_others_are_listed() -> None:
    lake = Lake()
    lake.table("t")
    broken = lake.table("broken")
    lake.spoil(broken.metadata_location)
    found, unread = history(lake.services(), Listed.TABLES)
    assert [row.name for row in found] == ["t"] and unread == ["lake.air.broken"]


def test_a_sort_order_says_more_about_clustering_than_a_partitioning() -> None:
    schema = {"fields": [{"id": 1, "name": "day"}, {"id": 2, "name": "carrier"}]}
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "name": "d", "transform": "month"}]}
    order = {"order-id": 3, "fields": [{"source-id": 2, "transform": "identity"}]}
    document: dict[str, Any] = {
        "schemas": [schema],
        "partition-specs": [spec],
        "default-spec-id": 0,
        "sort-orders": [order],
        "default-sort-order-id": 3,
    }
    assert cluster_by(document) == "carrier"
    assert cluster_by({**document, "default-sort-order-id": 0}) == "month(day)"
    assert cluster_by({}) == ""
