"""One table of a hundred thousand snapshots: the night that finds it, and the next.

Each commit adds a file and removes that of the one before. Iceberg makes three; the metadata, the
manifest lists and the manifests of all others are written as those of the third.
"""

import io
import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro

from benchmarks.bench import Bench
from benchmarks.commits import FOLDERS, Commits, write_files
from benchmarks.ends.steps import End, measured
from benchmarks.history import TABLE, create_table
from benchmarks.lakes import SPACE, TODAY, Lake
from benchmarks.many_snapshots import (
    MANY_WINDOW,
    expired_among,
    first_id,
    manifest_list_of,
    write_metadata,
)
from benchmarks.results import Outcome
from benchmarks.staging import point, read_document, rows

_SNAPSHOTS = 100_000
_MODEL = Commits(3, 1, 1)
_DAY = timedelta(days=1)

Row = dict[str, Any]


def run_snapshots(bench: Bench) -> list[Outcome]:
    """Each step on the night that finds the table, and on the next, without a commit between."""
    _measured(bench, "snapshots-warm-up", 60)
    count = round(_SNAPSHOTS * bench.scale)
    end = _measured(bench, "snapshots", count)
    size = f"{count:,} snapshots, of which {expired_among(count):,} expire on the first night"
    return [end.outcome(size)]


def _measured(bench: Bench, name: str, count: int) -> End:
    bench.say(f"{name}: writing {count:,} snapshots")
    lake = Lake(bench.place(name), name.replace("-", "_"), bench.spark, MANY_WINDOW).create()
    with lake.in_place():
        _build(bench, lake, count)
        _require_readable(lake, count)
        lake.init()
        end = measured(End(bench, name), lambda end: _nights(end, lake))
    bench.remove({name: lake})
    return end


def _nights(end: End, lake: Lake) -> None:
    end.night(lake, TODAY, "first night, ")
    end.night(lake, TODAY + _DAY, "a day, ")


def _require_readable(lake: Lake, count: int) -> None:
    """Stock Iceberg reads the newest snapshot, and one in the middle."""
    first = first_id(TABLE)
    for number in {count // 2, count - 1}:
        found = lake.spark.sql(
            f"SELECT file_path FROM {lake.table(TABLE)}.files VERSION AS OF {first + number}"
        ).collect()
        assert [row[0] for row in found] == [_path(lake, number)], f"snapshot {number}: {found}"


# --- building ----------------------------------------------------------------------------------


def _build(bench: Bench, lake: Lake, count: int) -> None:
    create_table(lake, TABLE, bench.columns)
    bench.committer.commit(lake.table(TABLE), f"file://{lake.data(TABLE)}", _MODEL)
    old = rows(lake.db)[f"{SPACE}.{TABLE}"]
    document = read_document(old)
    newest = max(document["snapshots"], key=lambda each: each["sequence-number"])
    copies = Copies(lake, Model.of(newest["manifest-list"]))
    for number in range(count):
        copies.write(number)
    head = lake.data(TABLE).with_name("metadata") / "00009-all.metadata.json"
    model = {**document, "snapshots": [newest]}
    write_metadata(head, model, f"file://{lake.place}/{SPACE}/{TABLE}", TABLE, count)
    point(lake.db, f"{SPACE}.{TABLE}", old, f"file://{head}")
    write_files(lake.data(TABLE), Commits(count, 1, 1))


def _path(lake: Lake, number: int) -> str:
    return f"file://{lake.data(TABLE)}/{number % FOLDERS:03d}/{100_000_000 + number}.parquet"


@dataclass(frozen=True)
class AvroModel:
    """An Avro file to be written again with other rows."""

    schema: Any
    header: dict[str, str]
    rows: list[Row]

    @classmethod
    def of(cls, location: str) -> "AvroModel":
        """From a file."""
        with Path(location.removeprefix("file:")).open("rb") as content:
            reader: Any = fastavro.reader(content)
            header, found = reader.metadata, list(reader)
        schema = fastavro.parse_schema(json.loads(header["avro.schema"]))
        return cls(schema, {k: v for k, v in header.items() if not k.startswith("avro.")}, found)

    def write(self, file: Path, of: list[Row], header: dict[str, str]) -> int:
        """Writes rows; returns how many bytes the file has."""
        content = io.BytesIO()
        fastavro.writer(content, self.schema, of, "deflate", metadata={**self.header, **header})
        return file.write_bytes(content.getbuffer())


@dataclass(frozen=True)
class Model:
    """A snapshot that added a file and removed another: its manifest list, its two manifests."""

    listed: AvroModel
    added: AvroModel
    removed: AvroModel

    @classmethod
    def of(cls, manifest_list: str) -> "Model":
        """From where its list lies."""
        listed = AvroModel.of(manifest_list)
        listed.rows.sort(key=lambda row: bool(row["deleted_files_count"]))
        added, removed = (AvroModel.of(row["manifest_path"]) for row in listed.rows)
        assert (len(added.rows), len(removed.rows)) == (1, 1), "one file each"
        return cls(listed, added, removed)


class Copies:
    """Snapshots like the model, by their numbers."""

    def __init__(self, lake: Lake, model: Model) -> None:
        self._lake = lake
        self._model = model
        self._folder = lake.data(TABLE).with_name("metadata")
        self._first = first_id(TABLE)

    def write(self, number: int) -> None:
        """Writes the manifests of a snapshot and the list of them; the first removes nothing."""
        kinds = (self._model.added, self._model.removed) if number else (self._model.added,)
        listed = [
            self._manifest(manifest, row, number, removes=bool(position))
            for position, (manifest, row) in enumerate(
                zip(kinds, self._model.listed.rows, strict=False)
            )
        ]
        id = self._first + number
        header = {"snapshot-id": str(id), "sequence-number": str(number + 1)}
        header["parent-snapshot-id"] = str(id - 1) if number else "null"
        name = manifest_list_of(TABLE, str(id))
        self._model.listed.write(self._folder / name, listed, header)

    def _manifest(self, model: AvroModel, row: Row, number: int, *, removes: bool) -> Row:
        """Writes one of the two, and returns how the list names it."""
        file = self._folder / f"{number:08d}-0000-4000-8000-000000000000-m{int(removes)}.avro"
        held = number - removes
        (entry,) = model.rows
        sequence = {
            name: None if entry[name] is None else held + 1
            for name in ("sequence_number", "file_sequence_number")
        }
        data_file = {**entry["data_file"], "file_path": _path(self._lake, held)}
        id = self._first + number
        length = model.write(
            file, [{**entry, **sequence, "snapshot_id": id, "data_file": data_file}], {}
        )
        return {
            **row,
            "manifest_path": f"file://{file}",
            "manifest_length": length,
            "added_snapshot_id": id,
            "sequence_number": number + 1,
            "min_sequence_number": held + 1,
        }
