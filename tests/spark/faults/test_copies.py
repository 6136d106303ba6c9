"""Copies and moves by Iceberg's own `rewrite_table_path` and `register_table`, and what they keep.

A copy has its source's UUID, snapshot ids and names, and none of its files. All that is known of
the one must not be taken for the other's.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import SWEEP
from meltline.app.run.summary import Summary
from meltline.app.run_request import RunRequest
from tests.spark.setups import walk
from tests.spark.setups.stranger import MERGE_ON_READ
from tests.spark.setups.warehouse import DAY, SPACE, TODAY, Contents, Warehouse, tables_of

pytestmark = pytest.mark.spark

START = TODAY + timedelta(hours=1)
CONFIG = """\
  copies_seen:
    type: sql
    uri: sqlite:///theirs/catalog.db
    warehouse: theirs/warehouse
    observe-only: true
limits:
  max-delete-ratio: 1.0
"""


@dataclass
class Story:
    """A warehouse with copies in it, and what nights and sweeps made of it.

    Attributes:
        theirs: A catalog that is only observed.
        before: The rows of every snapshot before the nights; `hidden` those of `theirs`.
        disk: The files of `theirs` before the nights.
        summaries: Of the nights and the sweeps.
    """

    w: Warehouse
    theirs: Warehouse
    before: Contents = field(default_factory=dict)
    hidden: Contents = field(default_factory=dict)
    disk: set[str] = field(default_factory=set)
    summaries: list[Summary] = field(default_factory=list)

    def night(self, days: float) -> None:
        self.summaries.append(self.w.run(START + days * DAY))

    def sweep(self, days: float) -> None:
        now: datetime = START + days * DAY
        request = RunRequest(f"sweep-{days}", now)
        self.summaries.append(run_step(SWEEP, self.w.services(now), request))

    def is_whole(self, table: str) -> bool:
        """Whether all that it refers to is there, and stock Spark reads what it read before."""
        there = set(walk.disk(self.w.root))
        assert walk.of_table(self.w.location(table)) <= there, table
        now = self.w.contents(table)
        assert now and now.items() <= self.before[table].items(), table
        return True

    def has_expired(self, table: str) -> bool:
        """Whether heads and tags are all that it has, and no other file lies in its folder."""
        document = self.w.document(table)
        refs = {ref["snapshot-id"] for ref in document["refs"].values()}
        assert set(self.w.snapshots(table)) == refs, table
        folder = walk.local(document["location"])
        left = walk.disk(Path(folder)).keys() - walk.of_table(self.w.location(table))
        # Staging the commit times left a metadata file that no log names.
        assert {path for path in left if not path.endswith(".json")} == set(), table
        return True


def create(w: Warehouse, table: str, *properties: str, version: int = 2) -> None:
    """A table all of whose paths are spelled alike, with one slash: staging writes them so."""
    place = f"LOCATION 'file:{w.folder}/{SPACE}/{table}'"
    w.create(table, *properties, version=version, more=place)


def copy(w: Warehouse, table: str, name: str, to: Warehouse | None = None) -> None:
    """Copies a table as Iceberg's documentation says: new paths, all files, a registration."""
    target_of = to or w
    source = w.document(table)["location"]
    target = f"file:{target_of.folder}/{SPACE}/{name}"
    staging = f"file:{w.root}/staging/{name}"
    (made,) = w.sql(
        f"CALL rewrite_table_path(table => '{SPACE}.{table}', source_prefix => '{source}',"
        f" target_prefix => '{target}', staging_location => '{staging}')"
    )
    for listed, place in _pairs(walk.local(made.file_list_location)):
        Path(walk.local(place)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(walk.local(listed), walk.local(place))
    location = f"{target}/metadata/{made.latest_version}"
    target_of.sql(f"CALL register_table('{SPACE}.{name}', '{location}')")


def _pairs(listing: str) -> Iterator[tuple[str, str]]:
    place = Path(listing)
    parts = sorted(place.glob("part-*")) if place.is_dir() else [place]
    for part in parts:
        for line in part.read_text().splitlines():
            source, _, target = line.partition(",")
            yield source, target


def prepare(s: Story) -> None:
    """Tables that are observed once, before anybody copies them."""
    w = s.w
    create(w, "prod", *MERGE_ON_READ)
    w.append("prod", 0, 10)
    w.sql("DELETE FROM {prod} WHERE id = 1")
    for table in ("quiet", "calm", "old", "back", "shown"):
        create(w, table)
        w.overwrite(table, 0, 10)
        w.append(table, 20)
    for table in w.tables():
        w.stage(table, 40 * DAY, 30 * DAY)
    w.init(START)
    w.run(START)


def happen(s: Story) -> None:
    """What people and engines do with Iceberg's own procedures."""
    w = s.w
    copy(w, "prod", "backup")
    copy(w, "quiet", "a_still")
    copy(w, "calm", "still")
    copy(w, "shown", "shown", to=s.theirs)
    copy(w, "old", "new")
    w.sql("DROP TABLE {old}")
    create(w, "pair", *MERGE_ON_READ, version=3)
    w.append("pair", 0, 10)
    w.sql("DELETE FROM {pair} WHERE id = 1")
    w.stage("pair", 40 * DAY, 30 * DAY)
    copy(w, "pair", "a_pair")
    w.sql("ALTER TABLE {backup} CREATE TAG audit", "INSERT INTO {backup} VALUES (7, 7)")
    w.sql("CALL rewrite_manifests('n.backup')")
    for table, start in (("backup", 100), ("prod", 200), ("pair", 300), ("a_pair", 400)):
        w.overwrite(table, start)
    w.overwrite("shown", 50)
    older = w.document("back")["metadata-log"][-2]["metadata-file"]
    w.sql("DROP TABLE {back}", f"CALL register_table('{SPACE}.back', '{older}')")
    w.append("back", 500, 600)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("copies")
    w = Warehouse.empty(root, "copies", CONFIG)
    (root / "theirs").mkdir()
    s = Story(w, Warehouse.empty(root / "theirs", "copies_seen"))
    prepare(s)
    happen(s)
    s.before, s.hidden = w.all_contents(), s.theirs.all_contents()
    s.disk = set(walk.disk(s.theirs.folder))
    s.night(1)
    s.sweep(10)
    s.sweep(17)
    for days in (18, 26, 34, 42):
        s.night(days)
    return s


def test_a_copy_that_goes_its_own_way_keeps_its_files_and_expires(story: Story) -> None:
    assert story.is_whole("backup") and story.is_whole("prod")
    assert story.has_expired("backup") and story.has_expired("prod")


@pytest.mark.parametrize(("name", "source"), [("a_still", "quiet"), ("still", "calm")])
def test_a_copy_that_nobody_touches_keeps_its_files_through_sweeps(
    story: Story, name: str, source: str
) -> None:
    assert story.is_whole(name) and story.is_whole(source)
    assert story.has_expired(name) and story.has_expired(source)


def test_a_table_that_was_moved_keeps_its_files_and_expires(story: Story) -> None:
    assert story.is_whole("new") and story.has_expired("new")


def test_two_copies_first_seen_in_one_run_are_not_refused(story: Story) -> None:
    assert story.is_whole("a_pair") and story.is_whole("pair")
    assert story.has_expired("a_pair") and story.has_expired("pair")


def test_a_copy_in_an_observed_catalog_loses_nothing_and_its_source_goes_on(story: Story) -> None:
    assert set(walk.disk(story.theirs.folder)) == story.disk
    assert story.theirs.all_contents() == story.hidden
    assert story.is_whole("shown") and story.has_expired("shown")


def test_a_table_that_was_set_back_keeps_what_it_writes_since(story: Story) -> None:
    assert story.is_whole("back") and story.has_expired("back")


def test_no_night_skips_or_refuses_anything(story: Story) -> None:
    for summary in story.summaries:
        found = [(n, t["skipped"], t["refused"]) for n, t in tables_of(summary).items()]
        assert [line for line in found if line[1] or line[2]] == []
        assert summary.exit_code == 0
