"""The benchmark rollups: late rows in ten of ten thousand buckets.

Meltline refreshes the rollup. Beside it stock Spark aggregates everything again and overwrites a
copy of the rollup's table, as one does without Meltline; and another copy without partitions, which
says how much of that the many files are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from benchmarks.bench import Bench
from benchmarks.results import Figure, Outcome
from benchmarks.sides import Run, Stopwatch
from benchmarks.tiers import Tiers
from meltline.app.chunks.rollups.declare import RollupWish, create_rollup
from meltline.app.chunks.rollups.refresh import refresh_rollup
from meltline.domain.chunks.ranges import Unit
from meltline.domain.chunks.rollup import RollupQuery
from meltline.domain.iceberg.names import TableName
from meltline.ports import RefreshOutcome, RollupEngine, RollupRefresh

_BUCKETS, _ROWS, _PLACES = 10_000, 40, 5
_LATE, _PAIRS = 10, 3
_START = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp())
_ROLLUP = (
    "SELECT lakets.time_bucket('1 hour', ts) AS bucket, place, count(*) AS samples,"
    " avg(value) AS mean, min(value) AS least, max(value) AS most FROM t GROUP BY 1, 2"
)
_STOCK = (
    "SELECT date_trunc('HOUR', ts), place, count(*), avg(value), min(value), max(value),"
    " sum(value), count(value) FROM {source} GROUP BY 1, 2"
)
_OURS, _CUT, _WHOLE = "refresh", "overwrite, by hours", "overwrite, not partitioned"
_ENGINE = "aggregate, compare, write, publish"


def run_rollups(bench: Bench) -> list[Outcome]:
    """Three times late rows, and all sides after them, in turn from the first and the last."""
    count = max(_LATE * _PAIRS, round(_BUCKETS * bench.scale))
    bench.say(f"rollups: a table of {count:,} hours, and a rollup of them")
    lake = _RollupLake.create(bench, count)
    runs: list[_Refreshed] = []
    for pair in range(_PAIRS):
        lake.write_late(pair)
        for side in (_OURS, _CUT, _WHOLE)[:: -1 if pair % 2 else 1]:
            runs.append(lake.refreshed(side))
        lake.require_equal()
    return [
        Outcome(
            "rollups",
            bench.scale,
            f"{count:,} buckets of {_ROWS} rows, late ones in {_LATE}",
            _figures(runs),
            tuple(refreshed.run for refreshed in runs),
            notes=(f"times are medians of {_PAIRS} pairs",),
        )
    ]


@dataclass(frozen=True)
class _Refreshed:
    """One side's work, with the data files that came and went by it."""

    run: Run
    added: int
    removed: int


def _figures(runs: Sequence[_Refreshed]) -> tuple[Figure, ...]:
    ours, cut, whole = (
        [refreshed for refreshed in runs if refreshed.run.side == side]
        for side in (_OURS, _CUT, _WHOLE)
    )
    touched = max(max(refreshed.added, refreshed.removed) for refreshed in ours)
    others = max(refreshed.added for refreshed in cut)
    return (
        Figure("rollups: refresh beside a full one", _times(cut, ours), 50),
        Figure("rollups: the same, full one not partitioned", _times(whole, ours)),
        Figure("rollups: data files a refresh writes or removes", touched, _LATE, "", at_most=True),
        Figure("rollups: data files a full one writes", others, None, ""),
    )


def _times(others: Sequence[_Refreshed], ours: Sequence[_Refreshed]) -> float:
    pairs = zip(others, ours, strict=True)
    return median(other.run.seconds / mine.run.seconds for other, mine in pairs)


@dataclass(frozen=True)
class _TimedEngine:
    """Times the engine's part of a refresh; what is left is deciding which buckets are stale."""

    engine: RollupEngine
    watch: Stopwatch

    def create(
        self,
        table: TableName,
        query: RollupQuery,
        source: TableName,
        partition: Unit,
        properties: Mapping[str, str],
    ) -> None:
        self.engine.create(table, query, source, partition, properties)

    def refresh(self, refresh: RollupRefresh) -> RefreshOutcome | None:
        with self.watch.timing(_ENGINE):
            return self.engine.refresh(refresh)


