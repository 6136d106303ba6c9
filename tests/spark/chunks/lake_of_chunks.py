"""A hot and a cold catalog in one warehouse, with tables of days that are synced and dropped."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from meltline.app.archive.cold_adoption import adopt_cold
from meltline.app.archive.cold_tables import ListedColdTables
from meltline.app.chunks.lookups import chunked_tables
from meltline.app.chunks.policies import AddedPolicy, PolicyWish, add_policy
from meltline.app.chunks.reading.status import TieringStatus, tiering_status
from meltline.app.chunks.replication.declare import start_sync
from meltline.app.chunks.replication.one_pass import Replicated
from meltline.app.chunks.replication.replicate import replicate
from meltline.app.chunks.run import ChunkRun
from meltline.app.run.steps import CHUNK_STEPS, Step
from meltline.app.run_request import RunRequest
from meltline.app.safety.cold_owner import mark_of
from meltline.app.services import RunContext
from meltline.domain.chunks.chunk import Chunk
from meltline.domain.chunks.policies import PolicyType
from meltline.domain.chunks.sync import Deletes, TableSync
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from tests.spark.setups import walk
from tests.spark.setups.warehouse import SPACE, Warehouse, quoted

CONFIG = """\
  {cold}:
    type: sql
    uri: sqlite:///cold.db
    warehouse: cold
cold: {cold}
chunks: {{max-drop-share: 1.0, max-foreign-deletes: {most}}}
limits: {{lock-wait: 1s}}
"""
AFTER_SYNC = CHUNK_STEPS[1:]
"""A run that takes cold as it is: replication is a step of its own in these tests."""
OLD = (10, 9, 8)
"""Days ago: past the drop age of these tests' policies, whatever the hour."""
YOUNG = (1, 0)
AGES: Mapping[PolicyType, Mapping[str, str]] = {
    PolicyType.TIERING: {"tier_after": "3d"},
    PolicyType.RETENTION: {"drop_after": "6d"},
    PolicyType.TIERED_RETENTION: {"tier_after": "3d", "drop_after": "6d"},
}
Rows = list[tuple[Any, ...]]


