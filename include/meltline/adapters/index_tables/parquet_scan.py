"""Reads the ledger's tables in this process, from Iceberg metadata and Parquet files.

A Spark job takes some hundred milliseconds to start, and a few small files answer most queries.
`tables_io.py` calls it first, and the ledger without Spark (`file_index/ledger_rows.py`). It reads
only plain tables: unpartitioned, without deletes, of Parquet files whose columns carry Iceberg's
ids, and with the counts of their snapshot. For any other table it raises `NotPlain`, and Spark
reads it instead.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from meltline.adapters.index_tables import hash_prints
from meltline.adapters.index_tables.file_parts import (
    REMEMBERED,
    FileParts,
    NotPlain,
    RangedFile,
    TableFiles,
)
from meltline.adapters.index_tables.scan_query import Bounds, Question, ordered, shaped
from meltline.adapters.index_tables.table_now import INTEGERS, TableNow
from meltline.adapters.manifests.avro_container import AvroFile, Record
from meltline.domain.iceberg.files import EntryStatus

_LARGEST = 256 * 1024 * 1024  # bytes of files that one answer may take (two seconds, in memory)
_WHOLE = 512 * 1024  # bytes; from a larger file only the columns that a query needs are read
_THREADS = 8
_SMALL = 2 * 1024 * 1024  # bytes that are decoded before threads would have started
_FIELD_ID = b"PARQUET:field_id"
_LISTED = {"manifest_path", "content", "added_files_count", "existing_files_count"}
_ENTRY = {"status", "data_file"}
_PAIR = {"key", "value"}
_FILE = {
    *("content", "file_path", "file_format", "partition"),
    *("record_count", "file_size_in_bytes"),
}

Part = TypeVar("Part")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class DataFile:
    """A data file of the ledger, as its manifest has it; bounds are by the ids of columns."""

    path: str
    length: int
    rows: int
    low: Mapping[int, bytes]
    high: Mapping[int, bytes]
    nulls: Mapping[int, int]

    def bounds(self, number: int, kind: str) -> Bounds:
        """Returns the known bounds of a column's values."""
        low, high = (_bound(of.get(number), kind) for of in (self.low, self.high))
        return Bounds(low, high, self.nulls.get(number), self.rows)


class LedgerFiles:
    """Answers queries from the tables' files, and caches files it has read.

    Attributes:
        largest: Bytes of files that one answer may take.
        whole: A larger file is read in parts, if the query needs only some of its columns.
    """

    largest = _LARGEST
    whole = _WHOLE

    def __init__(self, store: TableFiles, remembered: int = REMEMBERED) -> None:
        """Takes the store, and how many bytes of files to cache."""
        self._parts = FileParts(store, remembered)
        self._manifests: dict[str, dict[str, Sequence[DataFile]]] = {}

    def answer_at(self, name: str, location: str, question: Question) -> pa.Table:
        """Answers from the table as a metadata file has it. Raises NotPlain."""
        table = TableNow.of_metadata(self._parts.whole(location))
        return self.answer(name, table, question) if table else question.answer.empty_table()

    def answer(
        self, name: str, table: TableNow, question: Question, *, of_any_size: bool = False
    ) -> pa.Table:
        """Returns the rows of a table's snapshot that match a query.

        Args:
            name: The table's name.
            table: The table as it is now.
            question: The query.
            of_any_size: Whether files may be read however large they are together.

        Raises:
            NotPlain: They cannot be read here, or Spark reads them faster.
        """
        if not table.fields.keys() >= {*question.columns, *question.tested}:
            raise NotPlain
        fields = {c: table.fields[c] for c in question.tested}
        files = [
            file
            for file in self._files(name, table)
            if question.may_be_in({c: file.bounds(*field) for c, field in fields.items()})
        ]
        if sum(file.length for file in files) > self.largest and not of_any_size:
            raise NotPlain
        in_parts = of_any_size or bool(question.tested)
        ids = {column: number for column, (number, _) in table.fields.items()}
        large = [file for file in files if in_parts and file.length > self.whole]
        contents = self._fetched([f for f in files if not in_parts or f.length <= self.whole])
        readers: list[Callable[[], pq.ParquetFile]] = [
            *(partial(pq.ParquetFile, pa.BufferReader(content)) for content in contents),
            *(partial(self._ranged, file) for file in large),
        ]
        threads = bool(large) or sum(map(len, contents)) > _SMALL
        parts = _each(lambda reader: _read(reader, ids, question), readers, threads)
        return pa.concat_tables([question.answer.empty_table(), *parts])

    def keep(self, path: str, content: bytes) -> None:
        """Caches a file that was just written or read."""
        self._parts.keep(path, 0, content)

    def _ranged(self, file: DataFile) -> pq.ParquetFile:
        held = self._parts.held(file.path, file.length)
        if held:
            return pq.ParquetFile(pa.BufferReader(held))
        source = pa.PythonFile(RangedFile(self._parts, file.path, file.length), mode="r")
        return pq.ParquetFile(source, pre_buffer=True)

    def _fetched(self, files: Sequence[DataFile]) -> list[bytes]:
        contents = {file.path: self._parts.held(file.path, file.length) for file in files}
        missing = [path for path, content in contents.items() if not content]
        contents |= zip(missing, _each(self._parts.whole, missing), strict=True)
        all_fit = self._parts.fits(sum(map(len, contents.values())))
        for file in files:
            if len(contents[file.path]) != file.length:
                raise NotPlain
            if all_fit:  # else each would evict the next one that is needed
                self.keep(file.path, contents[file.path])
        return [contents[file.path] for file in files]

    def _files(self, name: str, table: TableNow) -> Sequence[DataFile]:
        """Returns the snapshot's data files. Their count and rows must match its summary."""
        listed = _records(self._parts.whole(table.manifest_list), _LISTED)
        paths = [row["manifest_path"] for row in listed if _is_live(row)]
        entries = self._manifests.get(name, {})
        new = [path for path in paths if path not in entries]
        entries |= zip(new, _each(lambda path: _entries(self._parts.whole(path)), new), strict=True)
        self._manifests[name] = {path: entries[path] for path in paths}  # older ones are dropped
        files = [file for path in paths for file in entries[path]]
        if (len(files), sum(file.rows for file in files)) != (table.files, table.rows):
            raise NotPlain
        return files


