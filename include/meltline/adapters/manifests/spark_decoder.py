"""Decodes large manifests with Spark's own Avro, so that Python never handles their rows.

Ingest uses it for large manifests. Python on executors reads the files through the object-store
port, checks the container and inflates the blocks. The JVM decodes them, four to six times as fast
as the readers in Python. A row's key is hashed in SQL if its path is plain: in a folder of its
table, without anything that allows a second spelling. A manifest that is not plain, is damaged, or
has an unknown schema yields no rows. The caller notices that when it counts rows against the
manifest list, and the index's reader reads the manifest again; that one handles all special cases
and reports errors.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import from_arrow_schema

from meltline.adapters.manifests.avro_blocks import (
    ENTRIES_READ,
    datums,
    entries_schema,
)
from meltline.adapters.manifests.avro_container import AvroFile, Block
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.prefix_reads import front_length
from meltline.adapters.spark.distribution import spread
from meltline.concurrency import thread_map
from meltline.domain.iceberg.files import EntryStatus, FileKind, ManifestFile
from meltline.domain.iceberg.locations import location_key
from meltline.ports import ObjectReader

_SMALLEST_SLICE = 1024 * 1024  # bytes of manifests
_BATCH = 4 * 1024 * 1024  # bytes of data handed to the JVM at once
_HEADER = 1024 * 1024  # bytes that contain a manifest's header, with the table's schema
_SAMPLES = 8  # manifests per table whose schemas are read
_SCHEMAS = 32  # the most common ones; each needs its own expression

_UNIT = pa.struct(
    [
        ("table_uuid", pa.string()),
        ("manifest_id", pa.int64()),
        ("added_snapshot_id", pa.int64()),
        ("list_sequence_number", pa.int64()),
        ("home", pa.string()),
        ("home_key", pa.string()),
        ("other_home", pa.string()),
        ("other_home_key", pa.string()),
        ("step_id", pa.int64()),
        ("step_number", pa.int64()),
        ("step_is_first", pa.bool_()),
        ("manifest", pa.string()),
        ("manifest_bytes", pa.int64()),
        ("records", pa.int64()),
        ("wanted", pa.int64()),
        ("front", pa.int64()),
        ("part", pa.int32()),
        ("parts", pa.int32()),
    ]
)
_CARRIED = [_UNIT.field(number) for number in range(11)]
_DATUM = pa.schema(
    [
        *_CARRIED,
        ("schema", pa.int32()),
        ("datum", pa.binary()),
    ]
)

_Unit = dict[str, Any]


@dataclass(frozen=True)
class DecodeStep:
    """A snapshot of a linear history, as decoding its changes needs it (see `SnapshotDelta`)."""

    snapshot_id: int
    number: int
    is_first: bool


@dataclass(frozen=True)
class BulkManifest:
    """A manifest worth Spark's decoder, and the folders in which its files are expected.

    Attributes:
        step: The step whose changes are wanted; None for a full read.
    """

    table_uuid: str
    manifest: ManifestFile
    homes: tuple[str, ...]
    step: DecodeStep | None = None

    @property
    def id(self) -> int:
        """The manifest's id in the ledger."""
        return key_hash(self.manifest.path)


def bulk_entries(
    spark: SparkSession,
    store: ObjectReader,
    manifests: Sequence[BulkManifest],
    *,
    changes_only: bool = False,
    fronts: bool = False,
) -> DataFrame:
    """Returns the entries of manifests as stored: nothing is inherited.

    A manifest that cannot be read, or whose length or number of records is not the listed one,
    yields no rows, or too few; so does one with unusual paths. So callers must count the rows
    before they trust them. For inheritance each row has `table_uuid`, and `added_snapshot_id` and
    `list_sequence_number` from its manifest's list entry, and the facts of its step.

    Args:
        spark: The session.
        store: The store with the manifests.
        manifests: The manifests to read.
        changes_only: Leaves EXISTING entries out, except in the first step of a linear history.
        fronts: Decodes only as many blocks from the start as could have all ADDED and DELETED
            entries, because writers that merge manifests put new entries first. If fewer are found
            than the list counts, the caller must read the whole manifest. A manifest of a linear
            history's first step is always read whole.
    """
    schemas = _schemas(store, manifests)
    slices = _slices(manifests, spark.sparkContext.defaultParallelism, fronts)
    table = pa.table({"units": slices}, schema=pa.schema([("units", pa.list_(_UNIT))]))
    parts = spread(spark, table, [1] * len(slices))
    decoded = parts.mapInArrow(_reader(store, schemas), from_arrow_schema(_DATUM))
    carried = [name for name in _DATUM.names if name not in ("schema", "datum")]
    entries = decoded.select(*carried, F.inline(_decoded(schemas)))
    if changes_only:
        entries = entries.where(f"step_is_first OR status != {int(EntryStatus.EXISTING)}")
    return entries.where(f"{_IS_PLAIN} AND {_KIND} IS NOT NULL").selectExpr(*_ENTRY)