@dataclass(frozen=True)
class _RollupLake:
    """A source of hours, its rollup, and two copies of it that stock Spark keeps."""

    tiers: Tiers
    count: int

    @classmethod
    def create(cls, bench: Bench, count: int) -> "_RollupLake":
        tiers = Tiers.create(bench, "rollups")
        lake = cls(tiers, count)
        lake._write_source()
        wish = RollupWish("hourly", _ROLLUP)
        created = create_rollup(tiers.services, wish, lambda parts: tiers.name(parts[-1]))
        assert created.refreshed.buckets == count, created
        bench.say(f"  declared, {created.refreshed.seconds:.1f} s")
        for side, cut in ((_CUT, "PARTITIONED BY (hours(bucket))"), (_WHOLE, "")):
            bench.spark.sql(
                f"CREATE TABLE {lake._table(side)} USING iceberg {cut} TBLPROPERTIES"
                " ('write.distribution-mode'='hash', 'write.spark.fanout.enabled'='false')"
                f" AS SELECT * FROM {lake._table(_OURS)}"
            )
        return lake

    def _write_source(self) -> None:
        spark, name = self.tiers.bench.spark, self.tiers.name()
        spark.sql(
            f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP, value DOUBLE, place STRING)"
            " USING iceberg PARTITIONED BY (hours(ts)) TBLPROPERTIES ('format-version'='2',"
            " 'write.spark.fanout.enabled'='false', 'write.distribution-mode'='hash')"
        )
        spark.sql(
            f"INSERT INTO {name} SELECT id, timestamp_seconds({_START} + 3600 * (id div {_ROWS})),"
            f" id * 0.37D, concat('place ', id % {_PLACES}) FROM range({self.count * _ROWS})"
        )

    def write_late(self, number: int) -> None:
        """One row each in buckets that lie apart, others each time."""
        apart = self.count // _LATE
        self.tiers.bench.spark.sql(
            f"INSERT INTO {self.tiers.name()} SELECT -id,"
            f" timestamp_seconds({_START} + 3600 * (id * {apart} + {number}) + 60),"
            f" 0.5D * id, 'place 0' FROM range({_LATE})"
        )

    def refreshed(self, side: str) -> _Refreshed:
        """One side does its work."""
        before = self._files(side)
        run = self._refresh() if side == _OURS else self._overwrite(side)
        after = self._files(side)
        return _Refreshed(run, len(after - before), len(before - after))

    def _refresh(self) -> Run:
        services, watch = self.tiers.services, Stopwatch()
        assert services.rollups is not None
        timed = replace(services, rollups=_TimedEngine(services.rollups, watch))
        run = self.tiers.timed(_OURS, lambda: refresh_rollup(timed, "hourly"), "")
        parts = {"decide": run.seconds - watch.seconds, **watch.parts}
        return replace(run, parts=parts, did=f"{_LATE} buckets aggregated anew")

    def _overwrite(self, side: str) -> Run:
        sql = f"INSERT OVERWRITE {self._table(side)} {_STOCK.format(source=self.tiers.name())}"
        return self.tiers.timed(
            side, lambda: self.tiers.bench.spark.sql(sql), f"{self.count:,} buckets overwritten"
        )

    def _table(self, side: str) -> str:
        names = {_OURS: "_rollup_hourly", _CUT: "by_hours", _WHOLE: "whole"}
        return str(self.tiers.name(names[side]))

    def _files(self, side: str) -> set[str]:
        rows = self.tiers.bench.spark.sql(f"SELECT file_path FROM {self._table(side)}.files")
        return {row[0] for row in rows.collect()}

    def require_equal(self) -> None:
        """Ends where the sides differ; the last digits of a mean go by the order of its rows."""
        answers = [
            self.tiers.bench.spark.sql(
                "SELECT bucket, place, samples, round(mean, 6), least, most"
                f" FROM {self._table(side)} ORDER BY 1, 2"
            ).collect()
            for side in (_OURS, _CUT, _WHOLE)
        ]
        assert answers[0] == answers[1] == answers[2]
