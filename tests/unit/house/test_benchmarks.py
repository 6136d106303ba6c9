"""The benchmarks' own parts: histories, comparison, watching, figures, the picture."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from benchmarks.__main__ import BENCHMARKS, ENDS
from benchmarks.commits import Commits, write_files
from benchmarks.compare import compare, write_listing
from benchmarks.history import DaySize, Past, long_history, next_day_size, small_commits
from benchmarks.lakes import WINDOW, Lake
from benchmarks.past import longer, medians, sizes
from benchmarks.picture import draw
from benchmarks.results import Figure, Outcome, figures_table, read_report, report_of
from benchmarks.sides import Run, Stopwatch
from benchmarks.single_entries import one_entry_a_block
from benchmarks.watch import Seen, watching
from benchmarks.whole_process import ended_of, limit_alone
from meltline.adapters.manifests.avro_container import AvroFile
from meltline.adapters.manifests.fastavro_reader import read_manifest, read_manifest_list
from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
OTHER = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def deleting(folder: Path, all_files: list[str], gone: list[str]) -> Path:
    """A side's listings, before and after it deleted."""
    for name in all_files:
        path = folder / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    write_listing(folder / "lake", folder / "before")
    for name in gone:
        (folder / "lake" / name).unlink()
    write_listing(folder / "lake", folder / "after")
    return folder


def test_a_file_that_one_side_left_behind_is_a_difference(tmp_path: Path) -> None:
    names = ["t/data/1.parquet", "t/data/2.parquet", f"t/metadata/{UUID}-m0.avro"]
    theirs = deleting(tmp_path / "a", names, names[:2])
    ours = deleting(tmp_path / "b", names, [names[0], names[2]])
    same, other = compare([(theirs, {}), (ours, {})])
    assert same.difference is None
    assert same.deleted == {"data": 2}
    assert other.deleted == {"data": 1, "manifests": 1}
    assert other.difference is not None
    assert (other.difference.missed, other.difference.more) == (1, 1)


def test_metadata_and_checksum_files_are_no_difference(tmp_path: Path) -> None:
    names = ["t/metadata/1-x.metadata.json", "t/data/.1.parquet.crc", "t/data/1.parquet"]
    theirs = deleting(tmp_path / "a", names, names[2:])
    ours = deleting(tmp_path / "b", names, names)
    assert [found.difference for found in compare([(theirs, {}), (ours, {})])] == [None, None]


def test_a_commit_that_each_twin_made_itself_goes_by_its_number(tmp_path: Path) -> None:
    def of(uuid: str, snapshot: int) -> list[str]:
        return [f"t/metadata/snap-{snapshot}-1-{uuid}.avro", f"t/metadata/{uuid}-m0.avro"]

    theirs = deleting(tmp_path / "a", of(UUID, 11), of(UUID, 11))
    ours = deleting(tmp_path / "b", of(OTHER, 22), of(OTHER, 22))
    labelled = compare([(theirs, {UUID: "commit 7"}), (ours, {OTHER: "commit 7"})])
    assert [found.difference for found in labelled] == [None, None]
    assert labelled[1].deleted == {"manifest lists": 1, "manifests": 1}
    apart = compare([(theirs, {UUID: "commit 7"}), (ours, {OTHER: "commit 8"})])
    assert apart[1].difference is not None


def promised(past: Past, commits: int, later: int = 0) -> int:
    """How many snapshots a window promises: those whose successor lies in it, and the head."""
    start = past.later(later) - WINDOW
    return 1 + sum(past.when(number + 1) >= start for number in range(1, commits))


@pytest.mark.parametrize("history", [long_history, small_commits])
def test_exactly_the_kept_snapshots_are_promised_on_each_day(
    history: Callable[[float], Past],
) -> None:
    for scale in (0.0004, 0.01, 0.05, 1.0):
        past = history(scale)
        day = past.day.count
        assert past.count > past.keep
        assert promised(past, past.count) == past.keep
        assert promised(past, past.count + day, day) == past.keep
        assert past.when(past.count) < past.as_of < past.when(past.count + 1)