# --- preparation ----------------------------------------------------------------------------------


def _schemas(store: ObjectReader, manifests: Sequence[BulkManifest]) -> dict[str, int]:
    """Returns the expected schemas, from a few manifests per table; a job's plan needs them."""
    by_table: dict[str, list[str]] = {}
    for bulk in manifests:
        by_table.setdefault(bulk.table_uuid, []).append(bulk.manifest.path)
    paths = [
        path for all_of in by_table.values() for path in all_of[:: -(-len(all_of) // _SAMPLES)]
    ]
    schemas = Counter(thread_map(lambda path: _schema_of(store, path), paths))
    del schemas[""]
    return {schema: number for number, (schema, _) in enumerate(schemas.most_common(_SCHEMAS))}


def _schema_of(store: ObjectReader, path: str) -> str:
    """Returns the schema of a manifest's data; empty if it is unreadable."""
    try:
        front = store.read_prefix(path, _HEADER)
        return entries_schema(AvroFile.read(front.content).header["avro.schema"])
    except Exception:  # damage raises anything; the full read reports it
        return ""


def _slices(manifests: Sequence[BulkManifest], cores: int, fronts: bool) -> list[list[_Unit]]:
    """Distributes manifests, and parts of very large ones, over slices of similar weight.

    A part takes every n-th block of its manifest, so that together the parts have each block once.
    """
    fronted = {bulk: fronts and not (bulk.step and bulk.step.is_first) for bulk in manifests}
    weights = {bulk: _weight(bulk, front=fronted[bulk]) for bulk in manifests}
    total = sum(weights.values())
    count = max(1, min(cores, total // _SMALLEST_SLICE))
    units = [
        (weight // parts, _unit(bulk, part, parts, front=fronted[bulk]))
        for bulk, weight in weights.items()
        for parts in [1 if fronted[bulk] else max(1, round(weight * count / max(total, 1)))]
        for part in range(parts)
    ]
    return _dealt_out(units, count)


def _dealt_out(units: Sequence[tuple[int, _Unit]], count: int) -> list[list[_Unit]]:
    """Distributes units, heaviest first, each to the slice with the least weight so far.

    So no slice is heavier than the lightest by more than one unit.
    """
    slices: list[list[_Unit]] = [[] for _ in range(count)]
    lightest = [(0, number) for number in range(count)]
    for weight, unit in sorted(units, key=itemgetter(0), reverse=True):
        filled, number = lightest[0]
        slices[number].append(unit)
        heapq.heapreplace(lightest, (filled + weight, number))
    return [units for units in slices if units]


def _weight(bulk: BulkManifest, *, front: bool) -> int:
    added, _, deleted = bulk.manifest.counts
    share = (added + deleted) / max(1, bulk.manifest.entries) if front else 1
    return 1 + int(bulk.manifest.bytes * share)


def _unit(bulk: BulkManifest, part: int, parts: int, *, front: bool) -> _Unit:
    added, _, deleted = bulk.manifest.counts
    homes = (*bulk.homes, None, None)
    return {
        "table_uuid": bulk.table_uuid,
        "manifest_id": bulk.id,
        "added_snapshot_id": bulk.manifest.added_snapshot_id,
        "list_sequence_number": bulk.manifest.sequence_number,
        "home": homes[0],
        "home_key": _folder_key(homes[0]),
        "other_home": homes[1],
        "other_home_key": _folder_key(homes[1]),
        "step_id": bulk.step and bulk.step.snapshot_id,
        "step_number": bulk.step and bulk.step.number,
        "step_is_first": bulk.step and bulk.step.is_first,
        "manifest": bulk.manifest.path,
        "manifest_bytes": bulk.manifest.bytes,
        "records": bulk.manifest.entries,
        "wanted": added + deleted if front else bulk.manifest.entries,
        "front": front_length(bulk.manifest) if front else None,
        "part": part,
        "parts": parts,
    }


def _folder_key(home: str | None) -> str | None:
    return None if home is None else location_key(home).rstrip("/") + "/"


# --- on executors ---------------------------------------------------------------------------------


def _reader(
    store: ObjectReader, schemas: Mapping[str, int]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[_Unit] = []
        length = 0
        for batch in batches:
            for unit in (unit for units in batch["units"].to_pylist() for unit in units):
                for row, size in _rows(store, schemas, unit):
                    rows.append(row)
                    length += size
                    if length >= _BATCH:  # each batch costs as much as a manifest
                        yield pa.RecordBatch.from_pylist(rows, schema=_DATUM)
                        rows, length = [], 0
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=_DATUM)

    return read


def _rows(
    store: ObjectReader, schemas: Mapping[str, int], unit: _Unit
) -> Iterator[tuple[_Unit, int]]:
    """Yields a manifest's data with the values that its rows need, and lengths; less if damaged."""
    try:
        file, chosen = _checked(store, unit)
        schema = schemas.get(entries_schema(file.header["avro.schema"]))
        if schema is None:
            return
        carried = {field.name: unit[field.name] for field in _CARRIED} | {"schema": schema}
        for datum in datums(file.codec, chosen):
            yield {**carried, "datum": datum.content}, len(datum.content)
    except Exception:  # damage raises anything; the next reader reports it
        return


def _checked(store: ObjectReader, unit: _Unit) -> tuple[AvroFile, Sequence[Block]]:
    """Checks a manifest's container against its list; returns it with the blocks to decode."""
    if unit["front"]:
        front = store.read_prefix(unit["manifest"], unit["front"])
        if front.bytes != unit["manifest_bytes"]:
            raise ValueError("it is not as long as its list says")
        file = AvroFile.read(front.content)
        return file, list(_first(file.blocks(), unit["wanted"]))
    content = store.read(unit["manifest"])
    file = AvroFile.read(content)
    blocks = list(file.blocks())
    records = sum(block.records for block in blocks)
    if (len(content), records) != (unit["manifest_bytes"], unit["records"]):
        raise ValueError("it is not what its list says")
    return file, list(_first(blocks, unit["wanted"]))[unit["part"] :: unit["parts"]]


def _first(blocks: Iterable[Block], records: int) -> Iterator[Block]:
    """Yields blocks from the start until they have enough records."""
    for block in blocks:
        if records <= 0:
            return
        yield block
        records -= block.records


# --- in the JVM -----------------------------------------------------------------------------------


def _decoded(schemas: Mapping[str, int]) -> Column:
    """Returns a datum's entries; null if its bytes are invalid."""
    options = {"mode": "PERMISSIVE", "avroSchema": ENTRIES_READ}
    cases = [(number, from_avro("datum", schema, options)) for schema, number in schemas.items()]
    if not cases:
        cases = [(-1, from_avro("datum", ENTRIES_READ, options))]  # for the columns; without rows
    (first, decoded), *more = cases
    chosen = F.when(F.col("schema") == first, decoded)
    return reduce(lambda chain, case: chain.when(F.col("schema") == case[0], case[1]), more, chosen)


# SQL as text: each part of an expression built in Python is a call into the JVM. These would be a
# thousand calls, which take longer than decoding ten thousand entries.


def _is_under(home: str) -> str:
    """Returns SQL for whether a path is in a folder of its table."""
    return f"(startswith({_PATH}, {home}) AND locate('//', {_PATH}, length({home})) = 0)"


def _hash_under(home: str) -> str:
    # The key of a path in a folder is the folder's key and the rest, as long as the rest has only
    # one spelling, which `_IS_PLAIN` ensures. So SQL need not know how keys are built, and still
    # computes the number of `key_hash` (decision 028).
    key = f"concat({home}_key, substr({_PATH}, length({home}) + 1))"
    return f"xxhash64(if({home} = {home}_key, {_PATH}, {key}))"


_PATH = "data_file.file_path"
_IS_PLAIN = (
    f"NOT (contains({_PATH}, '%') OR contains({_PATH}, '/.'))"
    f" AND NOT endswith({_PATH}, '/') AND is_valid_utf8({_PATH})"
    " AND is_valid_utf8(data_file.file_format)"
    f" AND status IN ({', '.join(str(int(status)) for status in EntryStatus)})"
    f" AND ({_is_under('home')} OR {_is_under('other_home')})"
)
"""SQL for whether a path has only one spelling, and is in a folder of its table.

Java accepts bytes that are no text as text, and any number as a status; the other reader refuses
the file.
"""
_KEY_HASH = (
    f"CASE WHEN {_is_under('home')} THEN {_hash_under('home')} ELSE {_hash_under('other_home')} END"
)
"""SQL for the value of `key_hash` of a plain path."""
_KIND = (
    f"CASE data_file.content WHEN 0 THEN '{FileKind.DATA}'"
    f" WHEN 1 THEN if(upper(data_file.file_format) = 'PUFFIN',"
    f" '{FileKind.DELETION_VECTOR}', '{FileKind.POSITION_DELETE}')"
    f" WHEN 2 THEN '{FileKind.EQUALITY_DELETE}' END"
)
_ENTRY = (
    "table_uuid",
    "manifest_id",
    f"{_PATH} AS path",
    f"{_KEY_HASH} AS key_hash",
    f"{_KIND} AS kind",
    "data_file.file_size_in_bytes AS bytes",
    "status",
    "snapshot_id",
    "sequence_number",
    "file_sequence_number",
    "added_snapshot_id",
    "list_sequence_number",
    "step_id",
    "step_number",
    "step_is_first",
)
