"""The benchmarks of the ends: their tables, and how growth is told."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.ends.growth import growth
from benchmarks.ends.live import table_of
from benchmarks.ends.tables import Model, busy_since, idle_since
from benchmarks.history import DaySize
from benchmarks.lakes import TODAY, WINDOW
from benchmarks.results import Outcome
from benchmarks.sides import Run
from benchmarks.single_entries import uncompressed
from benchmarks.watch import Seen
from meltline.adapters.manifests.fastavro_reader import read_manifest, read_manifest_list
from meltline.domain.iceberg.files import EntryStatus, FileKind
from tests.lake.avro_files import Entry, Manifest, list_bytes, manifest_bytes


def outcome(**steps: tuple[float, int]) -> Outcome:
    """Steps with their seconds and the driver's memory."""
    runs = tuple(
        Run(
            name,
            seconds,
            {},
            Seen({"driver": memory}, 0, {}, overflown=False, cpu_seconds=2 * seconds),
            "done",
        )
        for name, (seconds, memory) in steps.items()
    )
    return Outcome("ends-live", 1.0, "many", (), runs)


def test_what_grows_with_a_square_misses_its_goal() -> None:
    grown = growth(outcome(a=(1.0, 100), b=(1.0, 100)), outcome(a=(16.0, 400), b=(4.0, 1600)))
    met = {figure.name: (figure.value, figure.met) for figure in grown.figures}
    assert met == {
        "live x4, a, time": (16.0, False),
        "live x4, a, CPU time": (16.0, False),
        "live x4, a, driver's memory": (4.0, True),
        "live x4, b, time": (4.0, True),
        "live x4, b, CPU time": (4.0, True),
        "live x4, b, driver's memory": (16.0, False),
    }


def test_a_step_that_one_size_lacks_has_no_growth_and_a_short_one_none_of_time() -> None:
    grown = growth(outcome(a=(0.01, 100)), outcome(a=(0.3, 100), b=(9.0, 9)))
    assert [figure.name for figure in grown.figures] == ["live x4, a, driver's memory"]


@pytest.mark.parametrize("files", [2000, 100_000, 10_000_000])
def test_the_table_has_so_many_live_files_and_the_same_day_whatever_its_size(files: int) -> None:
    past = table_of(files)
    base, small = past.commits
    assert (base.files, base.files_removed) == (files, 0)
    assert (small.count, past.day) == (past.keep, DaySize(100, 100, 98))


def leaving(since: Callable[[int], datetime], commits: int, as_of: datetime) -> int:
    """How many snapshots a window does not promise: those whose successor came before it."""
    return sum(since(number + 1) < as_of - WINDOW for number in range(1, commits))


def test_a_snapshot_leaves_each_busy_table_on_either_night_and_no_idle_one() -> None:
    later = TODAY + timedelta(hours=12)
    assert leaving(busy_since, 4, TODAY) == 1
    assert leaving(busy_since, 5, later) == 2  # that of the first night, and one more
    assert busy_since(4) < TODAY < busy_since(5) < later
    assert leaving(idle_since, 4, later) == 0


def test_a_copy_of_a_table_names_files_of_its_own(tmp_path: Path) -> None:
    metadata = tmp_path / "n" / "t0" / "metadata"
    metadata.mkdir(parents=True)
    entry = Entry("file:/w/n/t0/data/1", 1, FileKind.DATA, EntryStatus.ADDED, 1, 1)
    manifest = metadata / "a-m0.avro"
    manifest.write_bytes(manifest_bytes(2, (entry,)))
    named = Manifest(f"file:{manifest}", manifest.stat().st_size, 1, 1, (entry,))
    (metadata / "snap-1-1-a.avro").write_bytes(list_bytes(2, [named]))
    uncompressed(metadata)
    files = {file.name: file.read_bytes() for file in metadata.iterdir()}
    text = f'{{"table-uuid": "x", "location": "file:{tmp_path}/n/t0"}}'
    head = Model("t0", files, idle=text, busy="{}").copy(tmp_path, "t7", is_busy=False)
    assert f"{tmp_path}/n/t7" in head.read_text(encoding="utf-8")
    copied = head.parent
    (listed,) = read_manifest_list("", (copied / "snap-1-1-a.avro").read_bytes())
    assert listed.path == f"file:{copied}/a-m0.avro"
    assert listed.bytes == (copied / "a-m0.avro").stat().st_size
    (held,) = read_manifest("", (copied / "a-m0.avro").read_bytes())
    assert held.path == "file:/w/n/t7/data/1"
