"""Tables of the lake that are cut into chunks, with rows in their files, and what engines do to
these: appends, updates and deletes in every mode, compactions, other partition specs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from meltline.domain.chunks.columns import ColumnKind, TimeColumn
from meltline.domain.chunks.layout import ChunkLayout
from meltline.domain.chunks.ranges import EPOCH, Unit
from meltline.domain.iceberg.files import FileKind
from tests.doubles.chunks.commits import bounds_of, nulls_of, partition_of
from tests.doubles.chunks.rows import (
    FileEntry,
    Row,
    TableRows,
    chunk_of,
    data_bytes,
    equality_bytes,
    position_bytes,
    row,
)
from tests.doubles.manifest_files import PartitionSpec
from tests.lake.avro_files import FileFacts
from tests.lake.lake import T0, Lake, Table

ID, AT, VALUE = 1, 2, 3
COLUMN = TimeColumn("at", AT, ColumnKind.TIMESTAMPTZ, type="timestamptz")
DAILY = ChunkLayout(COLUMN, Unit.DAY)
COPY_ON_WRITE, MERGE_ON_READ, EQUALITY = "copy-on-write", "merge-on-read", "equality"
_MICROSECOND = timedelta(microseconds=1)


def reading(id: int, day: float | None, value: int | None = 0) -> Row:
    """A row of so many days after the lake's beginning; without a day one without a time."""
    moment = None if day is None else micros(T0 + timedelta(days=day))
    return row({ID: id, AT: moment, VALUE: value})


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND


def chunk_table(
    lake: Lake, name: str, *, version: int = 2, unit: str = "day", **properties: str
) -> "ChunkTable":
    """An empty table partitioned by a unit of time; without one it is not partitioned."""
    table = lake.table(name, version=version, properties=properties)
    table.edit(lambda document: _cut(document, unit))
    return ChunkTable(lake, table.name)


def _cut(document: dict[str, Any], unit: str) -> None:
    columns = (ID, "id", "long"), (AT, "at", "timestamptz"), (VALUE, "value", "long")
    fields = [{"id": id, "name": n, "required": False, "type": kind} for id, n, kind in columns]
    document["schemas"][0]["fields"] = fields
    document["last-column-id"] = VALUE
    if document["format-version"] == 1:
        document["schema"] = document["schemas"][0]
    document["partition-specs"] = [{"spec-id": 0, "fields": _parts(unit, 1000)}]
    document["last-partition-id"] = 1000


def _parts(unit: str, number: int) -> list[dict[str, Any]]:
    if not unit:
        return []
    return [{"source-id": AT, "field-id": number, "name": f"at_{unit}", "transform": unit}]


