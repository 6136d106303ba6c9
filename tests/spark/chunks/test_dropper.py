"""One commit drops exactly what a gate has passed, and nothing that came after it (LT-36).

Each late write happens between the gate and the drop, or between the drop's scan and its commit.
"""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import sleep

import pytest

from meltline.adapters.chunks.dropper import JvmChunkDropper
from meltline.config.load import load_config
from meltline.domain.chunks.layout import layout_of
from meltline.domain.chunks.ranges import Unit
from meltline.domain.errors import MeltlineError
from meltline.ports.chunks import DropOutcome, DropRequest
from tests.spark.setups import late_writes as lw
from tests.spark.setups.late_writes import DAY_1, DAY_2, DAY_3, FIRST_DAY
from tests.spark.setups.warehouse import SPACE, Warehouse

pytestmark = pytest.mark.spark

Late = Callable[[Warehouse, str], None]
VERSIONS = (2, 3)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    yield Warehouse.empty(tmp_path_factory.mktemp("dropper"), "dropping")


def dropper(lake: Warehouse) -> JvmChunkDropper:
    return JvmChunkDropper(lake.spark, load_config(lake.yaml, {}, lake.root).catalogs)


def filled(lake: Warehouse, table: str, version: int, mode: str = "merge-on-read") -> str:
    """Two days of two files each, and a third of one."""
    lake.sql(f"DROP TABLE IF EXISTS {{{table}}} PURGE")
    lw.create(lake, table, version, mode)
    for day, first in ((DAY_1, 0), (DAY_2, 100), (DAY_3, 200)):
        lw.insert(lake, table, day, *range(first, first + 10))
    lw.insert(lake, table, DAY_1, 10, 11, 12)
    lw.insert(lake, table, DAY_2, 110, 111, 112)
    return table


def sql(statement: str) -> Late:
    def write(lake: Warehouse, table: str) -> None:
        lake.sql(statement.replace("{t}", f"{{{table}}}"))

    return write


def copy_on_write(lake: Warehouse, table: str) -> None:
    lake.sql(
        f"ALTER TABLE {{{table}}} SET TBLPROPERTIES ('write.update.mode'='copy-on-write')",
        f"UPDATE {{{table}}} SET user = 99 WHERE id = 3",
    )


def overwrite(lake: Warehouse, table: str) -> None:
    row = f"SELECT 3L AS id, TIMESTAMP '{DAY_1} 01:00:00' AS ts, 1 AS user"
    lake.spark.sql(row).writeTo(lake.name(table)).overwritePartitions()


def compaction(lake: Warehouse, table: str) -> None:
    options = "options => map('min-input-files', '2')"
    lake.sql(f"CALL rewrite_data_files(table => '{SPACE}.{table}', {options})")


def manifests(lake: Warehouse, table: str) -> None:
    lake.sql(f"CALL rewrite_manifests('{SPACE}.{table}')")


