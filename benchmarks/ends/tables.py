"""Ten thousand tables of a few snapshots: the night that finds them, and one on which few change.

One is made by Iceberg; the others are copies of its metadata under names as long as its own, so
that nothing in a file moves. Each names files of its own.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid5

from benchmarks.bench import Bench
from benchmarks.commits import Commits
from benchmarks.ends.steps import End, measured
from benchmarks.history import create_table, require_as_generated, write_history
from benchmarks.lakes import SPACE, TODAY, Lake
from benchmarks.results import Outcome
from benchmarks.single_entries import uncompressed
from benchmarks.staging import read_document, rows

_TABLES = 10_000
_HISTORY = Commits(count=4, added=5, removed=4)
_BUSY_EVERY = 100
_LATER = timedelta(hours=12)
_NOT_WRITTEN = "only those tables have data files that commit on the day and let a snapshot expire"


def run_tables(bench: Bench) -> list[Outcome]:
    """Each step on the night that finds the tables, and on the next."""
    _measured(bench, "tables-warm-up", 10)
    count = round(_TABLES * bench.scale)
    end = _measured(bench, "tables", count)
    busy = len(_busy(_names(count)))
    size = f"{count:,} tables of {_HISTORY.count} snapshots; then a commit on {busy} of them"
    return [end.outcome(size, (_NOT_WRITTEN,))]


def _names(count: int) -> list[str]:
    return [f"t{number:05d}" for number in range(count)]


def _busy(names: Sequence[str]) -> Sequence[str]:
    return names[::_BUSY_EVERY]


def busy_since(number: int) -> datetime:
    """The time of a commit where a snapshot has left the window on each of the two nights."""
    return TODAY + timedelta(hours=10 * (number - _HISTORY.count) - 6)


def idle_since(number: int) -> datetime:
    """The same where a burst of commits lies just before the first night."""
    return TODAY - timedelta(minutes=_HISTORY.count + 1 - number)


def _measured(bench: Bench, name: str, count: int) -> End:
    bench.say(f"{name}: building {count:,} tables of {_HISTORY.count} snapshots")
    lake = Lake(bench.place(name), name.replace("-", "_"), bench.spark).create()
    names = _names(count)
    with lake.in_place():
        _build(bench, lake, names)
        require_as_generated(lake, [_HISTORY], names[-1])
        lake.init()
        end = measured(End(bench, name), lambda end: _nights(end, lake, names))
    bench.remove({name: lake})
    return end


def _nights(end: End, lake: Lake, names: Sequence[str]) -> None:
    end.night(lake, TODAY, "first night, ")
    commit = _HISTORY.then(1, _HISTORY.added, _HISTORY.removed)
    for table in _busy(names):
        _commit(end.bench, lake, table, commit)
    end.night(lake, TODAY + _LATER, "a day, ")


def _commit(bench: Bench, lake: Lake, table: str, commits: Commits) -> None:
    bench.committer.commit(lake.table(table), f"file://{lake.data(table)}", commits)
    write_history(lake.place, [commits], table)
    lake.stage(table, busy_since)


# --- copies ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """The metadata of a table, to be copied.

    Attributes:
        name: Of the table.
        lists: Manifest lists and manifests by their names, not compressed.
        idle: Its newest metadata file, as one of a table that commits no more; likewise `busy`.
    """

    name: str
    lists: dict[str, bytes]
    idle: str
    busy: str

    def copy(self, place: Path, name: str, *, is_busy: bool) -> Path:
        """Writes it as that of a table of that name; returns its metadata file."""
        assert len(name) == len(self.name), f"{name} is not as long as {self.name}"
        old, new = f"/{SPACE}/{self.name}", f"/{SPACE}/{name}"
        folder = place / SPACE / name / "metadata"
        folder.mkdir(parents=True)
        for file, content in self.lists.items():
            (folder / file).write_bytes(content.replace(old.encode(), new.encode()))
        uuid = uuid5(UUID(int=0), name)
        head = folder / f"00001-{uuid}.metadata.json"
        text = (self.busy if is_busy else self.idle).replace(old, new)
        head.write_text(json.dumps({**json.loads(text), "table-uuid": str(uuid)}), encoding="utf-8")
        return head


def _build(bench: Bench, lake: Lake, names: Sequence[str]) -> None:
    first, busy = names[0], set(_busy(names))
    create_table(lake, first, bench.columns)
    bench.committer.commit(lake.table(first), f"file://{lake.data(first)}", _HISTORY)
    metadata = lake.data(first).with_name("metadata")
    uncompressed(metadata)
    model = Model(
        first,
        {file.name: file.read_bytes() for file in metadata.glob("*.avro")},
        _staged(lake, first, idle_since),
        _staged(lake, first, busy_since),  # the last: this is what the first table keeps
    )
    heads = {name: model.copy(lake.place, name, is_busy=name in busy) for name in names[1:]}
    _register(lake, heads)
    for name in busy:
        write_history(lake.place, [_HISTORY], name)


def _staged(lake: Lake, table: str, when: Callable[[int], datetime]) -> str:
    """A table's metadata with such times, and no log of the files before."""
    lake.stage(table, when)
    return json.dumps({**read_document(rows(lake.db)[f"{SPACE}.{table}"]), "metadata-log": []})


def _register(lake: Lake, heads: dict[str, Path]) -> None:
    with closing(sqlite3.connect(lake.db)) as connection, connection:
        connection.executemany(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location, iceberg_type) VALUES (?, ?, ?, ?, 'TABLE')",
            [(lake.name, SPACE, name, f"file://{head}") for name, head in heads.items()],
        )