def test_full_size_is_what_the_goals_are_about() -> None:
    (history,) = long_history(1.0).commits
    assert (history.count, history.files, history.removed) == (2001, 2_001_000, 98)
    assert next_day_size(200) == DaySize(100, 100, 98)
    (history,) = small_commits(1.0).commits
    assert (history.count, history.files, history.removed) == (10_000, 200_000, 19)
    assert small_commits(1.0).day == DaySize(500, 20, 19)


def test_a_manifest_is_rewritten_as_blocks_of_one_entry_and_listed_with_its_new_length(
    tmp_path: Path,
) -> None:
    entries = tuple(
        Entry(f"file:/w/{number}", number, FileKind.DATA, EntryStatus.EXISTING, 1, 1)
        for number in range(7)
    )
    manifest = tmp_path / f"{UUID}-m0.avro"
    manifest.write_bytes(manifest_bytes(2, entries))
    named = Manifest(f"file:{manifest}", manifest.stat().st_size, 1, 1, entries)
    (tmp_path / f"snap-1-1-{UUID}.avro").write_bytes(list_bytes(2, [named]))
    (tmp_path / f".{manifest.name}.crc").touch()
    before = list(read_manifest("", manifest.read_bytes()))
    one_entry_a_block(tmp_path)
    content = manifest.read_bytes()
    assert list(read_manifest("", content)) == before
    assert [block.records for block in AvroFile.read(content).blocks()] == [1] * 7
    (listed,) = read_manifest_list("", (tmp_path / f"snap-1-1-{UUID}.avro").read_bytes())
    assert (listed.path, listed.bytes, listed.existing_files) == (named.path, len(content), 7)
    assert len(list(tmp_path.iterdir())) == 2


def test_every_named_file_is_written_and_those_to_be_removed_hold_something(tmp_path: Path) -> None:
    first = Commits(count=3, added=7, removed=2)
    after = first.then(1, 5, 1)
    write_files(tmp_path, first)
    write_files(tmp_path, after)
    sizes = {path.stem: path.stat().st_size for path in tmp_path.rglob("*.parquet")}
    assert sorted(sizes) == [str(100_000_000 + number) for number in range(3 * 7 + 5)]
    filled = [int(stem) - 100_000_000 for stem, size in sizes.items() if size]
    assert sorted(filled) == [0, 1, 7, 8, 14, 15, 21]
    assert after.files_removed == 1


def test_opens_are_counted_by_kind_and_the_ledgers_apart(tmp_path: Path) -> None:
    table, ledger = tmp_path / "metadata", tmp_path / "ledger"
    table.mkdir()
    ledger.mkdir()
    for name in ("1-x.metadata.json", f"snap-1-1-{UUID}.avro", f"{UUID}-m0.avro"):
        (table / name).write_bytes(b"x" * 100_000)
    with watching([table, ledger]) as watched:
        for path in sorted(table.iterdir()):
            path.read_bytes()
        (ledger / "data").mkdir()
        (ledger / "1-x.metadata.json").touch()
    opened = watched.seen.opened
    assert opened["metadata files"] == opened["manifest lists"] == opened["manifests"] == 1
    assert opened["ledger: metadata files"] == 1
    assert watched.seen.read_bytes >= 300_000
    assert watched.seen.peak_bytes["driver"] > 0
    assert watched.seen.peak_bytes["together"] >= watched.seen.peak_bytes["driver"]


BUSY = "import time\nwhile time.process_time() < 0.4: pass\n"


def test_cpu_time_of_a_process_counts_from_its_start_with_its_childrens(tmp_path: Path) -> None:
    both = f"import subprocess, sys\n{BUSY}subprocess.run([sys.executable, '-c', {BUSY!r}])"
    last = f"{both}\nimport time\ntime.sleep(0.5)"  # until it is sampled once more
    with (
        subprocess.Popen([sys.executable, "-c", last]) as process,
        watching([tmp_path], process.pid) as watched,
    ):
        process.wait()
    assert 0.7 <= watched.seen.cpu_seconds < 5  # whole ticks count


def test_of_this_process_only_what_it_uses_while_it_is_watched_counts(tmp_path: Path) -> None:
    before = sum(os.times()[:2])
    with watching([tmp_path]) as watched:
        pass
    assert watched.seen.cpu_seconds < before