CONFLICTING: dict[str, Late] = {
    "insert": lambda lake, table: lw.insert(lake, table, DAY_1, 50, 51),
    "equality delete": lambda lake, table: lw.delete_by_user(lake, table, 3, FIRST_DAY),
    "row delete": sql("DELETE FROM {t} WHERE id = 3"),
    "copy-on-write update": copy_on_write,
    "merge-on-read update": sql("UPDATE {t} SET user = 99 WHERE id = 3"),
    "move into it": sql(f"UPDATE {{t}} SET ts = TIMESTAMP '{DAY_1} 20:00:00' WHERE id = 201"),
    "move out of it": sql(f"UPDATE {{t}} SET ts = TIMESTAMP '{DAY_3} 20:00:00' WHERE id = 3"),
    "merge": sql(
        "MERGE INTO {t} USING (SELECT 3L AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE"
    ),
    "delete of whole files": sql(f"DELETE FROM {{t}} WHERE ts < TIMESTAMP '{DAY_2} 00:00:00'"),
    "overwrite": overwrite,
    "compaction": compaction,
}
HARMLESS: dict[str, tuple[Late, set[int]]] = {
    "insert elsewhere": (lambda lake, table: lw.insert(lake, table, DAY_3, 250), {250}),
    "equality delete elsewhere": (
        lambda lake, table: lw.delete_by_user(lake, table, 3, FIRST_DAY + 2),
        {-203},
    ),
    "row delete elsewhere": (sql("DELETE FROM {t} WHERE id = 203"), {-203}),
    "rewritten manifests": (manifests, set()),
    "property": (sql("ALTER TABLE {t} SET TBLPROPERTIES ('a'='b')"), set()),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("late", CONFLICTING)
def test_a_late_write_to_the_chunk_stops_the_drop_and_keeps_what_it_did(
    lake: Warehouse, version: int, late: str
) -> None:
    table = filled(lake, "late", version)
    request = lw.request(lake, table, DAY_1)
    CONFLICTING[late](lake, table)
    before, at = lake.sql("SELECT * FROM {late} ORDER BY id"), lw.head(lake, table)
    outcome = dropper(lake).drop(request)
    assert outcome.snapshot_id is None and outcome.conflict
    assert lw.head(lake, table) == at
    assert lake.sql("SELECT * FROM {late} ORDER BY id") == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("late", HARMLESS)
def test_a_late_write_elsewhere_survives_the_drop(lake: Warehouse, version: int, late: str) -> None:
    table = filled(lake, "late", version)
    request = lw.request(lake, table, DAY_1)
    write, difference = HARMLESS[late]
    write(lake, table)
    outcome = dropper(lake).drop(request)
    assert outcome.conflict == "" and outcome.snapshot_id == lw.head(lake, table)
    others = {*range(100, 113), *range(200, 210)} - {-id for id in difference if id < 0}
    assert lw.rows(lake, table) == sorted(others | {id for id in difference if id > 0})


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_read_or_written_but_metadata_and_the_past_stays(
    lake: Warehouse, version: int
) -> None:
    table = filled(lake, "plain", version)
    lake.sql("DELETE FROM {plain} WHERE id IN (3, 103)")
    lw.delete_by_user(lake, table, 4, FIRST_DAY, FIRST_DAY + 1)
    before, rows = lw.head(lake, table), lw.rows(lake, table)
    request = lw.request(lake, table, DAY_1)
    kept, deletes = lw.live_files(lake, table), lw.deletes(lake, table)
    data = next(lake.folder.glob(f"{SPACE}/{table}/data"))
    away = data.rename(data.with_name("away"))
    outcome = dropper(lake).drop(request)
    assert not data.exists()
    away.rename(data)
    assert outcome.snapshot_id == lw.head(lake, table) != before
    summary = lake.document(table)["snapshots"][-1]["summary"]
    assert summary["operation"] == "delete" and "added-data-files" not in summary
    assert summary[lw.DROP_PLAN] == "plan-7" and summary["meltline.chunks"] == DAY_1
    assert lw.live_files(lake, table) == kept - request.files
    assert (deletes, lw.deletes(lake, table)) == (4, 2)  # those of the other day stay
    assert lw.rows(lake, table, before) == rows
    assert lw.rows(lake, table) == [id for id in rows if id >= 100]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_delete_that_may_reach_other_chunks_stays(lake: Warehouse, version: int) -> None:
    lake.sql("DROP TABLE IF EXISTS {wide} PURGE")
    lake.sql(
        "CREATE TABLE {wide} (id BIGINT, ts TIMESTAMP, user INT) USING iceberg"
        f" TBLPROPERTIES ('format-version'='{version}')",
        "ALTER TABLE {wide} ADD PARTITION FIELD days(ts)",
    )
    lw.insert(lake, "wide", DAY_1, 1, 2)
    lw.insert(lake, "wide", DAY_2, 101, 102)
    lw.delete_by_user(lake, "wide", 1, spec=0)
    assert lw.rows(lake, "wide") == [2, 102]
    outcome = dropper(lake).drop(lw.request(lake, "wide", DAY_1))
    assert outcome.snapshot_id and lw.rows(lake, "wide") == [102]
    assert lw.deletes(lake, "wide") == 1
    request = lw.request(lake, "wide", DAY_2)
    lw.delete_by_user(lake, "wide", 2, spec=0)  # late, of no partition: it may reach every chunk
    assert dropper(lake).drop(request).conflict
    assert lw.rows(lake, "wide") == []


def test_position_deletes_of_several_days_stay_with_the_days_that_stay(lake: Warehouse) -> None:
    table = filled(lake, "several", 2)
    lake.sql("ALTER TABLE {several} SET TBLPROPERTIES ('write.delete.granularity'='partition')")
    lake.sql("DELETE FROM {several} WHERE id % 10 IN (0, 1)")  # both files of a day in one
    assert lw.deletes(lake, table) == 3
    assert dropper(lake).drop(lw.request(lake, table, DAY_1, DAY_2)).snapshot_id
    assert lw.deletes(lake, table) == 1
    assert lw.rows(lake, table) == list(range(202, 210))


# --- what the gate has passed must be what is there -----------------------------------------------


def test_one_file_more_or_fewer_than_the_gate_has_passed_is_a_conflict(lake: Warehouse) -> None:
    table = filled(lake, "exact", 2)
    request = lw.request(lake, table, DAY_1)
    (first, *others) = sorted(request.files)
    other_day = next(iter(lw.files_of(lake, table, [DAY_3])))
    for files, words in (
        (frozenset(others), f"1 more, such as {first}"),
        (request.files | {other_day}, f"1 fewer, such as {other_day}"),
        (frozenset[str](), "2 more"),
    ):
        outcome = dropper(lake).drop(replace(request, files=files))
        assert outcome.snapshot_id is None and words in outcome.conflict
    assert dropper(lake).drop(replace(request, chunks=("unbounded",))).conflict
    assert dropper(lake).drop(replace(request, chunks=())).conflict
    assert dropper(lake).drop(request).snapshot_id


def test_a_main_that_does_not_descend_from_the_base_is_a_conflict(lake: Warehouse) -> None:
    table = filled(lake, "back", 2)
    request, base = lw.request(lake, table, DAY_1), lw.head(lake, table)
    lake.sql(f"CALL rollback_to_snapshot('{SPACE}.back', {lake.snapshots(table)[-2]})")
    assert "does not descend" in dropper(lake).drop(request).conflict
    lw.insert(lake, table, DAY_3, 300)
    assert "does not descend" in dropper(lake).drop(request).conflict
    gone = dropper(lake).drop(replace(request, base_snapshot=base + 1))
    assert "is not in the table" in gone.conflict


def test_a_table_that_nobody_can_load_is_an_error(lake: Warehouse) -> None:
    table = filled(lake, "gone", 2)
    request = replace(lw.request(lake, table, DAY_1), table=lw.name(lake, "never"))
    with pytest.raises(MeltlineError, match="nothing was committed"):
        dropper(lake).drop(request)


def test_nobody_knows_what_became_of_a_commit_that_the_catalog_did_not_answer(
    lake: Warehouse,
) -> None:
    table = filled(lake, "mute", 2)
    request = lw.request(lake, table, DAY_1)
    rows = lw.rows(lake, table)
    with closing(sqlite3.connect(lake.db, isolation_level=None)) as catalog:
        catalog.execute("BEGIN IMMEDIATE")  # the catalog can be read, and not be changed
        with pytest.raises(MeltlineError, match="nobody knows") as unknown:
            dropper(lake).drop(request)
        catalog.execute("ROLLBACK")
    assert "plan's id" in unknown.value.next and lw.rows(lake, table) == rows


# --- between the scan and the commit --------------------------------------------------------------


def dropped_while(lake: Warehouse, table: str, write: Late) -> DropOutcome:
    """A drop whose first commit the catalog refuses, since a write has come between.

    The write is made before and hidden again. It is shown when the drop, which has validated all
    it saw, has written the metadata that it is about to commit.
    """
    request, base = lw.request(lake, table, DAY_1), lake.location(table)
    write(lake, table)
    newer = lake.location(table)
    folder = Path(newer.removeprefix("file:")).parent
    with closing(sqlite3.connect(lake.db, isolation_level=None)) as catalog:
        point(catalog, table, base)
        before = set(folder.glob("*.metadata.json"))
        catalog.execute("BEGIN IMMEDIATE")  # nobody else commits
        with ThreadPoolExecutor(1) as pool:
            outcome = pool.submit(dropper(lake).drop, request)
            while set(folder.glob("*.metadata.json")) == before and not outcome.done():
                sleep(0.005)
            assert not outcome.done()
            point(catalog, table, newer)
            catalog.execute("COMMIT")
    return outcome.result()


def point(catalog: sqlite3.Connection, table: str, location: str) -> None:
    """Has the catalog say that the table stands there."""
    words = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
    assert catalog.execute(words, (location, table)).rowcount == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("late", ["insert", "equality delete", "row delete", "compaction"])
def test_the_engine_validates_anew_when_it_tries_again(
    lake: Warehouse, version: int, late: str
) -> None:
    table = filled(lake, "busy", version)
    outcome = dropped_while(lake, table, CONFLICTING[late])
    assert outcome.snapshot_id is None and outcome.conflict
    there = set(lw.rows(lake, table))
    assert (50 in there) is (late == "insert") and (3 in there) is ("delete" not in late)
    assert {4, 104, 204} <= there


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("late", HARMLESS)
def test_writes_elsewhere_only_make_it_try_again(lake: Warehouse, version: int, late: str) -> None:
    table = filled(lake, "busy", version)
    write, difference = HARMLESS[late]
    outcome = dropped_while(lake, table, write)
    assert outcome.conflict == "" and outcome.snapshot_id == lw.head(lake, table)
    others = {*range(100, 113), *range(200, 210)} - {-id for id in difference if id < 0}
    assert lw.rows(lake, table) == sorted(others | {id for id in difference if id > 0})


# --- columns, units and specs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "transform", "pattern", "unit", "values"),
    [
        ("TIMESTAMP", "days(ts)", "", None, "TIMESTAMP '{day} 23:59:59.999999'"),
        ("TIMESTAMP_NTZ", "hours(ts)", "", Unit.DAY, "TIMESTAMP_NTZ '{day} 23:59:59.999999'"),
        ("DATE", "ts", "", None, "DATE '{day}'"),
        ("DATE", "months(ts)", "", Unit.DAY, "DATE '{day}'"),
        ("INT", "ts", "%Y%m%d", None, "CAST(replace('{day}', '-', '') AS INT)"),
        ("BIGINT", "ts", "ms", Unit.DAY, "unix_millis(TIMESTAMP '{day} 23:59:59.999')"),
        ("INT", "ts", "d", None, "unix_date(DATE '{day}')"),
        ("STRING", "ts", "%Y-%m-%d", None, "'{day}'"),
    ],
)
def test_the_edges_of_a_chunk_hold_for_every_kind_of_column(
    lake: Warehouse, type: str, transform: str, pattern: str, unit: Unit | None, values: str
) -> None:
    lake.sql("DROP TABLE IF EXISTS {kinds} PURGE")
    lake.sql(
        f"CREATE TABLE {{kinds}} (id BIGINT, ts {type}) USING iceberg PARTITIONED BY ({transform})"
    )
    files: dict[str, frozenset[str]] = {}
    for id, day in enumerate(("2025-12-31", DAY_1, DAY_2)):
        before = lw.live_files(lake, "kinds")
        lake.sql(f"INSERT INTO {{kinds}} SELECT {id}L, {values.format(day=day)}")
        files[day] = frozenset(lw.live_files(lake, "kinds") - before)
    layout = layout_of(lake.document("kinds"), unit=unit, pattern=pattern)
    lake.sql("ALTER TABLE {kinds} RENAME COLUMN ts TO moment")
    plan = {lw.DROP_PLAN: "p"}
    request = DropRequest(
        lw.name(lake, "kinds"), lw.head(lake, "kinds"), layout, (DAY_1,), files[DAY_1], plan
    )
    lake.sql(f"INSERT INTO {{kinds}} SELECT 7L, {values.format(day=DAY_2)}")
    outcome = dropper(lake).drop(request)
    assert outcome.conflict == "" and lw.rows(lake, "kinds") == [0, 2, 7]
    request = replace(
        request,
        base_snapshot=lw.head(lake, "kinds"),
        chunks=("2025-12-31",),
        files=files["2025-12-31"],
    )
    lake.sql(f"INSERT INTO {{kinds}} SELECT 8L, {values.format(day='2025-12-31')}")
    assert dropper(lake).drop(request).conflict and lw.rows(lake, "kinds") == [0, 2, 7, 8]