def _each(
    apply: Callable[[Part], Outcome], of: Sequence[Part], threads: bool = True
) -> list[Outcome]:
    if len(of) < 2 or not threads:
        return list(map(apply, of))
    with ThreadPoolExecutor(min(_THREADS, len(of))) as pool:
        return list(pool.map(apply, of))


# --- manifests -------------------------------------------------------------------------------


def _records(content: bytes, needed: Set[str]) -> list[Record]:
    """Reads the records of an Avro file. Raises NotPlain if one lacks a field."""
    try:
        records = list(AvroFile.read(content).records())
    except ValueError as damaged:
        raise NotPlain from damaged
    _require(needed, records)
    return records


def _require(needed: Set[str], records: Iterable[Record]) -> None:
    if not all(needed <= record.keys() for record in records):
        raise NotPlain


def _is_live(row: Mapping[str, Any]) -> bool:
    """Whether a manifest keeps files alive. Raises NotPlain if these are delete files."""
    live = row["added_files_count"] + row["existing_files_count"]
    if live and (row["content"] or row.get("key_metadata")):
        raise NotPlain
    return bool(live)


def _entries(content: bytes) -> Sequence[DataFile]:
    rows = _records(content, _ENTRY)
    files = [row["data_file"] for row in rows if row["status"] != EntryStatus.DELETED]
    _require(_FILE, files)
    return [_data_file(file) for file in files]


def _data_file(row: Mapping[str, Any]) -> DataFile:
    if row["content"] or row["file_format"].upper() != "PARQUET" or row["partition"]:
        raise NotPlain
    low, high, nulls = (
        _by_column(row.get(name) or ())
        for name in ("lower_bounds", "upper_bounds", "null_value_counts")
    )
    size, count = row["file_size_in_bytes"], row["record_count"]
    return DataFile(row["file_path"], size, count, low, high, nulls)


def _by_column(pairs: Sequence[Record]) -> dict[int, Any]:
    _require(_PAIR, pairs)
    return {pair["key"]: pair["value"] for pair in pairs}


def _bound(raw: bytes | None, kind: str) -> int | str | None:
    """Decodes a bound from Iceberg's bytes; None if it is missing, or of another kind."""
    if raw is None:
        return None
    if kind == "string":
        try:
            return raw.decode()
        except UnicodeDecodeError as damaged:
            raise NotPlain from damaged
    return int.from_bytes(raw, "little", signed=True) if kind in INTEGERS else None


