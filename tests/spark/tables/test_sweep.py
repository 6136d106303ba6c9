"""The sweep on real tables: what departs is what a walk of all metadata does not reach.

Strays are laid beside real tables of stock Spark; then two sweeps, a purge, and a look at the disk.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.object_store.folder_listing import FolderStores
from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import SWEEP
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from meltline.cli.main import run
from meltline.cli.run.step import main
from meltline.domain.deletion.orphans import Inventory, OrphanCandidate, SweptPlaces
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.locations import claim_prefix
from meltline.ports import Level
from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse

pytestmark = pytest.mark.spark

FIRST, SECOND = TODAY + 10 * DAY, TODAY + 17 * DAY
PURGED = SECOND + 7 * DAY + timedelta(minutes=1)


@dataclass
class Village:
    """Tables, what was left lying about, and what became of it."""

    w: Warehouse
    orphans: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    said: list[dict[str, Any]] = field(default_factory=list)
    departed: list[set[str]] = field(default_factory=list)

    def at(self, table: str) -> str:
        """The folder of a table."""
        return walk.local(self.w.document(table)["location"])

    def leave(
        self,
        path: str,
        *,
        age: timedelta = 30 * DAY,
        orphan: bool = True,
        content: bytes = b"left behind",
    ) -> str:
        """A file that no table refers to; an orphan in the end, or one that stays."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        moment = (TODAY - age).timestamp()
        os.utime(file, (moment, moment))
        (self.orphans if orphan else self.strangers).add(path)
        return path

    def sweep(self, now: datetime, **asked: Any) -> Summary:
        services = self.w.services(now)
        services.sweeper.cut_above = 5  # so that folders are cut, as large ones are
        return run_step(SWEEP, services, RunRequest(f"sweep-{now:%j}", now, **asked))

    def waiting(self, now: datetime) -> set[str]:
        found = self.w.services(now).files.departures.in_states(
            frozenset({DepartureState.FAILSAFE})
        )
        return {walk.local(departure.path) for departure in found}


def settle(w: Warehouse) -> None:
    """Tables of several kinds, some of them unlucky in their neighbours."""
    w.create("plain", more="PARTITIONED BY (part)")
    w.append("plain", 0, 10, 20)
    w.sql("ALTER TABLE {plain} CREATE BRANCH side", "DELETE FROM {plain} WHERE id = 3")
    w.sql("INSERT INTO {plain}.branch_side VALUES (90, 1)")
    w.create("plain_backup")
    w.append("plain_backup", 0)
    w.create("deletes", "write.delete.mode=merge-on-read", version=3)
    w.append("deletes", 0, 10)
    w.sql("DELETE FROM {deletes} WHERE id = 1", "CALL compute_table_stats(table => 'n.deletes')")
    w.sql(f"CREATE TABLE {{outer}} (id BIGINT, part INT) USING iceberg LOCATION '{w.folder}/o'")
    w.append("outer", 0)
    w.sql(
        f"CREATE TABLE {{inner}} (id BIGINT, part INT) USING iceberg"
        f" LOCATION 'file:{w.folder}/o/data/inner'"
    )
    w.append("inner", 0)
    w.create("twice")
    w.append("twice", 0)
    location = w.location("twice")
    w.sql(f"CALL register_table(table => '{SPACE}.twin', metadata_file => '{location}')")
    w.append("twice", 10)
    w.append("twin", 20)
    w.create("late")
    w.append("late", 0)