def test_a_day_goes_with_the_files_of_its_older_and_its_newer_spec(lake: Warehouse) -> None:
    table = filled(lake, "evolved", 2)
    layout = layout_of(lake.document(table))
    lake.sql(
        "ALTER TABLE {evolved} DROP PARTITION FIELD days(ts)",
        "ALTER TABLE {evolved} ADD PARTITION FIELD hours(ts)",
    )
    lw.insert(lake, table, DAY_1, 20, 21)
    lw.insert(lake, table, DAY_2, 120)
    lake.sql("DELETE FROM {evolved} WHERE id IN (5, 20, 105)")
    request = lw.request(lake, table, DAY_1, layout=layout)
    assert len(request.files) == 3
    assert dropper(lake).drop(request).snapshot_id
    assert lw.rows(lake, table) == sorted({*range(100, 113), 120, *range(200, 210)} - {105})
    assert lw.deletes(lake, table) == 1


def test_a_thousand_chunks_go_in_one_commit(lake: Warehouse) -> None:
    lake.sql("DROP TABLE IF EXISTS {many} PURGE")
    lw.create(lake, "many", 3, "merge-on-read")
    start = Unit.DAY.parse(DAY_1)
    days = [Unit.DAY.label(start + timedelta(days=at)) for at in range(2001)]
    files = lw.add_unwritten(lake, "many", days, vectors=days[1:2000:200])
    every_other = tuple(days[1:2000:2])
    request = DropRequest(
        lw.name(lake, "many"),
        lw.head(lake, "many"),
        layout_of(lake.document("many")),
        every_other,
        frozenset(files[day] for day in every_other),
        {lw.DROP_PLAN: "p"},
    )
    assert (len(request.files), lw.deletes(lake, "many")) == (1000, 10)
    at = len(lake.snapshots("many"))
    outcome = dropper(lake).drop(request)
    assert outcome.conflict == "" and len(lake.snapshots("many")) == at + 1
    assert lw.live_files(lake, "many") == set(files.values()) - request.files
    assert lw.deletes(lake, "many") == 0 and len(lw.live_files(lake, "many")) == 1001
