"""Bad input and bad luck on real tables: a clear error, nothing wrongly deleted, others go on.

Most of it befalls one town of small tables, in the same few runs, as it would in life.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from meltline.app.run.summary import Summary
from meltline.domain.deletion.gate import GateFacts, GateResult
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.ports import GateEngine
from tests.spark.setups import walk
from tests.spark.setups.stranger import clone
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Warehouse, tables_of

pytestmark = pytest.mark.spark

HOUR = timedelta(hours=1)
START = TODAY + HOUR  # after all that Spark commits meanwhile


# --- how things go wrong -------------------------------------------------------------------------


class Harm:
    """Spoils files, and mends them again."""

    def __init__(self) -> None:
        self._kept: dict[Path, bytes] = {}

    def spoil(self, location: str, content: bytes | None) -> None:
        """Gives a file another content, or none: it is gone then."""
        path = Path(walk.local(location))
        self._kept[path] = path.read_bytes()
        path.unlink()
        if content is not None:
            path.write_bytes(content)

    def block(self, path: str) -> None:
        """Puts a folder where a file was: no user may unlink that."""
        self.spoil(path, None)
        Path(path, "in the way").mkdir(parents=True)

    def mend(self) -> None:
        """Puts everything back."""
        for path, content in self._kept.items():
            if path.is_dir():
                shutil.rmtree(path)
            path.write_bytes(content)
        self._kept.clear()


def content(location: str) -> bytes:
    return Path(walk.local(location)).read_bytes()


def first_block_cut(location: str) -> bytes:
    """An Avro file that ends cleanly after its header: readable, and empty."""
    whole = content(location)
    return whole[: whole.index(whole[-16:]) + 16]


def lists(w: Warehouse, table: str) -> list[str]:
    """Manifest lists, the newest snapshot's last."""
    snapshots = sorted(w.document(table)["snapshots"], key=lambda s: int(s["timestamp-ms"]))
    return [str(snapshot["manifest-list"]) for snapshot in snapshots]


def newest_manifest(w: Warehouse, table: str) -> str:
    return str(walk.avro(lists(w, table)[-1])[0]["manifest_path"])


@dataclass
class Meanwhile:
    """A gate engine that passes on its verdict after something has happened to the tables."""

    gate: GateEngine
    happens: dict[PlanKind, Callable[[], None]]

    def judge(self, evidence: Sequence[GateFacts], now: datetime) -> Sequence[GateResult]:
        results = self.gate.judge(evidence, now)
        for kind in {found.kind for found in evidence}:
            self.happens.pop(kind, lambda: None)()
        return results


# --- the town ------------------------------------------------------------------------------------


CORRUPT = ("cut_manifest", "long_manifest", "lost_manifest", "noise_list", "lost_list")
NEVER_READ = (*CORRUPT, "cut_metadata", "lost_metadata", "spoiled_copy")
LATER = ("later_manifest", "later_list", "later_metadata")
DROPPED = ("busy_dropped", "busy_replaced")
BUSY = ("busy_commit", "busy_tag", "busy_rollback", "busy_dropped", "busy_replaced")
HEALTHY = ("well", "basis", "slashes", "stubborn", "returning")