def litter(v: Village) -> None:
    """Leaves files everywhere; which of them are orphans is said here."""
    plain = v.at("plain")
    v.leave(f"{plain}/data/part=0/orphan-00001.parquet")
    v.leave(f"{plain}/data/part=7/deep/er/orphan #1 100%?.parquet")
    v.leave(f"{plain}/metadata/leaked-m0.avro")
    v.leave(f"{plain}/metadata/snap-1-1-leaked.avro")
    ours = Path(walk.local(v.w.location("plain"))).read_bytes()
    v.leave(f"{plain}/metadata/00099-leaked.metadata.json", content=ours)
    v.leave(f"{plain}/data/_temporary/0/attempt_1/part-0.parquet")
    for name in (".trash/f.parquet", "data/_hidden/f.parquet", "data/.f.parquet",
                 "metadata/version-hint.text"):  # fmt: skip
        v.leave(f"{plain}/{name}", orphan=False)
    v.leave(f"{v.at('plain_backup')}/data/orphan.parquet")
    for sibling in (f"{plain}_backup2/data/f.parquet", f"{plain}2.parquet"):
        v.leave(sibling, orphan=False)
    v.leave(f"{v.at('deletes')}/data/orphan-deletes.puffin")
    v.leave(f"{v.at('outer')}/data/orphan.parquet")
    v.leave(f"{v.at('inner')}/data/orphan.parquet")
    v.leave(f"{v.at('twice')}/data/orphan.parquet")
    v.leave(f"{plain}/data/of-tomorrow.parquet", age=-60 * DAY, orphan=False)
    orphan = f"{plain}/data/checked.parquet"
    v.leave(orphan)
    shutil.copy(orphan, f"{plain}/data/.checked.parquet.crc")


def make_old(w: Warehouse) -> None:
    """All files were written a month ago: no tool may tell a stray by its youth."""
    moment = (TODAY - 30 * DAY).timestamp()
    for path in w.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (moment, moment))


def write_late(v: Village) -> str:
    """A data file that a long write has finished and not committed; returns its folder."""
    folder = f"{v.at('late')}/data/late"
    v.w.spark.sql("SELECT 7L AS id, 1 AS part").coalesce(1).write.parquet(folder)
    return folder


@pytest.fixture(scope="module")
def village(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Village]:
    w = Warehouse.empty(tmp_path_factory.mktemp("sweep"), "village")
    settle(w)
    make_old(w)
    w.init(TODAY)
    w.run(TODAY)
    v = Village(w)
    litter(v)
    late = write_late(v)
    for now in (FIRST, SECOND):
        v.said.append(v.sweep(now).as_json())
        v.departed.append(v.waiting(now))
        source = f"source_table => '`parquet`.`{late}`', check_duplicate_files => false"
        if now == FIRST:
            w.sql(f"CALL add_files(table => '{SPACE}.late', {source})")
    yield v


def test_orphans_depart_at_the_second_listing_and_nothing_else_does(village: Village) -> None:
    assert village.departed == [set(), village.orphans]
    for document in village.said:
        assert document["notes"] == []
        assert [t for t in document["tables"] if t["skipped"] or t["refused"]] == []
    seen = sum(table["first_seen"] for table in village.said[0]["sweep"]["tables"])
    # And the one that was committed late, and the one of tomorrow.
    assert seen == len(village.orphans) + 2


def test_everything_that_is_looked_at_is_counted(village: Village) -> None:
    w = village.w
    owned = [village.at(table) + "/" for table in w.tables()]
    hidden = {p for p in village.strangers if "tomorrow" not in p}
    there = {p: s for p, s in w.disk().items() if p.startswith(tuple(owned)) and p not in hidden}
    late = {p for p in there if "/late/_SUCCESS" in p}
    assert village.said[1]["sweep"]["files"] == len(there) - len(late)


def test_icebergs_own_procedure_would_take_the_same(village: Village) -> None:
    older = (TODAY - 5 * DAY).isoformat()
    for table in ("plain", "deletes", "plain_backup"):
        rows = village.w.sql(
            f"CALL remove_orphan_files(table => '{SPACE}.{table}', dry_run => true,"
            f" older_than => TIMESTAMP '{older}')"
        )
        theirs = {walk.local(row[0]) for row in rows}
        at = village.at(table) + "/"
        ours = {path for path in village.orphans if path.startswith(at)}
        # It has no word for what a committer left in `_temporary`.
        assert theirs == {path for path in ours if "_temporary" not in path}