@dataclass
class ChunkLake:
    """Tables of hot and their copies in cold, with Meltline at the time that it is, or later.

    Attributes:
        ahead: How far Meltline's clock is before the real one, by which engines commit.
    """

    w: Warehouse
    cold_catalog: str
    today: datetime = field(default_factory=lambda: datetime.now(UTC))
    ahead: timedelta = timedelta(0)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    def empty(cls, root: Path, most_deletes: float = 1.0) -> "ChunkLake":
        """Two new catalogs, with a ledger."""
        mark = uuid4().hex[:8]
        config = CONFIG.format(cold=f"cold_{mark}", most=most_deletes)
        lake = cls(Warehouse.empty(root, f"hot_{mark}", config), f"cold_{mark}")
        lake.w.init(lake.now)
        return lake

    @property
    def now(self) -> datetime:
        """Meltline's time."""
        return datetime.now(UTC) + self.ahead

    def services(self, **instead: Any) -> RunContext:
        """Meltline; `instead` replaces ports by name."""
        return self.w.services(self.now, **instead)

    # --- hot, as stock Spark writes it -----------------------------------------------------------

    def create(
        self, table: str, *properties: str, version: int = 2, mode: str = "copy-on-write"
    ) -> None:
        """An empty table of ids, times and texts, by day; `mode` of its row deletes."""
        modes = [f"write.{verb}.mode={mode}" for verb in ("delete", "update", "merge")]
        pairs = [p.partition("=") for p in (f"format-version={version}", *modes, *properties)]
        words = ", ".join(f"'{key}'='{text}'" for key, _, text in pairs)
        self.w.sql(
            f"CREATE TABLE {{{table}}} (id BIGINT, ts TIMESTAMP, v STRING) USING iceberg"
            f" PARTITIONED BY (days(ts)) TBLPROPERTIES ({words})"
        )

    def insert(self, table: str, *days: int, rows: int = 2) -> list[int]:
        """One commit of so many rows in each of some days, counted back from today.

        Their texts are `v` and their ids.

        Returns:
            Their ids.
        """
        ids = [next(self._ids) for _ in range(rows * len(days))]
        words = ", ".join(
            f"({id}, TIMESTAMP '{self.day(days[at // rows])} 03:00:{id % 60:02}', 'v{id}')"
            for at, id in enumerate(ids)
        )
        columns = "(id, ts, v)"
        self.w.sql(
            f"INSERT INTO {{{table}}} {columns} SELECT /*+ COALESCE(1) */ * FROM VALUES {words}"
        )
        return ids

    def day(self, ago: int) -> str:
        """The chunk of a day."""
        return f"{self.today - timedelta(days=ago):%Y-%m-%d}"

    def days(self, *ago: int) -> list[str]:
        """The chunks of some days, oldest first."""
        return sorted(self.day(n) for n in ago)

    # --- what is there ---------------------------------------------------------------------------

    def name(self, table: str) -> TableName:
        """A table's full name in hot."""
        return TableName(self.w.catalog, (SPACE,), table)

    def cold_name(self, table: str) -> str:
        """Its copy in Spark SQL."""
        return quoted(self.cold_catalog, "meltline_synced", SPACE, table)

    def hot(self, table: str, version: int | None = None) -> Rows:
        """Its rows, now or as of a snapshot."""
        at = "" if version is None else f" VERSION AS OF {version}"
        return _sorted(self.w.sql(f"SELECT * FROM {{{table}}}{at}"))

    def cold(self, table: str) -> Rows:
        """The rows of its copy."""
        return _sorted(self.w.spark.sql(f"SELECT * FROM {self.cold_name(table)}").collect())

    def both(self, table: str) -> Rows:
        """The rows of hot and of cold, each once."""
        return _sorted({*self.hot(table), *self.cold(table)})

    def hot_days(self, table: str) -> list[str]:
        """The days that hot has rows of."""
        return sorted({f"{row[1]:%Y-%m-%d}" for row in self.hot(table)})

    def uuid(self, table: str) -> str:
        """Its registration."""
        return str(self.w.document(table)["table-uuid"])

    def head(self, table: str) -> int:
        """Main's newest snapshot in hot."""
        return int(self.w.document(table)["current-snapshot-id"])

    def cold_document(self, table: str) -> walk.Document:
        """The metadata of its copy."""
        rows = walk.rows(self.w.root / "cold.db", self.cold_catalog)
        return walk.document(rows[f"meltline_synced.{SPACE}.{table}"])

    def cold_files(self, table: str) -> set[str]:
        """The live data files of its copy."""
        files = self.w.spark.sql(f"SELECT file_path FROM {self.cold_name(table)}.files")
        return {row[0] for row in files.collect()}

    def chunks(self, table: str) -> dict[str, Chunk]:
        """What the ledger knows of it."""
        return dict(self.services().control.chunks.of(self.uuid(table)))

    def statuses(self, table: str) -> dict[str, str]:
        """The status of each chunk."""
        return {name: str(chunk.status) for name, chunk in self.chunks(table).items()}

    def sync_of(self, table: str) -> TableSync:
        """Its replication."""
        (sync,) = self.services().control.syncs.all([self.uuid(table)])
        return sync

    def status(self, table: str) -> TieringStatus:
        """`meltline chunks status`."""
        (line,) = tiering_status(self.services(), (str(self.name(table)),))
        return line

    # --- with Meltline ---------------------------------------------------------------------------

    def take_cold_over(self) -> None:
        """`meltline cold adopt`, of every installation that has a table there."""
        for state in ListedColdTables.read(self.services()).all():
            assert isinstance(state, TableMetadata)
            adopt_cold(self.services(), mark_of(state).id, "its ledger is gone")

    def sync(self, table: str) -> TableSync:
        """`meltline chunks sync`; nothing is copied yet."""
        return start_sync(self.services(), self.name(table))

    def replicate(
        self, table: str, deletes: Deletes | None = None, services: RunContext | None = None
    ) -> Replicated:
        """One pass."""
        context = services or self.services()
        tables = chunked_tables(context, (str(self.name(table)),))
        (done,) = replicate(context, tables, deletes)
        return done

    def follow(self, *tables: str) -> None:
        """One pass each, which must be able to go on."""
        for table in tables:
            done = self.replicate(table)
            assert done.error is None, (done.error.message, done.error.found)

    def policy(self, table: str, type: PolicyType, **wishes: Any) -> AddedPolicy:
        """Adds a policy of these tests' ages."""
        wish = PolicyWish(type, **{**AGES[type], **wishes})
        return add_policy(self.services(), self.name(table), wish)

    @property
    def steps(self) -> Sequence[Step]:
        """Those of a run, without replication."""
        return AFTER_SYNC

    def until(self, name: str) -> tuple[Sequence[Step], Sequence[Step]]:
        """The steps of a run before one of them, and the others."""
        at = [step.name for step in AFTER_SYNC].index(name)
        return AFTER_SYNC[:at], AFTER_SYNC[at:]

    def run(
        self,
        table: str,
        *,
        steps: Sequence[Step] = AFTER_SYNC,
        services: RunContext | None = None,
        at_once: bool = True,
        as_of: datetime | None = None,
        **asked: Any,
    ) -> ChunkRun:
        """A run over one table's chunks; what replication has not copied is not copied by it."""
        request = RunRequest(
            f"run-{uuid4().hex[:12]}", as_of or self.now, tables=(str(self.name(table)),), **asked
        )
        run = ChunkRun(services or self.services(), request, at_once=at_once)
        run.visit(steps)
        return run

    def synced(self, table: str, *days: int, type: PolicyType, **created: Any) -> None:
        """A table with a commit for each day, copied to cold, and with a policy."""
        self.create(table, **created)
        for day in days:
            self.insert(table, day)
        self.sync(table)
        self.follow(table)
        self.policy(table, type)


def dropped(run: ChunkRun) -> list[str]:
    """The chunks that a run has dropped."""
    return sorted(name for result in run.results for name in result.chunks)


def deferred(run: ChunkRun) -> dict[str, str]:
    """The chunks that wait after a run, and why; those that are too young count for nothing."""
    return {
        line["chunk"]: line["reason"]
        for line in run.summary.deferred
        if line["reason"] != "STRADDLES"
    }


def ids(rows: Rows) -> Collection[int]:
    """Ids of rows."""
    return sorted(row[0] for row in rows)


def _sorted(rows: Collection[Any]) -> Rows:
    return sorted(map(tuple, rows), key=repr)