@dataclass
class ChunkTable(Table):
    """A table with rows of an id, a time and a value."""

    @property
    def spec(self) -> PartitionSpec:
        """How new files are partitioned."""
        return PartitionSpec.of(self.document, self.document["default-spec-id"])

    @property
    def rows(self) -> TableRows:
        return TableRows(self.name, self.document, self.lake.store)

    def rows_now(self) -> list[Row]:
        """What a query of main finds."""
        return self.rows.rows_at(self.head) if self.head > 0 else []

    def of_kind(self, *kinds: FileKind) -> list[FileEntry]:
        """Main's files of some kinds."""
        return [f for f in self.rows.live(self.head) if f.kind in kinds] if self.head > 0 else []

    # --- files ---------------------------------------------------------------------------------

    def write(self, rows: Iterable[Row]) -> list[str]:
        """Data files with these rows, one for each partition. Returns their paths."""
        spec = self.spec
        parts: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
        for values in rows:
            parts.setdefault(tuple(partition_of(spec, COLUMN, values).items()), []).append(values)
        return [self._data_file(spec, part, of_part) for part, of_part in parts.items()]

    def _data_file(
        self, spec: PartitionSpec, part: tuple[tuple[str, Any], ...], rows: Sequence[Row]
    ) -> str:
        return self._put("d", data_bytes(rows), self._facts(spec, part, rows))

    def _facts(
        self, spec: PartitionSpec, part: tuple[tuple[str, Any], ...], rows: Sequence[Row]
    ) -> FileFacts:
        bounds = bounds_of(rows)
        return FileFacts(
            spec,
            part,
            len(rows),
            tuple(nulls_of(rows, self.rows.columns()).items()),
            tuple((column, least) for column, (least, _) in bounds.items()),
            tuple((column, most) for column, (_, most) in bounds.items()),
        )

    def learn_files(self) -> None:
        """Has the lake know files that others wrote, so that engines of its own may go on."""
        for file in self.of_kind(FileKind.DATA):
            spec, rows = self.rows.spec(file.spec_id), self.rows.written(file.path)
            part = tuple(zip((field[1] for field in spec.fields), file.partition, strict=True))
            self.lake.facts[file.path] = self._facts(spec, part, rows)

    def _put(self, letter: str, content: bytes, facts: FileFacts) -> str:
        path = self.data(f"{letter}{self.lake.next_id()}")
        self.lake.store.write(path, content)
        self.lake.facts[path] = facts
        return path

    def _positions(self, data: FileEntry, places: Iterable[int]) -> tuple[str, FileKind]:
        """A file that deletes rows of one data file by place: in format 3 a deletion vector."""
        pairs = [(data.path, place) for place in sorted(set(places))]
        kind = FileKind.DELETION_VECTOR if self.version == 3 else FileKind.POSITION_DELETE
        facts = self._beside(data.path, len(pairs), data.path)
        return self._put("p", position_bytes(pairs), facts), kind

    def _beside(self, data: str, rows: int, referenced: str = "") -> FileFacts:
        """Facts of a delete file in the partition of a data file."""
        of_data = self.lake.facts[data]
        return FileFacts(of_data.spec, of_data.partition, rows, referenced=referenced)

    # --- what engines do -----------------------------------------------------------------------

    def append_rows(self, *rows: Row) -> int:
        return self.append(*self.write(rows))

    def append_spanning(self, *rows: Row) -> int:
        """One file of an unpartitioned spec, with rows of several chunks."""
        return self.append(self._data_file(PartitionSpec(self.spec.id), (), rows))

    def put(self, remove: Iterable[int], add: Iterable[Row] = (), mode: str = COPY_ON_WRITE) -> int:
        """Rows by their ids leave, and others come: a delete, an update, a merge."""
        ids, added = set(remove), self.write(add)
        if mode == EQUALITY:
            return self._upsert(ids, added)
        hit = {file: places for file, places in self._places(ids) if places}
        if mode == COPY_ON_WRITE:
            kept = [self._rewritten(file, places) for file, places in hit.items()]
            add_all = [*added, *(path for path in kept if path)]
            operation = "overwrite" if add_all else "delete"
            return self.replace(remove=[f.path for f in hit], add=add_all, operation=operation)
        deletes, old = {}, []
        for file, places in hit.items():
            before = [d for d in self._deletes_of(file) if self.version == 3]
            earlier = {at for d in before for _, at in self.rows.positions(d)}
            path, kind = self._positions(file, {*places, *earlier})
            deletes[path] = kind
            old += [d.path for d in before]
        operation = "overwrite" if added else "delete"
        return self.replace(remove=old, add=[*added, *deletes], kinds=deletes, operation=operation)

    def _upsert(self, ids: set[int], added: Sequence[str]) -> int:
        """As Flink writes it: each partition with such a row gets an equality delete."""
        keys, deletes = [row({ID: id}) for id in sorted(ids)], {}
        seen = set()
        for file, places in self._places(ids):
            partition = (file.spec_id, file.partition)
            if not places or partition in seen:
                continue
            seen.add(partition)
            facts = self._beside(file.path, len(keys))
            deletes[self._put("e", equality_bytes(keys), facts)] = FileKind.EQUALITY_DELETE
        operation = "overwrite" if added else "delete"
        return self.replace(add=[*added, *deletes], kinds=deletes, operation=operation)

    def delete_by_value(self, value: int) -> int:
        """One equality delete in each partition with such rows: one key, however many it hits."""
        deletes, seen = {}, set()
        for file in self.of_kind(FileKind.DATA):
            partition = (file.spec_id, file.partition)
            has_rows = any(dict(one).get(VALUE) == value for one in self.rows.written(file.path))
            if has_rows and partition not in seen:
                seen.add(partition)
                path = self._put(
                    "e", equality_bytes([row({VALUE: value})]), self._beside(file.path, 1)
                )
                deletes[path] = FileKind.EQUALITY_DELETE
        return self.replace(add=[*deletes], kinds=deletes, operation="delete")

    def _places(self, ids: set[int]) -> Iterator[tuple[FileEntry, list[int]]]:
        """Where rows of these ids stand that are still there, by data file."""
        rows = self.rows
        for file in self.of_kind(FileKind.DATA):
            alive = set(rows.places_at(self.head, file))
            written = enumerate(rows.written(file.path))
            yield file, [at for at, one in written if at in alive and dict(one).get(ID) in ids]

    def _rewritten(self, file: FileEntry, places: Sequence[int]) -> str:
        """A data file without some rows; empty where nothing is left of it."""
        facts, rows = self.lake.facts[file.path], self.rows
        alive = set(rows.places_at(self.head, file)) - set(places)
        kept = [one for at, one in enumerate(rows.written(file.path)) if at in alive]
        return self._data_file(facts.spec, facts.partition, kept) if kept else ""

    def _deletes_of(self, data: FileEntry) -> list[FileEntry]:
        kinds = FileKind.DELETION_VECTOR, FileKind.POSITION_DELETE
        return [
            d for d in self.of_kind(*kinds) if {data.path} == {p for p, _ in self.rows.positions(d)}
        ]

    def compact_chunks(self, *chunks: str) -> int:
        """Rewrites the files of some chunks, or of all, with their deletes applied."""
        rows = self.rows
        data = [
            f
            for f in self.of_kind(FileKind.DATA)
            if not chunks or set(rows.chunks(DAILY, f.path)) & set(chunks)
        ]
        alive = rows.rows_at(self.head, {f.path for f in data}) if data else []
        gone = [f.path for f in data]
        gone += [d.path for f in data for d in self._deletes_of(f)]
        if not chunks:
            gone += [d.path for d in self.of_kind(FileKind.EQUALITY_DELETE)]
        return self.replace(remove=gone, add=self.write(alive), operation="replace")

    def delete_chunks(self, *chunks: str) -> int:
        """Whole files leave, as by another tool's expiry of partitions."""
        gone = [
            f.path
            for f in self.of_kind(FileKind.DATA)
            if set(self.rows.chunks(DAILY, f.path)) <= set(chunks)
        ]
        return self.replace(remove=gone, operation="delete")

    def leave_main(self) -> None:
        """`CREATE OR REPLACE TABLE`: what is appended next begins a line of its own."""
        self.edit(lambda document: document.get("refs", {}).pop("main", None))
        self.edit(lambda document: document.update({"current-snapshot-id": -1}))

    def chunks_now(self) -> dict[str, set[Row]]:
        """What a query of main finds, by chunk."""
        return by_chunk(self.rows_now())

    def cut_anew(self, unit: str) -> None:
        """Another partition spec: files that are there keep theirs."""

        def change(document: dict[str, Any]) -> None:
            number = document["last-partition-id"] + 1
            id = max(spec["spec-id"] for spec in document["partition-specs"]) + 1
            document["partition-specs"].append({"spec-id": id, "fields": _parts(unit, number)})
            document |= {"default-spec-id": id, "last-partition-id": number}

        self.edit(change)


def by_chunk(rows: Iterable[Row], layout: ChunkLayout = DAILY) -> dict[str, set[Row]]:
    """Rows by the chunk in which they lie."""
    chunks: dict[str, set[Row]] = {}
    for values in rows:
        chunks.setdefault(chunk_of(layout, values), set()).add(values)
    return chunks


def day_name(day: int) -> str:
    """The chunk of so many days after the lake's beginning."""
    return Unit.DAY.label(T0 + timedelta(days=day))


def values_of(rows: Iterable[Row], column: int = ID) -> list[Any]:
    """A column's values, in order."""
    found: list[Mapping[int, Any]] = [dict(values) for values in rows]
    return sorted(one[column] for one in found)
