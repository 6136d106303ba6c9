"""Rows and files of chunks, as Spark and Iceberg see them for the gate."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meltline.domain.chunks.columns import TimeColumn
from meltline.domain.chunks.layout import ChunkLayout, layout_of
from meltline.domain.chunks.ranges import UNBOUNDED, Unit
from meltline.domain.chunks.sync import RowDigest
from meltline.domain.errors import SyncRefused
from tests.spark.chunks.setups.two_tiers import SyncedTable, TwoTiers
from tests.spark.setups.warehouse import setting

pytestmark = pytest.mark.spark

BY_DAY = "PARTITIONED BY (days(at))"
ZONE = "spark.sql.session.timeZone"
FAR = "Pacific/Kiritimati"  # fourteen hours ahead: another day more often than not


@pytest.fixture(scope="module")
def tiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTiers]:
    yield TwoTiers.empty(tmp_path_factory.mktemp("rows"))


@dataclass(frozen=True)
class Timed:
    """A table of hot with one column of times."""

    tiers: TwoTiers
    table: str
    layout: ChunkLayout

    @classmethod
    def of(
        cls,
        tiers: TwoTiers,
        table: str,
        type: str,
        values: list[str],
        *,
        unit: Unit = Unit.DAY,
        pattern: str = "",
        spec: str = "",
    ) -> "Timed":
        """Each value is a row and a commit of its own."""
        tiers.hot.sql(f"CREATE TABLE {{{table}}} (id INT, at {type}) USING iceberg {spec}")
        for id, value in enumerate(values):
            tiers.hot.sql(f"INSERT INTO {{{table}}} VALUES ({id}, {value})")
        return cls(tiers, table, layout_of(tiers.hot.document(table), "at", unit, pattern))

    @property
    def head(self) -> int:
        return int(self.tiers.hot.document(self.table)["current-snapshot-id"])

    def digests(self, chunks: list[str] | None = None) -> dict[str, RowDigest]:
        name = self.tiers.name(self.tiers.hot, self.table)
        return dict(self.tiers.rows.digests(name, self.head, self.layout, chunks))

    def counts(self, chunks: list[str] | None = None) -> dict[str, int]:
        return {name: digest.rows for name, digest in self.digests(chunks).items()}

    def files(self, *chunks: str) -> dict[str, int]:
        """How many files each chunk has."""
        name = self.tiers.name(self.tiers.hot, self.table)
        found = self.tiers.rows.files(name, self.head, self.layout, chunks)
        return {chunk: len(paths) for chunk, paths in found.items()}


# --- in which chunk a row is ----------------------------------------------------------------------

MOMENTS = [
    "TIMESTAMP{} '2026-01-04 23:59:59.999999{}'",
    "TIMESTAMP{} '2026-01-05 00:00:00{}'",
    "TIMESTAMP{} '1969-12-31 23:00:00{}'",
    "TIMESTAMP{} '0001-01-01 00:00:00{}'",
    "TIMESTAMP{} '9999-12-31 12:00:00{}'",
    "TIMESTAMP{} '-0003-01-01 00:00:00{}'",
    "NULL",
]


@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times_fall_into_the_chunks_of_utc_in_every_zone(tiers: TwoTiers, type: str) -> None:
    kind, zone = ("_LTZ", " UTC") if type == "TIMESTAMP" else ("_NTZ", "")
    values = [value.format(kind, zone) for value in MOMENTS]
    table = Timed.of(tiers, f"z_{type}", type, values)
    expected = {"2026-01-04": 1, "2026-01-05": 1, "1969-12-31": 1, "0001-01-01": 1, UNBOUNDED: 3}
    by_unit = {
        Unit.HOUR: {"2026-01-04T23", "2026-01-05T00", "1969-12-31T23", "0001-01-01T00", "9999"},
        Unit.MONTH: {"2026-01", "1969-12", "0001-01"},
        Unit.YEAR: {"2026", "1969", "0001"},
    }
    for session in ("UTC", FAR):
        with setting(tiers.hot.spark, ZONE, session):
            assert table.counts() == expected
            assert table.counts(["2026-01-05", UNBOUNDED]) == {"2026-01-05": 1, UNBOUNDED: 3}
            for unit, names in by_unit.items():
                cut = replace(table, layout=ChunkLayout(table.layout.column, unit))
                noon = {"9999-12-31T12"} if unit is Unit.HOUR else set()
                assert set(cut.counts()) == (names - {"9999"}) | noon | {UNBOUNDED}
    tiers.hot.spark.conf.set(ZONE, "UTC")


@pytest.mark.parametrize(
    ("type", "pattern", "values", "expected"),
    [
        ("DATE", "", ["DATE '2026-01-05'", "DATE '9999-12-31'", "NULL"], {"2026-01-05": 1}),
        ("BIGINT", "s", ["1767571200", "1767571199", "9223372036854775807", "NULL"], None),
        ("BIGINT", "ms", ["1767571200000", "1767571199999", "-9223372036854775808"], None),
        ("BIGINT", "us", ["1767571200000000", "1767571199999999", "NULL"], None),
        ("INT", "h", ["490992", "490991", "2147483647"], None),
        ("INT", "d", ["20458", "20457", "-2147483648", "NULL"], None),
        ("INT", "%Y%m%d", ["20260105", "20260104", "20260230", "-5", "0", "NULL"], None),
        ("BIGINT", "%Y%m%d%H", ["2026010500", "2026010423", "2026010524", "202601050"], None),
        (
            "STRING",
            "%Y-%m-%d",
            ["'2026-01-05'", "'2026-01-04'", "'2026-1-5'", "'2026-01-05x'", "'2026-02-30'", "''"],
            None,
        ),
    ],
)
def test_dates_numbers_and_texts_mean_what_is_declared(
    tiers: TwoTiers, type: str, pattern: str, values: list[str], expected: dict[str, int] | None
) -> None:
    name = f"v_{type}_{pattern}".translate({ord(c): None for c in "%-"})
    table = Timed.of(tiers, name, type, values, pattern=pattern)
    expected = expected or {"2026-01-05": 1, "2026-01-04": 1}
    if rest := len(values) - sum(expected.values()):
        expected = {**expected, UNBOUNDED: rest}
    assert table.counts() == expected
    for chunk, count in expected.items():
        assert table.counts([chunk]) == {chunk: count}


def test_rows_fall_into_the_same_chunks_as_in_the_domain(tiers: TwoTiers) -> None:
    table = Timed.of(tiers, "same", "STRING", ["'2026-01'"], unit=Unit.MONTH, pattern="%Y-%m")
    column: TimeColumn = table.layout.column
    texts = ["2026-12", "2026-13", "0000-01", "0999-02", "2026-00", "9999-12", " 026-01", "2026/01"]
    tiers.hot.sql(f"INSERT INTO {{same}} VALUES {', '.join(f'(1, {t!r})' for t in texts)}")
    expected: dict[str, int] = {}
    for text in ["2026-01", *texts]:
        moment = column.instant(text)
        is_last = moment is not None and moment.year == 9999
        chunk = UNBOUNDED if moment is None or is_last else Unit.MONTH.label(moment)
        expected[chunk] = expected.get(chunk, 0) + 1
    assert table.counts() == expected


def test_only_files_of_the_chunks_are_read(tiers: TwoTiers) -> None:
    days = [f"TIMESTAMP '2026-01-0{day} 05:00:00 UTC'" for day in range(1, 6)]
    table = Timed.of(tiers, "pruned", "TIMESTAMP", days, spec=BY_DAY)
    chunks = ["2026-01-01", "2026-01-03", UNBOUNDED]
    for file in tiers.hot.folder.rglob("pruned/data/at_day=2026-01-0[245]/*.parquet"):
        file.unlink()
    assert table.counts(chunks) == {"2026-01-01": 1, "2026-01-03": 1}
    with pytest.raises(SyncRefused):
        table.counts()


def test_ten_thousand_chunks_are_asked_for_at_once(tiers: TwoTiers) -> None:
    tiers.hot.sql("CREATE TABLE {many} (id BIGINT, at DATE) USING iceberg")
    tiers.hot.sql(
        "INSERT INTO {many} SELECT id, date_add(DATE '1990-01-01', CAST(id % 20000 AS INT))"
        " FROM range(40000)"
    )
    table = Timed(tiers, "many", layout_of(tiers.hot.document("many"), "at", Unit.DAY))
    first = datetime(1990, 1, 1, tzinfo=UTC)
    every_other = [Unit.DAY.label(first + timedelta(days=2 * n)) for n in range(10_000)]
    assert table.counts(every_other) == dict.fromkeys(every_other, 2)
    assert table.files(*every_other).keys() == {"*"}


# --- what a digest tells apart --------------------------------------------------------------------

COLUMNS = (
    "id INT, at DATE, b BOOLEAN, f FLOAT, d DOUBLE, n DECIMAL(9, 2), y BINARY, z TIMESTAMP_NTZ, "
    "s STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<INT>, m MAP<STRING, ARRAY<INT>>"
)
ROW = {
    "id": "1",
    "at": "DATE '2026-01-05'",
    "b": "true",
    "f": "0.0F",
    "d": "1.5D",
    "n": "1.25",
    "y": "X'00FF'",
    "z": "TIMESTAMP_NTZ '2026-01-05 00:00:00'",
    "s": "named_struct('a', 1, 'b', named_struct('c', 'x'))",
    "l": "array(1, NULL)",
    "m": "map('a', array(1), 'b', NULL)",
}


def digest_of(tiers: TwoTiers, table: str, *rows: dict[str, str]) -> dict[str, RowDigest]:
    """The digests of a new table with these rows."""
    tiers.hot.sql(f"DROP TABLE IF EXISTS {{{table}}}")
    tiers.hot.sql(f"CREATE TABLE {{{table}}} ({COLUMNS}) USING iceberg")
    for row in rows:
        tiers.hot.sql(f"INSERT INTO {{{table}}} SELECT {', '.join(row.values())}")
    return Timed(tiers, table, layout_of(tiers.hot.document(table), "at", Unit.DAY)).digests()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "2"},
        {"id": "NULL"},
        {"b": "false"},
        {"f": "float('NaN')"},
        {"n": "1.26"},
        {"y": "X'FF00'"},
        {"z": "TIMESTAMP_NTZ '2026-01-05 00:00:00.000001'"},
        {"s": "NULL"},
        {"s": "named_struct('a', NULL, 'b', NULL)"},
        {"s": "named_struct('a', 1, 'b', named_struct('c', NULL))"},
        {"l": "array(NULL, 1)"},
        {"l": "array()"},
        {"l": "NULL"},
        {"m": "map('a', array(1), 'b', array())"},
        {"m": "map('a', array(1), 'c', NULL)"},
        {"m": "map('b', array(1), 'a', NULL)"},
    ],
    ids=str,
)
def test_a_digest_tells_values_apart(tiers: TwoTiers, change: dict[str, str]) -> None:
    one = digest_of(tiers, "one", ROW)["2026-01-05"]
    other = digest_of(tiers, "other", ROW | change)["2026-01-05"]
    assert one.rows == other.rows
    assert one.checksum != other.checksum


def test_a_digest_does_not_know_the_order_of_rows_and_maps_nor_kinds_of_zero(
    tiers: TwoTiers,
) -> None:
    second = ROW | {"id": "2", "f": "float('NaN')"}
    swapped = ROW | {"f": "-0.0F", "m": "map('b', NULL, 'a', array(1))"}
    one = digest_of(tiers, "one", ROW, second)
    other = digest_of(tiers, "other", second | {"f": "float('nan')"}, swapped)
    assert one == other
    assert one["2026-01-05"].nulls == tuple((id, 0) for id in range(1, 12))


def test_a_doubled_row_does_not_stand_for_a_lost_one(tiers: TwoTiers) -> None:
    second, third = ROW | {"id": "2"}, ROW | {"id": "3"}
    one = digest_of(tiers, "one", ROW, second, second)
    other = digest_of(tiers, "other", ROW, second, third)
    assert one != other


def test_columns_count_by_field_id_under_the_present_schema(tiers: TwoTiers) -> None:
    tiers.hot.sql(
        f"CREATE TABLE {{ids}} (id INT, at TIMESTAMP, word STRING) USING iceberg {BY_DAY}"
        " TBLPROPERTIES ('format-version'='2')",
        "INSERT INTO {ids} VALUES (1, TIMESTAMP '2026-01-05', 'a')",
    )
    synced = SyncedTable.of(tiers, "ids")
    synced.copy(everything=True)
    hot, cold = tiers.name(tiers.hot, "ids"), tiers.name(tiers.cold, "ids")
    before = tiers.rows.digests(hot, synced.head, synced.layout, None)
    tiers.hot.sql(
        "ALTER TABLE {ids} RENAME COLUMN word TO other",
        "ALTER TABLE {ids} ALTER COLUMN other FIRST",
        "ALTER TABLE {ids} ALTER COLUMN id TYPE BIGINT",
    )
    assert tiers.rows.digests(hot, synced.head, synced.layout, None) == before
    tiers.hot.sql("ALTER TABLE {ids} ADD COLUMN word STRING")
    wider = tiers.rows.digests(hot, synced.head, synced.layout, None)
    assert wider["2026-01-05"].checksum == before["2026-01-05"].checksum
    assert wider["2026-01-05"].nulls == ((1, 0), (2, 0), (3, 0), (4, 1))
    ids: Any = dict(columns={1, 2, 3, 4})
    assert tiers.rows.digests(cold, synced.cold_head, synced.layout, None, **ids) == wider
    tiers.hot.sql("ALTER TABLE {ids} DROP COLUMN other")
    ids = dict(columns={1, 2, 4})
    assert tiers.rows.digests(
        cold, synced.cold_head, synced.layout, None, **ids
    ) == tiers.rows.digests(hot, synced.head, synced.layout, None)


def test_rows_of_some_data_files_alone_are_digested(tiers: TwoTiers) -> None:
    day = "TIMESTAMP '2026-01-05 05:00:00 UTC'"
    table = Timed.of(tiers, "late", "TIMESTAMP", [day, day, day], spec=BY_DAY)
    name = tiers.name(tiers.hot, "late")
    files = tiers.rows.files(name, table.head, table.layout, ["2026-01-05"])["2026-01-05"]
    parts = [
        tiers.rows.digests(name, table.head, table.layout, ["2026-01-05"], only_files=some)
        for some in (list(files)[:1], list(files)[1:])
    ]
    assert [part["2026-01-05"].rows for part in parts] == [1, 2]
    assert sum(part["2026-01-05"].checksum for part in parts) == (
        table.digests()["2026-01-05"].checksum
    )


def test_what_cannot_be_read_is_refused(tiers: TwoTiers) -> None:
    table = Timed.of(tiers, "unread", "DATE", ["DATE '2026-01-05'"])
    name = tiers.name(tiers.hot, "unread")
    with pytest.raises(SyncRefused):
        tiers.rows.digests(name, 12345, table.layout, None)
    with pytest.raises(SyncRefused):
        tiers.rows.files(replace(name, name="nothing"), table.head, table.layout, ["2026-01-05"])


# --- files ----------------------------------------------------------------------------------------


def test_files_are_found_by_partition_over_every_spec(tiers: TwoTiers) -> None:
    days = [f"TIMESTAMP '2026-01-0{day} 05:00:00 UTC'" for day in (5, 6)]
    table = Timed.of(tiers, "specs", "TIMESTAMP", [*days, "NULL"], spec=BY_DAY)
    for change in (
        "REPLACE PARTITION FIELD days(at) WITH hours(at)",
        "REPLACE PARTITION FIELD hours(at) WITH months(at)",
        "DROP PARTITION FIELD months(at)",
    ):
        tiers.hot.sql(f"ALTER TABLE {{specs}} {change}")
        tiers.hot.sql(f"INSERT INTO {{specs}} VALUES (9, {days[0]})")
    assert table.files("2026-01-05", "2026-01-07") == {"2026-01-05": 4}
    assert table.files("2026-01-06", UNBOUNDED) == {"2026-01-06": 1, UNBOUNDED: 1}
    months = replace(table, layout=ChunkLayout(table.layout.column, Unit.MONTH))
    assert months.files("2026-01") == {"2026-01": 5}
    hours = replace(table, layout=ChunkLayout(table.layout.column, Unit.HOUR))
    assert hours.files("2026-01-05T05", "2026-01-06T05") == {
        "2026-01-05T05": 4,
        "2026-01-06T05": 1,
    }


def test_a_file_that_reaches_beyond_a_chunk_stands_apart(tiers: TwoTiers) -> None:
    tiers.hot.sql("CREATE TABLE {wide} (at DATE) USING iceberg")
    for values in ("05", "06", "08"), ("05",), ("09",), ("10", None):
        rows = ", ".join("(NULL)" if v is None else f"(DATE '2026-01-{v}')" for v in values)
        tiers.hot.sql(
            f"INSERT INTO {{wide}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(at)"
        )
    table = Timed(tiers, "wide", layout_of(tiers.hot.document("wide"), "at", Unit.DAY))
    assert table.files("2026-01-05") == {"2026-01-05": 1, "*": 2}
    assert table.files("2026-01-07") == {"*": 2}
    assert table.files("2026-01-09") == {"2026-01-09": 1, "*": 1}


def test_files_are_those_of_the_snapshot_and_of_the_column_by_its_id(tiers: TwoTiers) -> None:
    day = "TIMESTAMP '2026-01-05 05:00:00 UTC'"
    table = Timed.of(tiers, "past", "TIMESTAMP", [day, day], spec=BY_DAY)
    first = table.head
    tiers.hot.sql("ALTER TABLE {past} RENAME COLUMN at TO moment")
    tiers.hot.sql("DELETE FROM {past} WHERE id = 0", f"INSERT INTO {{past}} VALUES (3, {day})")
    tiers.hot.sql(f"INSERT INTO {{past}} VALUES (4, {day})")
    name = tiers.name(tiers.hot, "past")
    found = tiers.rows.files(name, first, table.layout, ["2026-01-05"])
    assert len(found["2026-01-05"]) == 2
    assert table.files("2026-01-05") == {"2026-01-05": 3}


def test_bounds_of_texts_tell_no_time(tiers: TwoTiers) -> None:
    table = Timed.of(tiers, "texts", "STRING", ["'2026-01-05'"], pattern="%Y-%m-%d")
    assert table.files("2026-01-05") == {"*": 1}
    spec = "PARTITIONED BY (at)"
    table = Timed.of(
        tiers, "parted", "STRING", ["'2026-01-05'", "'2026-1-5'"], pattern="%Y-%m-%d", spec=spec
    )
    assert table.files("2026-01-05", UNBOUNDED) == {"2026-01-05": 1, UNBOUNDED: 1}
