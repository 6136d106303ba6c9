"""A writer that never rests: PyIceberg, in a process of its own, commits to tables in turn.

It writes down which rows each snapshot held when it was committed, a line each.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TextIO

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from tests.dags.airflow_home import ROOT
from tests.dags.small_lake import TABLES

_PAUSE = 0.5  # seconds between two commits
_OVERWRITE = 4  # each so many commits of a table replace all that it has


def open_table(config: Path, table: str) -> Table:
    """A table of a small lake, as any engine sees it."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{config.parent}/catalog.db")
    try:
        return catalog.load_table(("air", table))
    finally:
        catalog.close()


def rows(table: Table, snapshot_id: int) -> list[int]:
    """What a snapshot holds."""
    return sorted(table.scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist())


@dataclass(frozen=True)
class BusyWriter:
    """The writer at work.

    Attributes:
        notes: Where it writes down what it commits.
    """

    notes: Path

    def written(self) -> dict[int, list[int]]:
        """The rows of each snapshot that was committed so far."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return {note["snapshot"]: note["rows"] for note in map(json.loads, lines)}


@contextmanager
def busy_writer(config: Path) -> Iterator[BusyWriter]:
    """Writes to all tables of a small lake until the end."""
    writer = BusyWriter(config.parent / "written.jsonl")
    log = config.parent / "writer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.dags.busy_writer", str(config), str(writer.notes)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "include"), str(ROOT)])},
            stdout=output,
            stderr=output,
        )
    try:
        while not writer.written() and process.poll() is None:
            time.sleep(0.1)
        yield writer
        assert process.poll() is None, f"the writer has died:\n{log.read_text()}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _write(config: Path, notes: TextIO) -> None:
    tables = [open_table(config, table) for table in TABLES]
    for table in tables:
        for snapshot in table.snapshots():
            _note(notes, table, snapshot.snapshot_id)
    for number in count():
        table = tables[number % len(tables)]
        batch = pa.table({"id": pa.array([1_000_000 + number, 2_000_000 + number])})
        try:
            table.refresh()
            if number // len(tables) % _OVERWRITE:
                table.append(batch)
            else:
                table.overwrite(batch)
        except (CommitFailedException, OperationalError):  # somebody else came first
            continue
        head = table.current_snapshot()
        assert head is not None
        for snapshot_id in (head.parent_snapshot_id, head.snapshot_id):  # an overwrite makes two
            if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is not None:
                _note(notes, table, snapshot_id)
        time.sleep(_PAUSE)


def _note(notes: TextIO, table: Table, snapshot_id: int) -> None:
    notes.write(json.dumps({"snapshot": snapshot_id, "rows": rows(table, snapshot_id)}) + "\n")
    notes.flush()


if __name__ == "__main__":
    with Path(sys.argv[2]).open("w") as written:
        _write(Path(sys.argv[1]), written)
