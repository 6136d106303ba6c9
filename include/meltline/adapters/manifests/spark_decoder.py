"""Large manifests decoded by Spark's own Avro: no Python touches their rows.

Python on executors reads the files through the object-store port, checks their frame and inflates
their blocks; the JVM decodes them, four to six times as many entries a second as the readers on
Python's side. A row's key is hashed in SQL where its path is plain: written under a folder of its
table, without anything that makes two spellings of one place. What is not plain, broken or of an
unknown schema gives no rows: whoever counts them against the manifest list sees it, and `index`
reads that manifest once more; it knows all the odd cases and says what is wrong.
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
_HEADER = 1024 * 1024  # bytes of a manifest in which its header ends, with the table's schema
_SAMPLES = 8  # manifests of a table whose schema is looked at
_SCHEMAS = 32  # the most common ones; each is an expression of its own

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
    """A snapshot of a line, as far as reading its changes has to know it (see `SnapshotDelta`)."""

    snapshot_id: int
    number: int
    is_first: bool


@dataclass(frozen=True)
class BulkManifest:
    """A manifest worth Spark's own decoder, and the folders its files are expected in.

    Attributes:
        step: The step whose changes are wanted; None where it is read wholly.
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
    """The entries of manifests as they stand in the files: nothing is inherited.

    A manifest that cannot be read, is not as long as its list says or announces another number of
    records gives no rows, or too few; so does one with odd paths. So rows are to be counted before
    they are believed. For inheritance each row carries `table_uuid`, `added_snapshot_id` and
    `list_sequence_number` by its manifest's list, and what is to be known of its step.

    Args:
        spark: The session.
        store: Where the manifests lie.
        manifests: What to read.
        changes_only: Leaves EXISTING entries out, but for a line's first step.
        fronts: Decodes only as many blocks from the front as could hold all ADDED and DELETED
            entries: writers that merge manifests put the new entries first. Where fewer are found
            than the list counts, the manifest is to be read again whole. Those of a line's first
            step are.
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


# --- what is asked --------------------------------------------------------------------------------


def _schemas(store: ObjectReader, manifests: Sequence[BulkManifest]) -> dict[str, int]:
    """The schemas to expect, by a few manifests of each table; a job's plan must name them."""
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
    """The schema of a manifest's data; empty where it cannot be told."""
    try:
        front = store.read_prefix(path, _HEADER)
        return entries_schema(AvroFile.read(front.content).header["avro.schema"])
    except Exception:  # noise raises anything; whoever reads it whole says what is wrong
        return ""


def _slices(manifests: Sequence[BulkManifest], cores: int, fronts: bool) -> list[list[_Unit]]:
    """Manifests, and parts of very large ones, dealt out to slices of about the same weight.

    A part takes every so many blocks of its manifest, so that the parts hold each block once.
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
    """The heaviest first, each to the slice that has the least so far.

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
    """A manifest's data with what its rows need, and their length; fewer where it is not sound."""
    try:
        file, chosen = _checked(store, unit)
        schema = schemas.get(entries_schema(file.header["avro.schema"]))
        if schema is None:
            return
        carried = {field.name: unit[field.name] for field in _CARRIED} | {"schema": schema}
        for datum in datums(file.codec, chosen):
            yield {**carried, "datum": datum.content}, len(datum.content)
    except Exception:  # noise raises anything; whoever reads it next says what is wrong
        return


def _checked(store: ObjectReader, unit: _Unit) -> tuple[AvroFile, Sequence[Block]]:
    """A manifest that is what its list says by its frame, and the blocks to decode."""
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
    """Blocks from the front that hold so many records."""
    for block in blocks:
        if records <= 0:
            return
        yield block
        records -= block.records


# --- in the JVM -----------------------------------------------------------------------------------


def _decoded(schemas: Mapping[str, int]) -> Column:
    """A datum's entries; null where its bytes are none."""
    options = {"mode": "PERMISSIVE", "avroSchema": ENTRIES_READ}
    cases = [(number, from_avro("datum", schema, options)) for schema, number in schemas.items()]
    if not cases:
        cases = [(-1, from_avro("datum", ENTRIES_READ, options))]  # for the columns; no row comes
    (first, decoded), *more = cases
    chosen = F.when(F.col("schema") == first, decoded)
    return reduce(lambda chain, case: chain.when(F.col("schema") == case[0], case[1]), more, chosen)


# SQL as text: each part of an expression that is built from here is a call into the JVM, and these
# would be a thousand of them, which take longer than to decode ten thousand entries.


def _is_under(home: str) -> str:
    """Whether a path is in a folder of its table."""
    return f"(startswith({_PATH}, {home}) AND locate('//', {_PATH}, length({home})) = 0)"


def _hash_under(home: str) -> str:
    # The key of a path in a folder is the folder's key and the rest, as long as nothing in the rest
    # may be spelled otherwise: `_IS_PLAIN` sees to that. So SQL need not know how keys are made,
    # and still comes to the number of `key_hash` (decision 028).
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
"""Whether no letter of a path may be spelled otherwise, and it is in a folder of its table.

Java takes bytes that are no text for text, and any number for a status; the other reader refuses
the file.
"""
_KEY_HASH = (
    f"CASE WHEN {_is_under('home')} THEN {_hash_under('home')} ELSE {_hash_under('other_home')} END"
)
"""What `key_hash` gives for a plain path."""
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
