"""The benchmark handoff: history to cold, beside `rewrite_table_path` and a copy of its list.

Two nights: the oldest hundred snapshots of one table, then the next ten.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.commits import Commits, write_files
from benchmarks.lakes import SPACE, Lake
from benchmarks.results import Figure, Outcome
from benchmarks.sides import BARE, Run, Stopwatch
from benchmarks.staging import read_document, rows
from benchmarks.watch import watching
from meltline.adapters.archive.archive import ColdArchive
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_cache import ArchiveBook
from meltline.adapters.archive.spark_archive import SparkCrew
from meltline.adapters.catalogs.sql_catalog import SqlTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import load_config
from meltline.domain.archive.archive import Validity
from meltline.domain.clock import WallClock
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.ports import ChosenSnapshot, HandedOver, HandoffRequest
from tests.doubles.control.ledger import memory_control_ledger

_TABLE = "t"
_FILES = 200_000
_BASE = 10  # commits that bring nine tenths of the files
_NIGHTS = {"first night": 100, "next night": 10}  # how many snapshots go
_REST = 5  # snapshots that stay
_COPY = "rewrite_table_path and copy"
_GOAL = 1.0


@dataclass(frozen=True)
class Night:
    """What goes to cold in one night: snapshots by position, from the oldest on."""

    name: str
    first: int
    end: int


def history_of(scale: float) -> list[Commits]:
    """A base, and then commits that each add two files for one that they remove.

    Those of each night apart: they are committed together, and leave a metadata file of their own.
    """
    files = round(_FILES * scale)
    counts = [_NIGHTS["first night"] - _BASE, _NIGHTS["next night"], _REST]
    added = max(2, files // 10 // sum(counts))
    made = [Commits(_BASE, max(added, files * 9 // 10 // _BASE), 0)]
    for count in counts:
        made.append(made[-1].then(count, added, added // 2))
    return made


def nights() -> list[Night]:
    """The nights one after the other."""
    ends = [0]
    for count in _NIGHTS.values():
        ends.append(ends[-1] + count)
    return [Night(name, *span) for name, span in zip(_NIGHTS, pairwise(ends), strict=True)]


def run_handoff(bench: Bench) -> list[Outcome]:
    """Both sides take what the same nights bring, each to a place of its own."""
    folder = bench.place("handoff")
    hot = Lake(folder / "hot", "handoff_hot", bench.spark).create()
    cold = Lake(folder / "cold", "handoff_cold", bench.spark).create()
    history = history_of(bench.scale)
    files = sum(one.files for one in history)
    bench.say(f"handoff: building {sum(one.count for one in history)} snapshots, {files:,} files")
    with hot.in_place(), cold.in_place():
        _build(bench, hot, history)
        runs: list[Run] = []
        for night in nights():
            for side, work in ((_COPY, _rewrite_and_copy), (BARE, _hand_off)):
                bench.say(f"  {night.name}: {side}")
                bench.settle()
                runs.append(work(hot, cold, night))
                bench.say(f"  {night.name}: {side} took {runs[-1].seconds:.2f} s")
            _require_same(hot, cold, night)
    if not bench.keep:
        shutil.rmtree(folder)
    return [_outcome(bench.scale, files, runs)]


def _build(bench: Bench, hot: Lake, history: Sequence[Commits]) -> None:
    # The procedure refuses a table whose paths begin in two ways, with `file:/` and `file:///`.
    hot.spark.sql(
        f"CREATE TABLE {hot.table(_TABLE)} (id BIGINT) USING iceberg"
        f" LOCATION 'file:{hot.place}/{SPACE}/{_TABLE}'"
    )
    for commits in history:
        bench.committer.commit(hot.table(_TABLE), f"file:{hot.data(_TABLE)}", commits)
        write_files(hot.data(_TABLE), replace(commits, removed=commits.added))  # none is empty


def _outcome(scale: float, files: int, runs: Sequence[Run]) -> Outcome:
    figures: list[Figure] = []
    for number, night in enumerate(nights()):
        theirs, ours = runs[2 * number : 2 * number + 2]
        name = f"handoff, {night.name}"
        read = theirs.seen.read_bytes / ours.seen.read_bytes
        figures += [
            Figure(name, theirs.seconds / ours.seconds, _GOAL),
            Figure(f"{name}, bytes read", read, None),
        ]
    size = f"{files:,} files of 64 bytes, {sum(_NIGHTS.values()) + _REST} snapshots"
    return Outcome("handoff", scale, size, tuple(figures), tuple(runs))


# --- Iceberg -----------------------------------------------------------------------------------


def _rewrite_and_copy(hot: Lake, cold: Lake, night: Night) -> Run:
    """The procedure from one metadata file to another, and what its list names, copied."""
    versions = _versions(hot)
    target = cold.root / "copied"
    start = f", start_version => '{versions[night.first]}'" if night.first else ""
    watch = Stopwatch()
    with watching([*hot.metadata_folders(), cold.root]) as watched:
        with watch.timing("rewrite_table_path"):
            row = hot.spark.sql(
                f"CALL {hot.name}.system.rewrite_table_path(table => '{SPACE}.{_TABLE}',"
                f" source_prefix => 'file:{hot.place}', target_prefix => 'file:{target}',"
                f" staging_location => 'file:{cold.root}/staging-{night.first}/'{start},"
                f" end_version => '{versions[night.end]}')"
            ).collect()[0]
        with watch.timing("copy"):
            listed = hot.spark.read.csv(row["file_list_location"], schema="old string, new string")
            count = listed.count()
            listed.repartition(8).foreachPartition(_copy)
    return Run(f"{_COPY}, {night.name}", watch.seconds, watch.parts, watched.seen,
               f"{count:,} files copied")  # fmt: skip


def _copy(pairs: Iterable[tuple[str, str]]) -> None:
    made: set[Path] = set()
    for old, new in pairs:
        target = Path(_local(new))
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        shutil.copyfile(_local(old), target)


def _local(location: str) -> str:
    return "/" + location.removeprefix("file:").lstrip("/")


def _versions(hot: Lake) -> list[str]:
    """The names of the metadata files, by how many snapshots they have."""
    location = rows(hot.db)[f"{SPACE}.{_TABLE}"]
    log = [entry["metadata-file"] for entry in read_document(location)["metadata-log"]]
    found = {len(read_document(one).get("snapshots", [])): one for one in (*log, location)}
    return [Path(found[count]).name if count in found else "" for count in range(max(found) + 1)]


# --- Meltline ----------------------------------------------------------------------------------


def _hand_off(hot: Lake, cold: Lake, night: Night) -> Run:
    """What the archive does for the same snapshots: copies, verifies, rewrites, registers."""
    store = ObjectStores({})
    config = load_config(cold.root / "meltline.yaml", {}, cold.root)
    catalog = SqlTables(config.catalogs[cold.name], store)
    stores = Stores(store, store, f"file://{cold.place}")
    ledger = memory_control_ledger(WallClock())
    ledger.database.prepare()
    book = ArchiveBook(ledger.copies, store, f"file://{cold.place}")
    archive = ColdArchive(stores, catalog, partial(SparkCrew, hot.spark), book, WallClock())
    request = _request(hot, cold, night)
    watch = Stopwatch()
    with watching([*hot.metadata_folders(), cold.place]) as watched, watch.timing("handoff"):
        done = [one for _, one in archive.hand_off([request], lambda: True)]
    catalog.close()
    assert not any(one.error for one in done), next(one.error for one in done if one.error)
    return Run(f"{BARE}, {night.name}", watch.seconds, watch.parts, watched.seen, _did(done))


def _did(done: Sequence[HandedOver]) -> str:
    return f"{sum(one.files_copied for one in done):,} files copied"


def _request(hot: Lake, cold: Lake, night: Night) -> HandoffRequest:
    state = _state(hot)
    chosen = tuple(
        ChosenSnapshot(one, Validity(one.committed_at, None))
        for one in _oldest_first(state)[night.first : night.end]
    )
    return HandoffRequest(state, TableName(cold.name, (SPACE,), _TABLE), chosen)


def _state(hot: Lake) -> TableMetadata:
    location = rows(hot.db)[f"{SPACE}.{_TABLE}"]
    name = TableName(hot.name, (SPACE,), _TABLE)
    return parse_table(name, location, 1, read_document(location))


def _oldest_first(state: TableMetadata) -> list[Snapshot]:
    return sorted(state.snapshots.values(), key=lambda one: one.sequence_number)


def _require_same(hot: Lake, cold: Lake, night: Night) -> None:
    """Stock Iceberg finds as many files in the newest cold snapshot as in the original."""
    newest = _oldest_first(_state(hot))[night.end - 1].snapshot_id
    found = [
        lake.spark.sql(
            f"SELECT count(*) FROM {lake.table(_TABLE)}.files VERSION AS OF {newest}"
        ).collect()[0][0]
        for lake in (hot, cold)
    ]
    assert found[0] == found[1], f"snapshot {newest}: {found[0]} files, in cold {found[1]}"
