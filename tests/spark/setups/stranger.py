"""A warehouse as another program left it: stock Spark SQL and file copies, nothing of Meltline."""

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from uuid import uuid4

from meltline.app.orphans.allowed_owners import allow
from meltline.app.run.summary import Summary
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Contents, Warehouse, setting

MERGE_ON_READ = (
    "write.delete.mode=merge-on-read",
    "write.update.mode=merge-on-read",
    "write.merge.mode=merge-on-read",
)
FOREIGN = "elsewhere"


@cache
def stranger() -> "Story":
    """The one prepared warehouse of this process."""
    root = Path(tempfile.mkdtemp(prefix="stranger-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    warehouse = Warehouse.empty(root, "stranger")
    for prepare in TABLES:
        prepare(warehouse)
    return Story(warehouse)


# --- the tables ----------------------------------------------------------------------------------


def _format_1(w: Warehouse) -> None:
    w.create("v1", version=1)
    w.append("v1", 0, 10)
    w.sql("ALTER TABLE {v1} ADD COLUMN note STRING", "INSERT INTO {v1} VALUES (20, 0, 'late')")
    w.sql("ALTER TABLE {v1} ADD PARTITION FIELD part", "INSERT INTO {v1} VALUES (30, 1, 'split')")
    w.sql("CALL rewrite_data_files(table => 'n.v1', options => map('rewrite-all', 'true'))")
    w.sql("INSERT INTO {v1} VALUES (40, 0, 'new')", "DELETE FROM {v1} WHERE id = 40")
    w.stage("v1", 40 * DAY, 2 * DAY)


def _format_2(w: Warehouse) -> None:
    w.create("v2", *MERGE_ON_READ, more="PARTITIONED BY (part)")
    w.append("v2", 0, 10)
    w.sql("ALTER TABLE {v2} CREATE TAG forever", "DELETE FROM {v2} WHERE id IN (1, 2)")
    w.sql("ALTER TABLE {v2} CREATE TAG brief RETAIN 5 DAYS", "DELETE FROM {v2} WHERE id = 11")
    w.sql("ALTER TABLE {v2} CREATE BRANCH audit", "INSERT INTO {v2}.branch_audit VALUES (50, 0)")
    w.sql("UPDATE {v2} SET id = 103 WHERE id = 3", "DELETE FROM {v2}.branch_audit WHERE id = 0")
    w.sql("CALL compute_table_stats(table => 'n.v2')")
    everything = "options => map('rewrite-all', 'true')"
    w.sql(f"CALL rewrite_position_delete_files(table => 'n.v2', {everything})")
    w.append("v2", 20)
    w.sql(f"CALL rewrite_data_files(table => 'n.v2', {everything})")
    w.append("v2", 30)
    w.sql("CALL rewrite_manifests(table => 'n.v2')", "CALL compute_table_stats(table => 'n.v2')")
    w.stage("v2", 40 * DAY, timedelta(hours=1))


def _format_3(w: Warehouse) -> None:
    w.create("v3", *MERGE_ON_READ, version=3)
    w.append("v3", 0, 10)
    w.sql("DELETE FROM {v3} WHERE id = 1", "DELETE FROM {v3} WHERE id IN (2, 11)")
    w.sql("ALTER TABLE {v3} CREATE BRANCH old", "UPDATE {v3} SET part = 7 WHERE id = 12")
    w.sql("CALL rewrite_data_files(table => 'n.v3', options => map('rewrite-all', 'true'))")
    w.sql("DELETE FROM {v3} WHERE id = 13")
    w.stage("v3", 39 * DAY, DAY)


def _rolled_back(w: Warehouse) -> None:
    w.create("rolled")
    w.append("rolled", 0, 10, 20)
    w.sql(f"CALL rollback_to_snapshot('n.rolled', {w.snapshots('rolled')[1]})")
    w.append("rolled", 30)
    w.stage("rolled", 30 * DAY, 9 * DAY)


def _staged_and_picked(w: Warehouse) -> None:
    w.create("wap", "write.wap.enabled=true")
    w.append("wap", 0)
    for name, start in (("never", 10), ("picked", 20)):
        with setting(w.spark, "spark.wap.id", name):
            w.append("wap", start)
    picked = w.snapshots("wap")[-1]
    w.append("wap", 30)
    w.sql(f"CALL cherrypick_snapshot('n.wap', {picked})")
    w.stage("wap", 30 * DAY, 10 * DAY)


def _replaced(w: Warehouse) -> None:
    w.create("replaced")
    w.append("replaced", 0, 10)
    w.sql("CREATE OR REPLACE TABLE {replaced} USING iceberg AS SELECT 'other' AS word")
    w.sql("INSERT INTO {replaced} VALUES ('more')")
    w.stage("replaced", 25 * DAY, 3 * DAY)


def _created_again(w: Warehouse) -> None:
    w.create("again")
    w.append("again", 0, 10)
    w.sql("DROP TABLE {again}")  # its files are nobody's now: the sweep's business
    w.create("again")
    w.overwrite("again", 100, 200, 300)
    w.stage("again", 25 * DAY, 3 * DAY)


def _nested(w: Warehouse) -> None:
    w.create("outer")
    w.overwrite("outer", 0, 10, 20)
    w.create("inner", more=f"LOCATION 'file:{w.folder}/{SPACE}/outer/data/inner'")
    w.overwrite("inner", 0, 10, 20)
    w.stage("outer", 30 * DAY, DAY)
    w.stage("inner", 30 * DAY, DAY)


def _siblings_and_odd_names(w: Warehouse) -> None:
    for table in ("tbl", "tbl_backup", "t[1]", "it's"):
        w.create(table)
        w.overwrite(table, 0, 10)
        w.stage(table, 30 * DAY, 20 * DAY)


def _short_log(w: Warehouse) -> None:
    w.create("forgetful", "write.metadata.previous-versions-max=2")
    w.append("forgetful", 0, 10, 20)
    w.stage("forgetful", 30 * DAY, 5 * DAY)


def _registered_twice(w: Warehouse) -> None:
    """One table under two names, at different points of its history, both with statistics."""
    w.create("source")
    w.overwrite("source", 0, 10, 20)
    w.sql("CALL compute_table_stats(table => 'n.source')")
    w.stage("source", 40 * DAY, 30 * DAY)
    w.sql(f"CALL register_table('n.twin', '{w.location('source')}')")
    w.overwrite("source", 30, 40, 50)
    w.stage("source", 25 * DAY, 2 * DAY, first=3)


def _cloned(w: Warehouse) -> None:
    """A clone as other tools make it: the metadata file copied, under a UUID of its own."""
    w.create("origin")
    w.append("origin", 0, 10, 20)
    w.stage("origin", 40 * DAY, 30 * DAY)
    clone(w, "origin", "cloned")
    w.overwrite("origin", 50, 60)
    w.append("cloned", 70)
    w.stage("origin", 20 * DAY, 10 * DAY, first=3)
    w.stage("cloned", 20 * DAY, 20 * DAY, first=3)


def clone(w: Warehouse, source: str, copy: str) -> None:
    """Copies a table's metadata to a new UUID and location over the same files."""
    head = w.document(source)
    location = f"{w.folder}/{SPACE}/{copy}"
    head |= {"table-uuid": str(uuid4()), "location": f"file:{location}", "metadata-log": []}
    first = Path(location) / "metadata" / f"00000-{uuid4()}.metadata.json"
    first.parent.mkdir(parents=True)
    first.write_text(json.dumps(head))
    w.sql(f"CALL register_table('{SPACE}.{copy}', 'file:{first}')")


def _with_a_foreign_file(w: Warehouse) -> None:
    folder = w.root / FOREIGN
    w.sql("CREATE TABLE {adopts} (id BIGINT) USING iceberg")
    w.spark.range(5).coalesce(1).write.parquet(f"file://{folder}")
    w.sql(f"CALL add_files(table => 'n.adopts', source_table => '`parquet`.`file://{folder}`')")
    w.sql("INSERT OVERWRITE {adopts} VALUES (1)", "INSERT INTO {adopts} VALUES (2)")
    w.stage("adopts", 30 * DAY, 10 * DAY)


TABLES: tuple[Callable[[Warehouse], None], ...] = (
    _format_1,
    _format_2,
    _format_3,
    _rolled_back,
    _staged_and_picked,
    _replaced,
    _created_again,
    _nested,
    _siblings_and_odd_names,
    _short_log,
    _registered_twice,
    _cloned,
    _with_a_foreign_file,
)


# --- what Meltline makes of it -------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """The warehouse at one moment: catalog rows, files, what tables refer to, ledger commits."""

    rows: dict[str, str]
    disk: dict[str, int]
    reachable: set[str]

    @classmethod
    def at(cls, w: Warehouse) -> "Look":
        return cls(w.rows(), w.disk(), w.reachable())


@dataclass
class Story:
    """The warehouse before and after each run of the chain.

    Attributes:
        looks: Before, and after each run.
        before: The rows of every snapshot before; `first` after the first run.
        heads: The refs before.
        logs: Each table's snapshot log before: since when which snapshot was main's head.
    """

    warehouse: Warehouse
    looks: list[Look] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    before: Contents = field(default_factory=dict)
    first: Contents = field(default_factory=dict)
    heads: dict[str, dict[str, int]] = field(default_factory=dict)
    logs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.before = self.warehouse.all_contents()
        self.heads = self.warehouse.heads()
        self.logs = {
            table: [
                (entry["timestamp-ms"], entry["snapshot-id"])
                for entry in self.warehouse.document(table)["snapshot-log"]
            ]
            for table in self.warehouse.tables()
        }
        self.looks.append(Look.at(self.warehouse))

    def after(self, runs: int) -> Look:
        """What there is after so many runs, eight days apart."""
        while len(self.looks) <= runs:
            if len(self.looks) == 1:
                self.warehouse.init()
            self.summaries.append(self.warehouse.run(self.now))
            self._answer_doctor()
            self.looks.append(Look.at(self.warehouse))
            self.first = self.first or self.warehouse.all_contents()
        return self.looks[runs]

    def _answer_doctor(self) -> None:
        """A person says that a table which was dropped before Meltline came needs nothing.

        Its metadata files lie in the folder of the one that was created in its place.
        """
        services = self.warehouse.services(self.now)
        allowed = {owner.id for owner in services.control.owners.allowed()}
        for sign in {s.id for s in services.control.owners.signs()} - allowed - {""}:
            allow(services, sign, "it was dropped before")

    def settled(self) -> Look:
        """What there is once a run has changed nothing."""
        runs = 2
        while self.after(runs) != self.after(runs - 1):
            runs += 1
            assert runs < 12, "it never comes to rest"
        return self.after(runs)

    @property
    def now(self) -> datetime:
        """The simulated time of the next run."""
        return TODAY + 8 * DAY * (len(self.looks) - 1)

    @property
    def orphans(self) -> set[str]:
        """Files that nothing referred to when Meltline came: what no commit names any more."""
        before = self.looks[0]
        return before.disk.keys() - before.reachable