# --- Parquet files -----------------------------------------------------------------------------


@contextmanager
def _as_parquet() -> Iterator[None]:
    """Raises NotPlain for files that Arrow cannot read, or not as the table's types."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as damaged:
        raise NotPlain from damaged


def _read(
    opened: Callable[[], pq.ParquetFile], ids: Mapping[str, int], question: Question
) -> pa.Table:
    """Reads the rows of one file that are in the answer."""
    with _as_parquet():
        file = opened()
        names = _names(file.schema_arrow, ids)
        groups = _groups(file.metadata, names, question)
    if not question.tested:
        return _columns(file, groups, names, question.answer)
    fields = [question.schema.field(column) for column in question.tested]
    rows = _columns(file, groups, names, pa.schema(fields))
    chosen = question.chosen(rows)
    if set(question.columns) <= set(question.tested):
        return rows.filter(chosen).select(question.columns)
    hit, chosen = _narrowed(file.metadata, groups, chosen)
    return _columns(file, hit, names, question.answer).filter(chosen)


def _names(schema: pa.Schema, ids: Mapping[str, int]) -> dict[str, str]:
    """Returns the file's name of each of the table's columns; columns added later are missing."""
    if not all(field.metadata and _FIELD_ID in field.metadata for field in schema):
        raise NotPlain
    in_file = {int(field.metadata[_FIELD_ID]): field.name for field in schema}
    return {column: in_file[number] for column, number in ids.items() if number in in_file}


def _groups(metadata: Any, names: Mapping[str, str], question: Question) -> list[int]:
    """Returns row groups that may have rows of the answer."""
    if not question.tested or not metadata.num_row_groups:
        return list(range(metadata.num_row_groups))
    first = metadata.row_group(0)
    leaves = {first.column(n).path_in_schema: n for n in range(first.num_columns)}
    leaf_of = {c: leaves[names[c]] for c in question.tested if names.get(c) in leaves}
    without = _without(metadata, names, question)
    return [
        number
        for number in range(metadata.num_row_groups)
        if number not in without
        and question.may_be_in(_group_bounds(metadata.row_group(number), leaf_of))
    ]


def _without(metadata: Any, names: Mapping[str, str], question: Question) -> frozenset[int]:
    """Returns row groups without any of the queried hashes, by the file's footer."""
    if question.among is None or question.among[0] != hash_prints.COLUMN:
        return frozenset()
    if names.get(hash_prints.COLUMN) != hash_prints.COLUMN:
        return frozenset()
    return hash_prints.groups_without(metadata, question.among[1].to_numpy(zero_copy_only=False))


def _group_bounds(group: Any, leaves: Mapping[str, int]) -> dict[str, Bounds]:
    bounds = {}
    for column, leaf in leaves.items():
        statistics = group.column(leaf).statistics
        if statistics is not None and (statistics.has_min_max or statistics.has_null_count):
            low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
            nulls = statistics.null_count if statistics.has_null_count else None
            bounds[column] = Bounds(_ordered(low), _ordered(high), nulls, group.num_rows)
    return bounds


def _ordered(scalar: Any) -> int | str | None:
    return ordered(scalar) if isinstance(scalar, int | str) else None  # files bound the other types


def _columns(
    file: pq.ParquetFile, groups: Sequence[int], names: Mapping[str, str], schema: pa.Schema
) -> pa.Table:
    present = {names[column]: column for column in schema.names if column in names}
    if not present:
        count = sum(file.metadata.row_group(group).num_rows for group in groups)
        return pa.table([pa.nulls(count, field.type) for field in schema], schema=schema)
    with _as_parquet():
        rows = file.read_row_groups(list(groups), columns=list(present), use_threads=False)
        return shaped(rows.rename_columns([present[name] for name in rows.column_names]), schema)


def _narrowed(
    metadata: Any, groups: Sequence[int], chosen: pa.Array
) -> tuple[Sequence[int], pa.Array]:
    """Keeps the row groups in which rows were chosen, with the choice in each."""
    ends = np.cumsum([metadata.row_group(group).num_rows for group in groups])
    rows = pc.indices_nonzero(chosen).to_numpy()
    hit = np.unique(np.searchsorted(ends, rows, "right"))
    starts = [0, *ends]
    parts = [chosen.slice(starts[n], ends[n] - starts[n]) for n in hit]
    narrowed = pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())
    return [groups[n] for n in hit], narrowed
