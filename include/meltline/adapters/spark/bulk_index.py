"""Large manifests read by Spark's own Avro source: no Python touches their rows.

It decodes five to six times as many entries a second as the readers on Python's side, and opening
a file costs it five times as much; `index` chooses. A row is taken only when its path is plain:
written under a folder of its table, without anything that makes two spellings of one place. Then
its key is the folder's key with the rest behind it, and SQL can hash it. Everything else, and every
manifest whose rows do not add up, is read once more by `index`, which knows all the odd cases and
says what is wrong.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.domain.files import FileKind, ManifestRef
from meltline.domain.locations import location_key
from meltline.ports import IngestRequest

_OPEN_COST = 32 * 1024  # bytes of a manifest that are decoded while another is opened
_PARTS = 4  # for each core, so that one with many entries holds up no other
_SMALLEST_PART = 1024 * 1024
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:")

_ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {"name": "snapshot_id", "type": ["null", "long"], "default": None},
        {"name": "sequence_number", "type": ["null", "long"], "default": None},
        {
            "name": "data_file",
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "content", "type": "int", "default": 0},
                    {"name": "file_path", "type": "string"},
                    {"name": "file_format", "type": "string"},
                    {"name": "file_size_in_bytes", "type": "long"},
                ],
            },
        },
    ],
}


@dataclass(frozen=True)
class BulkManifest:
    """A manifest worth Spark's own reader, and the folders its files are expected in."""

    table_uuid: str
    manifest: ManifestRef
    homes: tuple[str, ...]

    @property
    def id(self) -> int:
        """The manifest's id in the ledger."""
        return key_hash(self.manifest.path)

    @property
    def counts(self) -> tuple[int | None, int | None, int | None]:
        """Its entries by status, as its manifest list counts them."""
        m = self.manifest
        return m.added_files, m.existing_files, m.deleted_files


def worth_bulk(requests: Sequence[IngestRequest], entries: int) -> list[BulkManifest]:
    """The manifests that Spark's own reader takes: local, plain, counted by their list, large.

    Large are those of at least so many entries: below, opening costs more than decoding saves.
    """
    return [
        BulkManifest(request.table_uuid, manifest, request.homes[:2])
        for request in requests
        if request.homes and all(home.endswith("/") for home in request.homes[:2])
        for manifest in request.manifests
        if _is_large(manifest, entries) and _local_uri(manifest.path)
    ]


def _is_large(manifest: ManifestRef, entries: int) -> bool:
    counts = (manifest.added_files, manifest.existing_files, manifest.deleted_files)
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) and sum(known) >= entries


def _local_uri(path: str) -> str:
    """A local file as Spark names it (`file:/…`, one slash); empty where it may be spelled else."""
    key = location_key(path)
    plain = key.startswith("file:///") and _PLAIN.issuperset(path) and "//" not in path[7:]
    return _one_slash(key) if plain and "/." not in path else ""


def _one_slash(uri: str) -> str:
    return "file:/" + uri.removeprefix("file:").lstrip("/")


def bulk_entries(spark: SparkSession, manifests: Sequence[BulkManifest]) -> DataFrame:
    """The entries of manifests as rows of the ledger; `key_hash` is null where a path is odd.

    Odd are paths outside the table's folders, and those whose key is not just their spelling.
    """
    source = (
        spark.read.format("avro")
        .option("avroSchema", json.dumps(_ENTRY))
        .option("__globPaths__", "false")
        .option("ignoreCorruptFiles", "false")
        .option("ignoreMissingFiles", "false")
        .load([_local_uri(one.manifest.path) for one in manifests])
        .select("status", "snapshot_id", "sequence_number", "data_file", _file_read())
    )
    facts = F.broadcast(spark.createDataFrame(_facts(manifests)))
    path = F.col("data_file.file_path")
    return source.join(facts, "file_path").select(
        "table_uuid",
        "manifest_id",
        path.alias("path"),
        F.when(
            _is_plain(path), F.coalesce(_hashed(path, "home"), _hashed(path, "other_home"))
        ).alias("key_hash"),
        _kind().alias("kind"),
        F.col("data_file.file_size_in_bytes").alias("bytes"),
        "status",
        F.coalesce("snapshot_id", "added_snapshot_id").alias("snapshot_id"),
        F.coalesce("sequence_number", "list_sequence_number").alias("sequence_number"),
    )


def _file_read() -> Column:
    """The manifest a row is from. Whether Spark writes `file:/` or `file:///` is its release's."""
    return F.regexp_replace("_metadata.file_path", "^file:/+", "file:/").alias("file_path")


def _facts(manifests: Sequence[BulkManifest]) -> pa.Table:
    rows = []
    for one in manifests:
        homes = (*one.homes, None, None)
        rows.append(
            {
                "file_path": _local_uri(one.manifest.path),
                "table_uuid": one.table_uuid,
                "manifest_id": one.id,
                "added_snapshot_id": one.manifest.added_snapshot_id,
                "list_sequence_number": one.manifest.sequence_number,
                "home": homes[0],
                "home_key": _folder_key(homes[0]),
                "other_home": homes[1],
                "other_home_key": _folder_key(homes[1]),
            }
        )
    texts = ("file_path", "table_uuid", "home", "home_key", "other_home", "other_home_key")
    numbers = ("manifest_id", "added_snapshot_id", "list_sequence_number")
    fields = [*((name, pa.string()) for name in texts), *((name, pa.int64()) for name in numbers)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _folder_key(home: str | None) -> str | None:
    return None if home is None else location_key(home).rstrip("/") + "/"


def _hashed(path: Column, home: str) -> Column:
    """The hash of a path under a home: what `key_hash` gives, in SQL."""
    rest = F.substr(path, F.length(home) + 1)
    key = F.when(F.col(home) == F.col(f"{home}_key"), path).otherwise(
        F.concat(F.col(f"{home}_key"), rest)
    )
    single = F.expr(f"locate('//', data_file.file_path, length({home})) = 0")
    return F.when(F.startswith(path, F.col(home)) & single, F.xxhash64(key))


def _is_plain(path: Column) -> Column:
    """Whether no letter of a path may be spelled otherwise; looked at once, as it costs."""
    odd = F.contains(path, F.lit("%")) | F.contains(path, F.lit("/."))
    return ~odd & ~F.endswith(path, F.lit("/"))


def _kind() -> Column:
    content, puffin = F.col("data_file.content"), F.upper("data_file.file_format") == "PUFFIN"
    vector, position = F.lit(str(FileKind.DELETION_VECTOR)), F.lit(str(FileKind.POSITION_DELETE))
    return (
        F.when(content == 0, F.lit(str(FileKind.DATA)))
        .when(content == 1, F.when(puffin, vector).otherwise(position))
        .when(content == 2, F.lit(str(FileKind.EQUALITY_DELETE)))
    )


@contextmanager
def packed(spark: SparkSession, manifests: Sequence[BulkManifest]) -> Iterator[None]:
    """Many manifests in one task: by default each small file is a task, and listing them a job."""
    total = sum(one.manifest.bytes + _OPEN_COST for one in manifests)
    part = max(_SMALLEST_PART, total // (_PARTS * spark.sparkContext.defaultParallelism))
    wanted = {
        "spark.sql.files.openCostInBytes": str(_OPEN_COST),
        "spark.sql.files.maxPartitionBytes": str(part),
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