def test_a_second_sweep_right_away_commits_nothing_to_the_ledger(village: Village) -> None:
    rows = village.w.rows()
    before = {name: at for name, at in rows.items() if name.startswith("meltline.")}
    assert "meltline.strays" in before
    village.sweep(SECOND + timedelta(minutes=1))
    after = {name: at for name, at in village.w.rows().items() if name in before}
    assert after == before


def test_swept_files_are_purged_with_their_checksums_and_all_tables_read_on(
    village: Village,
) -> None:
    w = village.w
    before = w.all_contents()
    kept = set(w.disk()) - village.orphans
    summary = w.run(PURGED, run_id="purge")
    assert [line.failed for line in summary.tables.values() if line.failed] == []
    assert not village.orphans & set(w.disk())
    assert village.strangers <= set(w.disk())
    assert not Path(village.at("plain"), "data/.checked.parquet.crc").exists()
    assert w.reachable() <= set(w.disk())
    assert w.reachable() <= kept | {p for p in w.disk() if "metadata" in p}
    after = w.all_contents()
    assert {table: {s: rows for s, rows in found.items() if s in after[table]}
            for table, found in before.items()} == after  # fmt: skip


# --- inventories, and what executors cannot list -------------------------------------------------


@pytest.fixture(scope="module")
def hamlet(tmp_path_factory: pytest.TempPathFactory) -> Village:
    """One table and one orphan."""
    w = Warehouse.empty(tmp_path_factory.mktemp("hamlet"), "hamlet")
    w.create("t")
    w.append("t", 0)
    w.init(TODAY)
    w.run(TODAY)
    v = Village(w)
    v.leave(f"{v.at('t')}/data/orphan.parquet")
    return v


def inventory(v: Village) -> str:
    """A Parquet inventory of everything in the warehouse; returns its folder."""
    folder = f"{v.w.root}/inventory-{len(list(v.w.root.glob('inventory-*')))}"
    rows = [
        (path, size, datetime.fromtimestamp(Path(path).stat().st_mtime).astimezone())
        for path, size in v.w.disk().items()
    ]
    frame = v.w.spark.createDataFrame(rows, "path string, size bigint, modified timestamp")
    frame.write.parquet(folder)
    return folder


def as_of(folder: str, moment: datetime) -> Inventory:
    """As if the inventory had been written at some moment."""
    for path in Path(folder).glob("*.parquet"):
        os.utime(path, (moment.timestamp(), moment.timestamp()))
    return Inventory(folder)


def everything(v: Village) -> SweptPlaces:
    return SweptPlaces([claim_prefix(v.at("t"))])


def test_an_inventory_may_be_an_iceberg_table(hamlet: Village) -> None:
    w = hamlet.w
    w.sql("CREATE TABLE {inv} (path STRING, size BIGINT, modified TIMESTAMP_NTZ) USING iceberg")
    (orphan,) = hamlet.orphans
    for path in (orphan, "/elsewhere/f", f"{w.root}/warehouse/n/t2/f"):
        w.sql(f"INSERT INTO {{inv}} VALUES ('file:{path}', 11, TIMESTAMP_NTZ '2020-01-01 01:00')")
    source = Inventory(f"{w.catalog}.{SPACE}.inv", is_table=True)
    listing = w.services(FIRST).sweeper.read_inventory(source, everything(hamlet))
    assert abs(listing.listed_at - datetime.now(UTC)) < DAY
    assert listing.files == 1
    at = datetime(2020, 1, 1, 1, tzinfo=UTC)
    assert list(listing.strays()) == [OrphanCandidate(f"file:{orphan}", 11, at)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("path", "size: none, modified: none"),
        ("size path, size, modified", "path: bigint"),
        ("path, size, string(modified) modified", "modified: string"),
    ],
)
def test_an_inventory_without_its_columns_is_refused(
    hamlet: Village, query: str, found: str
) -> None:
    folder = inventory(hamlet)
    narrow = f"{folder}-{len(query)}"
    hamlet.w.spark.read.parquet(folder).selectExpr(*query.split(", ")).write.parquet(narrow)
    sweeper = hamlet.w.services(FIRST).sweeper
    with pytest.raises(UsageInvalid, match="cannot be used") as refused:
        sweeper.read_inventory(Inventory(narrow), everything(hamlet))
    assert found in refused.value.found


