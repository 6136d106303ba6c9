"""Proofs from the files alone, on executors: the gate's own reading, apart from the index."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.evidence_reader import ListedManifest, listed_manifests, live_files
from meltline.domain.errors import MeltlineError
from meltline.domain.locations import location_key
from meltline.ports import ObjectStore, ProofResult, ProofSnapshot, SnapshotKey

_LISTED = (
    "table_uuid string, snapshot_id bigint, path string, bytes bigint, rows bigint, "
    "list_bytes bigint, error string"
)
_LIVE = "path string, key_hash bigint, bytes bigint, hit string, error string"
_ROWS_PER_BATCH = 20_000
Batches = Iterable[pa.RecordBatch]


class SparkProofReader:
    """The port `ProofReader` on Spark."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self._spark = spark
        self._store = store

    def prove(self, snapshots: Sequence[ProofSnapshot], wanted: Sequence[str]) -> ProofResult:
        """Reads everything the snapshots refer to and looks for the wanted paths in it."""
        if not snapshots:
            return ProofResult({}, {}, {}, {}, {}, {})
        listed = self._lists(snapshots)
        errors: dict[str, list[str]] = {}
        manifests: dict[SnapshotKey, list[str]] = {}
        asked: dict[str, dict[str, Any]] = {}
        uuids: dict[str, set[str]] = {}
        lists: dict[SnapshotKey, int] = {}
        for row in listed:
            if row["error"]:
                errors.setdefault(row["table_uuid"], []).append(row["error"])
                continue
            key = SnapshotKey(row["table_uuid"], row["snapshot_id"])
            lists[key] = row["list_bytes"]
            if row["path"] is None:
                manifests.setdefault(key, [])
                continue
            manifests.setdefault(key, []).append(row["path"])
            asked.setdefault(row["path"], row)
            uuids.setdefault(row["path"], set()).add(row["table_uuid"])
        live = self._manifests(list(asked.values()), wanted).persist()
        try:
            counts = self._counts(live)
            hits = self._hits(live, {location_key(path): path for path in wanted})
            for path, (_, _, error) in counts.items():
                for uuid in uuids[path] if error else ():
                    errors.setdefault(uuid, []).append(error)
            referenced = Counter(self._referenced(live, uuids))
        finally:
            live.unpersist()
        for path, tables in uuids.items():
            referenced.update({uuid: asked[path]["bytes"] for uuid in tables})
        for key, size in lists.items():
            referenced.update({key.table_uuid: size})
        return ProofResult(
            manifests={key: tuple(paths) for key, paths in manifests.items()},
            live_files={path: count for path, (count, _, _) in counts.items()},
            live_bytes={path: size for path, (_, size, _) in counts.items()},
            hits=hits,
            errors={uuid: tuple(found) for uuid, found in errors.items()},
            referenced_bytes=referenced,
        )

    def _lists(self, snapshots: Sequence[ProofSnapshot]) -> list[dict[str, Any]]:
        rows = [
            {
                "table_uuid": snapshot.table_uuid,
                "snapshot_id": snapshot.snapshot_id,
                "manifest_list": snapshot.manifest_list,
                "inline": list(snapshot.inline_manifests),
            }
            for snapshot in snapshots
        ]
        schema = pa.schema(
            [
                ("table_uuid", pa.string()),
                ("snapshot_id", pa.int64()),
                ("manifest_list", pa.string()),
                ("inline", pa.list_(pa.string())),
            ]
        )
        frame = self._spread(pa.Table.from_pylist(rows, schema=schema))
        found: list[dict[str, Any]] = (
            frame.mapInArrow(_list_reader(self._store), _LISTED).toArrow().to_pylist()
        )
        return found

    def _manifests(self, asked: Sequence[dict[str, Any]], wanted: Sequence[str]) -> DataFrame:
        schema = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64())])
        rows = [{key: row[key] for key in schema.names} for row in asked]
        frame = self._spread(pa.Table.from_pylist(rows, schema=schema))
        hashes = self._spark.sparkContext.broadcast(frozenset(map(key_hash, wanted)))
        return frame.mapInArrow(_manifest_reader(self._store, hashes), _LIVE)

    def _spread(self, rows: pa.Table) -> DataFrame:
        slices = self._spark.sparkContext.defaultParallelism * 2
        return self._spark.createDataFrame(rows).repartition(max(1, min(slices, rows.num_rows)))

    @staticmethod
    def _counts(live: DataFrame) -> dict[str, tuple[int, int, str]]:
        rows = (
            live.groupBy("path")
            .agg(
                F.count("key_hash").alias("files"),
                F.coalesce(F.sum("bytes"), F.lit(0)).alias("size"),
                F.coalesce(F.max("error"), F.lit("")).alias("error"),
            )
            .collect()
        )
        return {row["path"]: (row["files"], row["size"], row["error"]) for row in rows}

    @staticmethod
    def _hits(live: DataFrame, wanted: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """Hash hits, kept only where the location itself is wanted."""
        hits: dict[str, list[str]] = {}
        for row in live.where(F.col("hit").isNotNull()).select("path", "hit").collect():
            if path := wanted.get(location_key(row["hit"])):
                hits.setdefault(row["path"], []).append(path)
        return {manifest: tuple(found) for manifest, found in hits.items()}

    def _referenced(self, live: DataFrame, uuids: dict[str, set[str]]) -> dict[str, int]:
        of_table = pa.table(
            {
                "path": [path for path, tables in uuids.items() for _ in tables],
                "table_uuid": [uuid for tables in uuids.values() for uuid in tables],
            },
            schema=pa.schema([("path", pa.string()), ("table_uuid", pa.string())]),
        )
        rows = (
            live.where(F.col("key_hash").isNotNull())
            .join(F.broadcast(self._spark.createDataFrame(of_table)), "path")
            .groupBy("table_uuid", "key_hash")
            .agg(F.max("bytes").alias("size"))
            .groupBy("table_uuid")
            .agg(F.sum("size").alias("size"))
            .collect()
        )
        return {row["table_uuid"]: row["size"] for row in rows}


def _list_reader(store: ObjectStore) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    schema = pa.schema(
        [
            ("table_uuid", pa.string()),
            ("snapshot_id", pa.int64()),
            ("path", pa.string()),
            ("bytes", pa.int64()),
            ("rows", pa.int64()),
            ("list_bytes", pa.int64()),
            ("error", pa.string()),
        ]
    )

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [found for row in batch.to_pylist() for found in _read_list(store, row)]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return read


def _read_list(store: ObjectStore, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    of = {"table_uuid": row["table_uuid"], "snapshot_id": row["snapshot_id"]}
    if not row["manifest_list"]:
        for path in row["inline"]:
            size = store.size(path) or 0
            yield {**of, "path": path, "bytes": size, "list_bytes": 0, "error": ""}
        return
    try:
        content = store.read(row["manifest_list"])
        # A row of its own: an empty table's list names no manifest.
        yield {**of, "list_bytes": len(content), "error": ""}
        for manifest in listed_manifests(row["manifest_list"], content):
            found = {"path": manifest.path, "bytes": manifest.bytes, "rows": manifest.rows}
            yield {**of, **found, "list_bytes": len(content), "error": ""}
    except FileNotFoundError:
        yield {**of, "error": f"{row['manifest_list']} is missing"}
    except MeltlineError as odd:
        yield {**of, "error": f"{odd.message}: {odd.found}"}


def _manifest_reader(
    store: ObjectStore, wanted: Any
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    schema = pa.schema(
        [
            ("path", pa.string()),
            ("key_hash", pa.int64()),
            ("bytes", pa.int64()),
            ("hit", pa.string()),
            ("error", pa.string()),
        ]
    )

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                rows = _read_manifest(store, row, wanted.value)
                for start in range(0, len(rows), _ROWS_PER_BATCH):
                    part = rows[start : start + _ROWS_PER_BATCH]
                    yield pa.RecordBatch.from_pylist(part, schema=schema)

    return read


def _read_manifest(
    store: ObjectStore, row: dict[str, Any], wanted: frozenset[int]
) -> list[dict[str, Any]]:
    manifest = ListedManifest(row["path"], row["bytes"], row["rows"])
    try:
        live = live_files(manifest, store.read(manifest.path))
    except FileNotFoundError:
        return [{"path": manifest.path, "error": f"{manifest.path} is missing"}]
    except MeltlineError as odd:
        return [{"path": manifest.path, "error": f"{odd.message}: {odd.found}"}]
    # A row of its own says that the manifest was read, even when nothing in it is alive.
    rows: list[dict[str, Any]] = [{"path": manifest.path, "error": ""}]
    for file in live:
        hashed = key_hash(file.path)
        hit = file.path if hashed in wanted else None
        found = {"key_hash": hashed, "bytes": file.bytes, "hit": hit}
        rows.append({"path": manifest.path, **found, "error": ""})
    return rows