@dataclass
class Town:
    """Small tables, what befell them, and what each run said."""

    w: Warehouse
    ids: dict[str, list[int]] = field(default_factory=dict)
    start: dict[str, str] = field(default_factory=dict)
    runs: dict[str, Summary] = field(default_factory=dict)
    disks: dict[str, dict[str, int]] = field(default_factory=dict)
    needed: dict[str, set[str]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    victim: str = ""

    def run(self, called: str, now: datetime, **happens: Callable[[], None]) -> None:
        """One run, on a cluster whose defaults turn lost files into shorter answers."""
        services = self.w.services(now)
        for flag in ("ignoreCorruptFiles", "ignoreMissingFiles"):
            self.w.spark.conf.set(f"spark.sql.files.{flag}", "true")
        by_kind = {PlanKind(kind): action for kind, action in happens.items()}
        self.runs[called] = self.w.run_with(
            replace(services, gate=Meanwhile(services.gate, by_kind))
        )
        self.disks[called] = self.w.disk()

    def line(self, run: str, table: str) -> dict[str, Any]:
        return tables_of(self.runs[run])[table]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    # What befalls files that never change is for a full proof to find: here each gate makes one.
    every = "gates: {full-proof-every: 1s}\n"
    w = Warehouse.empty(tmp_path_factory.mktemp("town"), "town", every)
    town = Town(w)
    _build(town)
    before, later = Harm(), Harm()
    _spoil_before(town, before)
    w.init()
    town.run("first", START, expire=lambda: _happen_to_the_busy(town))
    for table in LATER:
        town.needed[table] = walk.of_table(w.location(table))
    for table in ("returning", *DROPPED):
        town.needed[table] = walk.of_table(town.start[table])
    _spoil_later(w, later)
    town.gone = town.disks["first"].keys() - w.disk().keys()
    town.run("blocked", START + 8 * DAY)
    before.mend()
    town.victim = _departed_data_file(town, "stubborn")
    later.block(town.victim)
    town.run("third", START + 8 * DAY + HOUR, purge=lambda: _come_back(town))
    later.mend()
    town.run("mended", START + 9 * DAY)
    for number, days in enumerate((17, 25, 33, 41), start=1):
        town.run(f"after{number}", START + days * DAY)
    return town


def _build(town: Town) -> None:
    w = town.w
    for table in (*HEALTHY, *LATER, *BUSY, *NEVER_READ[:-1]):
        w.create(table)
        w.overwrite(table, 0)
        if table == "basis":
            clone(w, "basis", "spoiled_copy")
        w.overwrite(table, 10)
        w.stage(table, 30 * DAY, 10 * DAY)
    for table in w.tables():
        town.ids[table] = w.snapshots(table)
        town.start[table] = w.location(table)
    # Other programs spell the same places in other ways.
    path = Path(walk.local(w.location("slashes")))
    head = json.loads(path.read_text())
    for part, key in ((head["snapshots"][0], "manifest-list"), (head, "location")):
        part[key] = part[key].replace("file:/", "file:///", 1)
    for entry in head["metadata-log"][::2]:
        entry["metadata-file"] = "file://" + walk.local(entry["metadata-file"])
    _without_checksum(path).write_text(json.dumps(head))


def _without_checksum(path: Path) -> Path:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return path


def _spoil_before(town: Town, harm: Harm) -> None:
    w = town.w
    manifest = newest_manifest(w, "cut_manifest")
    harm.spoil(manifest, first_block_cut(manifest))
    manifest = newest_manifest(w, "long_manifest")
    harm.spoil(manifest, content(manifest) + b"\0")
    harm.spoil(newest_manifest(w, "lost_manifest"), None)
    harm.spoil(lists(w, "noise_list")[-1], os.urandom(3000))
    harm.spoil(lists(w, "lost_list")[0], None)
    metadata = w.location("cut_metadata")
    harm.spoil(metadata, content(metadata)[:500])
    harm.spoil(w.location("lost_metadata"), None)
    # The copy's own manifest list is lost: nobody can know that it needs files of `basis`.
    path = Path(walk.local(w.location("spoiled_copy")))
    head = json.loads(path.read_text())
    own = path.with_name("own-list.avro")
    shutil.copy(walk.local(head["snapshots"][0]["manifest-list"]), own)
    head["snapshots"][0]["manifest-list"] = f"file:{own}"
    path.write_text(json.dumps(head))
    harm.spoil(str(own), None)


def _happen_to_the_busy(town: Town) -> None:
    """What people do between a plan's gate and its commit."""
    w, first = town.w, town.ids
    w.append("busy_commit", 20)
    w.sql(f"ALTER TABLE {{busy_tag}} CREATE TAG saved AS OF VERSION {first['busy_tag'][0]}")
    w.sql(f"CALL rollback_to_snapshot('n.busy_rollback', {first['busy_rollback'][0]})")
    w.sql("DROP TABLE {busy_dropped}", "DROP TABLE {busy_replaced}")
    w.create("busy_replaced")
    w.append("busy_replaced", 50)


def _spoil_later(w: Warehouse, harm: Harm) -> None:
    manifest = newest_manifest(w, "later_manifest")
    harm.spoil(manifest, os.urandom(len(content(manifest))))
    at = lists(w, "later_list")[-1]
    harm.spoil(at, first_block_cut(at))
    harm.spoil(w.location("later_metadata"), None)


def _departed_data_file(town: Town, table: str) -> str:
    folder = f"{town.w.folder}/{SPACE}/{table}/data/"
    gone = town.w.disk().keys() - walk.of_table(town.w.location(table))
    return next(path for path in sorted(gone) if path.startswith(folder))


def _come_back(town: Town) -> None:
    """After the purge's gate somebody registers the metadata file of before the expiration."""
    town.w.sql(f"CALL register_table('n.returned', '{town.start['returning']}')")


@pytest.mark.parametrize("table", CORRUPT)
def test_a_table_with_an_unreadable_file_is_skipped_whole_and_says_why(
    town: Town, table: str
) -> None:
    for run in ("first", "blocked"):
        line = town.line(run, table)
        assert line["snapshots_expired"] == line["files_departed"] == line["files_purged"] == 0
        assert str(town.ids[table][-1]) in line["skipped"] or "list" in line["skipped"]
        assert line["refused"] is None
    assert town.runs["first"].exit_code == 4


@pytest.mark.parametrize("table", ["cut_metadata", "lost_metadata"])
def test_a_metadata_file_that_cannot_be_read_skips_its_table(town: Town, table: str) -> None:
    assert "metadata file cannot be read" in town.line("first", table)["skipped"]


def test_others_expire_while_some_cannot_be_read(town: Town) -> None:
    for table in (*HEALTHY, *LATER):
        assert town.line("first", table)["snapshots_expired"] == 1, table
        assert town.line("first", table)["files_departed"] > 0, table


def test_nothing_is_purged_anywhere_while_a_table_was_never_read(town: Town) -> None:
    """It may refer to any file. One here does, and nothing that can be read says so."""
    assert town.disks["first"].keys() - town.gone <= town.disks["blocked"].keys()
    assert town.runs["blocked"].exit_code == 4
    for table in NEVER_READ:
        assert any(table in note for note in town.runs["blocked"].notes), table


def test_a_copy_finds_its_files_once_it_can_be_read(town: Town) -> None:
    assert town.needed.keys()  # the fixture ran to its end
    rows = town.w.contents("spoiled_copy")
    assert [len(found) for found in rows.values()] == [4]


def test_what_is_found_broken_later_holds_back_its_table_alone(town: Town) -> None:
    for table in LATER:
        line = town.line("third", table)
        assert line["files_purged"] == 0, table
        assert line["refused"] or line["skipped"], table
        of_table = {path for path in town.disks["first"] if f"/{table}/" in path}
        assert of_table - town.gone <= town.disks["third"].keys()
    for table in ("well", "basis", "slashes"):
        assert town.line("third", table)["files_purged"] > 0 or table == "basis", table


@pytest.mark.parametrize("table", LATER)
def test_the_run_after_mending_completes(town: Town, table: str) -> None:
    assert town.line("mended", table)["files_purged"] > 0
    assert town.needed[table] <= town.disks["mended"].keys()


def test_a_file_that_cannot_be_deleted_fails_the_run_by_name_and_goes_the_next_time(
    town: Town,
) -> None:
    line = town.line("third", "stubborn")
    assert town.runs["third"].exit_code == 1
    assert town.victim in line["failed"]
    assert line["files_purged"] > 0
    assert town.victim in town.disks["first"]
    assert town.victim not in town.disks["mended"]
    assert town.line("mended", "stubborn")["failed"] is None


def test_a_commit_between_plan_and_apply_does_not_stop_the_plan(town: Town) -> None:
    assert town.line("first", "busy_commit")["snapshots_expired"] == 1
    assert town.line("first", "busy_commit")["refused"] is None
    plans = [p for p in town.runs["first"].plans.values() if p.table.name == "busy_commit"]
    assert [plan.state for plan in plans] == [PlanState.APPLIED]
    assert len(town.w.sql("SELECT * FROM {busy_commit}")) == 8


def test_a_tag_between_plan_and_apply_saves_its_snapshot(town: Town) -> None:
    saved = town.ids["busy_tag"][0]
    assert town.line("first", "busy_tag")["snapshots_expired"] == 0
    assert len(town.w.contents("busy_tag")[saved]) == 4


def test_a_rollback_between_plan_and_apply_keeps_what_is_head_now(town: Town) -> None:
    head = town.ids["busy_rollback"][0]
    assert town.line("first", "busy_rollback")["snapshots_expired"] == 0
    assert town.w.heads()["busy_rollback"] == {"main": head}
    assert len(town.w.contents("busy_rollback")[head]) == 4


@pytest.mark.parametrize("table", DROPPED)
def test_a_table_dropped_between_plan_and_apply_loses_nothing_in_its_retention(
    town: Town, table: str
) -> None:
    for run in ("first", "blocked", "third", "mended"):
        assert town.needed[table] <= town.disks[run].keys(), run


def test_a_table_replaced_between_plan_and_apply_is_another_table(town: Town) -> None:
    assert len(town.w.sql("SELECT * FROM {busy_replaced}")) == 4


def test_files_that_are_needed_again_at_the_last_moment_are_not_deleted(town: Town) -> None:
    """Their table came back between the purge's gate and its first delete."""
    assert town.line("third", "returning")["files_purged"] == 0
    assert town.needed["returning"] <= town.disks["third"].keys()
    # They wait a full failsafe again. Both tables let go of them; either one may report it.
    departed = [town.line("mended", name)["files_departed"] for name in ("returning", "returned")]
    assert sorted(departed) == [0, 3]
    assert town.needed["returning"] <= town.disks["mended"].keys()


def test_in_the_end_exactly_what_nobody_needs_is_gone(town: Town) -> None:
    w = town.w
    assert [town.runs[f"after{n}"].exit_code for n in (1, 2, 3, 4)] == [0, 0, 0, 0]
    assert w.disk().keys() == w.reachable()
    for table in w.tables():
        w.contents(table)  # stock Spark reads every snapshot