@pytest.mark.parametrize("is_table", [False, True])
@pytest.mark.parametrize("name", ["nowhere", "hamlet.n.nowhere", "other.n.t", "a..b"])
def test_an_inventory_that_is_not_there_is_refused(
    hamlet: Village, name: str, is_table: bool
) -> None:
    sweeper = hamlet.w.services(FIRST).sweeper
    with pytest.raises(UsageInvalid, match="cannot be used"):
        sweeper.read_inventory(Inventory(name, is_table), everything(hamlet))


def test_a_folder_that_executors_cannot_list_is_named(hamlet: Village) -> None:
    class Shut(FolderStores):
        """A store in which data folders may not be listed."""

        def level(self, folder: str) -> Level:
            if folder.endswith("/data/"):
                raise PermissionError(f"{folder}: permission denied")
            return super().level(folder)

    sweeper = hamlet.w.services(FIRST).sweeper
    sweeper._folders = Shut({})
    listing = sweeper.list_files(everything(hamlet), FIRST)
    assert list(listing.unlisted) == [f"file://{hamlet.at('t')}/data/"]
    assert "permission denied" in listing.unlisted[f"file://{hamlet.at('t')}/data/"]
    assert listing.files > 0


def test_two_inventories_replace_both_listings(hamlet: Village) -> None:
    folder = inventory(hamlet)
    hamlet.sweep(FIRST, inventory=as_of(folder, FIRST - DAY))
    assert hamlet.waiting(FIRST) == set()
    with pytest.raises(UsageInvalid, match="as it is"):
        hamlet.sweep(SECOND, inventory=Inventory(folder))
    hamlet.sweep(SECOND, inventory=as_of(folder, SECOND - DAY))
    assert hamlet.waiting(SECOND) == hamlet.orphans


# --- the command and the app ---------------------------------------------------------------------


@pytest.fixture
def third(hamlet: Village, monkeypatch: pytest.MonkeyPatch) -> Village:
    """The hamlet a week after its last sweep, with a new stray."""
    monkeypatch.setenv("MELTLINE_NOW", (SECOND + 7 * DAY).isoformat())
    monkeypatch.setenv("MELTLINE_CONFIG", str(hamlet.w.yaml))
    if not any("third" in path for path in hamlet.orphans):
        hamlet.leave(f"{hamlet.at('t')}/data/third.parquet")
    return hamlet


def test_the_command_says_what_it_found(third: Village, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "--dry-run", "--json", "--tables", "hamlet.n.t"]) == 0
    document = json.loads(capsys.readouterr().out)
    (line,) = document["sweep"]["tables"]
    assert (line["table"], line["first_seen"]) == ("hamlet.n.t", 1)
    assert run(["sweep", "--minimum-age", "36h"]) == 0
    assert "hamlet.n.t" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--minimum-age", "three"],
        ["--minimum-age", "23h"],
        ["--inventory", "a", "--inventory-table", "b"],
    ],
    ids=" ".join,
)
def test_the_command_refuses_what_makes_no_sense(
    third: Village, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "--json", *words]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "UsageInvalid"


def test_the_app_leaves_a_summary_as_every_step_does(third: Village, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    main("sweep", ["--run-id=r", "--minimum-age=", "--inventory=", f"--summary={summary}"])
    document = json.loads(summary.read_text())
    assert document["run_id"] == "r"
    assert document["sweep"]["tables"][0]["table"] == "hamlet.n.t"
