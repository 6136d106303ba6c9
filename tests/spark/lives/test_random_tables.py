"""Random lives of real tables: Spark SQL and Iceberg's procedures, with runs of the chain between.

After every run stock Spark reads each snapshot that was promised, with the rows it had; after
every step nothing that any table refers to is missing from the disk; in the end exactly what
nobody needs is gone. `MELTLINE_EXAMPLES=10` lives more lives.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from meltline.domain.iceberg.files import DepartureState
from tests.seeds import SEED, examples
from tests.spark.setups import walk
from tests.spark.setups.stranger import MERGE_ON_READ, clone
from tests.spark.setups.warehouse import DAY, LEDGER, TODAY, Warehouse, setting

pytestmark = pytest.mark.spark

LIVES = examples(few=1, many=2)
STEPS, RUN_EVERY = 12, 6
WINDOW = 7 * DAY
FORMATS = {"v1": 1, "v2": 2, "v3": 3}
ALL = "options => map('rewrite-all', 'true')"


@dataclass
class Life:
    """One warehouse, and what an outsider remembers of it.

    Attributes:
        rows: What each snapshot held when it was first seen, by table.
        told: What has happened, for the reader of a failure.
        shared: Tables that share files: no other tool deletes any of theirs.
    """

    w: Warehouse
    dice: random.Random
    now: datetime
    rows: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)

    def step(self) -> None:
        """One random action on a random table; what does not fit is left out."""
        table = self.dice.choice(sorted(self.w.tables()))
        action = self.dice.choice(ACTIONS)
        self.told.append(f"{action.__name__}({table})")
        action(self, table)
        self.look()

    def look(self) -> None:
        """I-1, and the rows of what is new; those of what is old have not changed (I-5)."""
        missing = self.w.reachable() - self.w.disk().keys()
        assert not missing, f"{self.told}: needed and gone: {sorted(missing)}"
        for table in self.w.tables():
            known = self.rows.setdefault(table, {})
            if set(self.w.snapshots(table)) - known.keys():
                for snapshot, rows in self.w.contents(table).items():
                    assert known.setdefault(snapshot, rows) == rows, f"{self.told}: {snapshot}"

    def promised(self, table: str) -> set[int]:
        """Refs, and what `TIMESTAMP AS OF` answers for any instant of the window."""
        head = self.w.document(table)
        log, start = head["snapshot-log"], (self.now - WINDOW).timestamp() * 1000
        ends = [entry["timestamp-ms"] for entry in log[1:]]
        answers = {
            entry["snapshot-id"]
            for entry, end in zip(log, [*ends, float("inf")], strict=False)
            if end >= start
        }
        return answers | {ref["snapshot-id"] for ref in head["refs"].values()}

    def run(self, after: timedelta) -> None:
        """A run of the chain: what was promised before it is there after it, row by row (I-6)."""
        self.now += after
        promised = {table: self.promised(table) for table in self.w.tables()}
        waiting = self.waiting()
        before = self.w.disk().keys()
        services = self.w.services(self.now)
        services.files.upkeep.settle_from = 0  # type: ignore[attr-defined]  # what is over is set aside
        summary = self.w.run_with(services)
        self.told.append(f"run on {self.now:%m-%d}: {summary.exit_code}")
        assert summary.exit_code == 0, (self.told, summary.as_json())
        for path in before - self.w.disk().keys():
            assert waiting.get(path, self.now + DAY) <= self.now, f"I-4: {self.told}: {path}"
        for table, snapshots in promised.items():
            there = self.w.contents(table)
            for snapshot in snapshots:
                assert there.get(snapshot) == self.rows[table][snapshot], (self.told, table)
        self.look()

    def waiting(self) -> dict[str, datetime]:
        """Local paths in failsafe, and until when."""
        found = self.w.services(self.now).files.departures.in_states(
            frozenset({DepartureState.FAILSAFE})
        )
        return {walk.local(departure.path): departure.due_at for departure in found}

    def some_snapshot(self, table: str) -> int:
        return self.dice.choice(self.w.snapshots(table))


# --- what engines and people do ------------------------------------------------------------------


def append(life: Life, table: str) -> None:
    life.w.append(table, life.dice.randrange(0, 90))


def overwrite(life: Life, table: str) -> None:
    life.w.overwrite(table, life.dice.randrange(0, 90))


def delete_rows(life: Life, table: str) -> None:
    """Copy-on-write, or merge-on-read with delete files or vectors, as the table has it."""
    life.w.sql(f"DELETE FROM {{{table}}} WHERE id % 4 = {life.dice.randrange(4)}")


def compact(life: Life, table: str) -> None:
    life.w.sql(f"CALL rewrite_data_files(table => 'n.{table}', {ALL})")


def rewrite_manifests(life: Life, table: str) -> None:
    life.w.sql(f"CALL rewrite_manifests(table => 'n.{table}')")


def tag(life: Life, table: str) -> None:
    snapshot = life.some_snapshot(table)
    life.w.sql(f"ALTER TABLE {{{table}}} CREATE OR REPLACE TAG t AS OF VERSION {snapshot}")


def branch(life: Life, table: str) -> None:
    """A branch with a commit of its own; there already, it only grows."""
    life.w.sql(
        f"ALTER TABLE {{{table}}} CREATE BRANCH IF NOT EXISTS b",
        f"INSERT INTO {{{table}}}.branch_b VALUES ({life.dice.randrange(90)}, 0)",
    )


def drop_refs(life: Life, table: str) -> None:
    for name, kind in (("t", "TAG"), ("b", "BRANCH")):
        life.w.sql(f"ALTER TABLE {{{table}}} DROP {kind} IF EXISTS {name}")


def rollback(life: Life, table: str) -> None:
    life.w.sql(f"CALL set_current_snapshot('n.{table}', {life.some_snapshot(table)})")


def publish(life: Life, table: str) -> None:
    """A staged write, then cherry-picked after another commit: its path is added once more."""
    life.w.sql(f"ALTER TABLE {{{table}}} SET TBLPROPERTIES ('write.wap.enabled'='true')")
    with setting(life.w.spark, "spark.wap.id", f"w{life.dice.random()}"):
        append(life, table)
    staged = life.w.document(table)["snapshots"][-1]["snapshot-id"]
    append(life, table)
    life.w.sql(f"CALL cherrypick_snapshot('n.{table}', {staged})")


def replace_table(life: Life, table: str) -> None:
    life.w.sql(
        f"CREATE OR REPLACE TABLE {{{table}}} USING iceberg"
        f" AS SELECT CAST(id AS BIGINT) AS id, CAST(0 AS INT) AS part FROM range(3)"
    )


def evolve(life: Life, table: str) -> None:
    """Another partitioning from here on."""
    fields = "bucket(2, id)"
    specs = life.w.document(table)["partition-specs"]
    if len(specs) == 1:
        life.w.sql(f"ALTER TABLE {{{table}}} ADD PARTITION FIELD {fields}")


def expire_elsewhere(life: Life, table: str) -> None:
    """Another tool expires one snapshot in the middle, and deletes what it thinks is free."""
    if table in life.shared:
        return
    named = {ref["snapshot-id"] for ref in life.w.document(table)["refs"].values()}
    if free := [sid for sid in life.w.snapshots(table) if sid not in named]:
        victim = life.dice.choice(free)
        life.w.sql(f"CALL expire_snapshots(table => 'n.{table}', snapshot_ids => ARRAY({victim}))")


def copy(life: Life, table: str) -> None:
    """A clone by another metadata file over the same files; from then on nobody else deletes."""
    if "copy" not in life.w.tables():
        clone(life.w, table, "copy")
        life.shared = {table, "copy"}


ACTIONS: tuple[Callable[[Life, str], None], ...] = (
    append, append, overwrite, overwrite, delete_rows, delete_rows, compact, rewrite_manifests,
    tag, branch, drop_refs, rollback, publish, replace_table, evolve, expire_elsewhere, copy,
)  # fmt: skip


# --- the lives -----------------------------------------------------------------------------------


@pytest.fixture(params=range(LIVES))
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Life]:
    seed = request.param if request.param < LIVES - 1 else SEED + request.param  # the last is new
    w = Warehouse.empty(tmp_path, f"life{seed}")
    for table, version in FORMATS.items():
        w.create(table, *(MERGE_ON_READ if version > 1 else ()), version=version)
        w.append(table, 0, 10)
    w.init()
    yield Life(w, random.Random(seed), TODAY, told=[f"seed {seed}"])


@pytest.mark.slow("a random life of real tables")
def test_a_random_life_keeps_every_promise_and_in_the_end_nothing_is_left_over(life: Life) -> None:
    life.look()
    for number in range(1, STEPS + 1):
        life.step()
        if number % RUN_EVERY == 0:
            life.run(after=life.dice.choice((DAY, 8 * DAY, 8 * DAY)))
    for days in (8, 8, 8):
        life.run(after=days * DAY)
    for table in life.w.tables():
        named = {ref["snapshot-id"] for ref in life.w.document(table)["refs"].values()}
        assert set(life.w.snapshots(table)) == named, life.told
    orphans = life.w.disk().keys() - life.w.reachable()
    of_commits = {path for path in orphans if not path.endswith(".metadata.json")}
    assert not of_commits, (life.told, sorted(of_commits))
    assert LEDGER not in life.w.tables()
    assert life.w.spark.table(f"{life.w.catalog}.{LEDGER}.settled_snapshots").count()