def test_two_watches_one_after_the_other_are_as_one() -> None:
    first = Seen({"driver": 5, "jvm": 1}, 10, {"manifests": 1}, overflown=True, cpu_seconds=1.5)
    then = Seen({"driver": 3, "workers": 2}, 5, {"manifests": 2}, overflown=False, cpu_seconds=1)
    assert first.then(then) == Seen(
        {"driver": 5, "jvm": 1, "workers": 2}, 15, {"manifests": 3}, overflown=True, cpu_seconds=2.5
    )


def test_what_was_seen_of_two_watches_is_read_back_from_the_report(tmp_path: Path) -> None:
    seen = Seen({"driver": 5}, 10, {"manifests": 1}, overflown=False, cpu_seconds=1.5)
    run = Run("side", 1.0, {"first": 1.0}, seen.then(seen), "something")
    report = report_of([Outcome("name", 1.0, "size", (Figure("a", 1.0),), (run,))], {})
    (tmp_path / "report.json").write_text(report.as_json(), encoding="utf-8")
    assert read_report(tmp_path / "report.json") == report


def test_a_limit_that_is_left_at_its_default_is_taken_out_of_the_configuration(
    tmp_path: Path,
) -> None:
    lake = Lake(tmp_path, "twin", cast(Any, None))
    lake.root.mkdir()
    config = lake.root / "meltline.yaml"
    before = "hot: lake\ncatalogs: {lake: {type: sql, uri: sqlite:///c.db, warehouse: w}}\n"
    limits = "limits:\n  max-growth: 9\n"
    config.write_text(f"{before}{limits}  delete-keys-per-second: 7\n", encoding="utf-8")
    assert lake.leave_at_default("delete-keys-per-second") == 3000
    assert config.read_text(encoding="utf-8") == before + limits
    with pytest.raises(AssertionError, match="is not set once"):
        lake.leave_at_default("delete-keys-per-second")


def test_what_a_command_did_is_counted_over_its_tables_and_its_limit_is_arithmetic() -> None:
    table = {"snapshots_expired": 2, "files_purged": 30}
    ended = ended_of({"tables": [table, table]}, 1.5, Seen({}, 0, {}, overflown=False))
    assert (ended.seconds, ended.snapshots, ended.files) == (1.5, 4, 60)
    assert "60 files take 20.0 s" in limit_alone(ended.files, 3)


@pytest.mark.parametrize("scale", [0.00001, 0.001, 0.05, 1.0])
def test_tables_of_different_size_have_as_many_commits_to_read(scale: float) -> None:
    small, big = sizes(scale).values()
    assert small.count == big.count
    assert small.files == 100
    assert big.files == max(100, scale * 1_000_000)
    assert small.files_removed == big.files_removed == 0


def test_one_slow_round_is_not_the_median() -> None:
    rounds = [Stopwatch({"clone": 1.0, "drop": took}) for took in (3.0, 90.0, 2.0)]
    assert medians(rounds) == {"clone": 1.0, "drop": 3.0}


def test_a_step_that_takes_more_than_twice_as_long_on_the_big_table_misses_its_goal() -> None:
    found = longer({"clone": 2.0, "drop": 1.0}, {"clone": 4.0, "drop": 2.1})
    assert [(figure.value, figure.met) for figure in found] == [(2.0, True), (2.1, False)]
    assert [figure.name.partition(",")[0] for figure in found] == ["clone", "drop"]


def test_every_benchmark_has_a_row_on_the_page() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"
    rows = re.findall(r"^\| `([a-z-]+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) == {*BENCHMARKS, *ENDS}


def test_a_goal_is_met_from_its_side() -> None:
    assert Figure("a", 3.0, 3.0).met
    assert not Figure("a", 2.9, 3.0).met
    assert Figure("a", 1.1, 1.2, at_most=True).met
    assert not Figure("a", 1.3, 1.2, at_most=True).met
    assert Figure("a", 1.3).met is None
    assert "NO" in figures_table([Figure("a", 2.9, 3.0)])


def test_the_picture_names_every_ratio_and_whether_its_goal_is_met() -> None:
    figures = [Figure("first", 4.0, 3.0), Figure("second", 0.5, 2.0), Figure("bytes", 1, 2, "GiB")]
    picture = draw(figures)
    ElementTree.fromstring(picture)
    assert "goal 3x: met" in picture
    assert "goal 2x: missed" in picture
    assert "bytes" not in picture
