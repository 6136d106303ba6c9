"""The gate's own reading of manifest lists and manifests, on executors, apart from the index.

What the gate has read once it need not read again: the files never change. It keeps, in the
ledger's table `proofs`, what each list named and what each manifest held alive: how many files, how
many bytes, and a fingerprint of their paths. Entries of the index are believed only for manifests
whose rows give exactly that; every other manifest is read from its file (design section 4 step 4).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.evidence_reader import (
    ListedManifest,
    listed_manifests,
    live_files,
)
from meltline.adapters.spark.proof_book import KnownProof, ProofBook
from meltline.adapters.spark.proof_rows import MANIFEST, ManifestProof, prove_manifest
from meltline.domain.errors import MeltlineError
from meltline.domain.locations import location_key
from meltline.ports import ObjectStore, ProofResult, ProofSnapshot, SnapshotKey

_FEW = 400  # files: below, a Spark job takes longer to start than reading them here
_FEW_ENTRIES = 40_000
_THREADS = 16  # stores answer late, and many at a time
_LISTED = pa.schema(
    [
        ("number", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("list_bytes", pa.int64()),
        ("error", pa.string()),
    ]
)
_ASKED = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64())])
Batches = Iterable[pa.RecordBatch]


@dataclass
class _Found:
    """What has been found out so far."""

    manifests: dict[SnapshotKey, list[str]] = field(default_factory=dict)
    listed: dict[str, ListedManifest] = field(default_factory=dict)
    tables: dict[str, set[str]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def name(self, snapshot: ProofSnapshot, manifests: Iterable[ListedManifest]) -> None:
        named = self.manifests.setdefault(snapshot.key, [])
        for manifest in manifests:
            named.append(manifest.path)
            self.listed.setdefault(manifest.path, manifest)
            self.tables.setdefault(manifest.path, set()).add(snapshot.table_uuid)

    def fail(self, uuid: str, error: str) -> None:
        self.errors.setdefault(uuid, []).append(error)


class SparkProofReader:
    """The port `ProofReader` on Spark."""

    def __init__(self, spark: SparkSession, store: ObjectStore, book: ProofBook) -> None:
        self._spark = spark
        self._store = store
        self._book = book

    def prove(
        self,
        snapshots: Sequence[ProofSnapshot],
        wanted: Sequence[str],
        since: datetime | None = None,
    ) -> ProofResult:
        """Looks for the wanted paths in everything the snapshots refer to. See the port."""
        known = self._book.open(since) if since is not None and snapshots else KnownProof()
        found = _Found()
        unread = [one for one in snapshots if not self._recall(one, known, found)]
        self._read_lists(unread, found)
        covered = self._covered(found, known)
        fresh = [m for path, m in found.listed.items() if path not in covered]
        proofs = {proof.path: proof for proof in self._read_manifests(fresh, wanted)}
        for path, proof in proofs.items():
            for uuid in found.tables[path] if proof.error else ():
                found.fail(uuid, proof.error)
        hits = self._book.hits(covered.values(), wanted) if covered else {}
        hits |= {path: proof.hits for path, proof in proofs.items() if proof.hits}
        self._book.write(proofs.values(), self._proved_lists(unread, found, proofs))
        live = {**covered, **proofs}
        return ProofResult(
            manifests={key: tuple(paths) for key, paths in found.manifests.items()},
            live_files={path: proof.live_files for path, proof in live.items()},
            live_bytes={path: proof.live_bytes for path, proof in live.items()},
            sizes=found.sizes | {path: m.bytes for path, m in found.listed.items()},
            hits=_confirmed(hits, wanted),
            errors={uuid: tuple(odd) for uuid, odd in found.errors.items()},
            read=len(proofs),
        )

    def distinct_bytes(self, snapshots: Sequence[ProofSnapshot]) -> Mapping[str, int]:
        """Bytes of the distinct live files of each table's snapshots, read from the files."""
        found = _Found()
        self._read_lists(snapshots, found)
        of_table = pa.Table.from_pylist(
            [
                {"manifest": path, "table_uuid": uuid}
                for path, uuids in found.tables.items()
                for uuid in uuids
            ],
            schema=pa.schema([("manifest", pa.string()), ("table_uuid", pa.string())]),
        )
        rows = self._asked(list(found.listed.values())).mapInArrow(
            _sizes(self._store), "manifest string, key_hash bigint, bytes bigint"
        )
        totals = (
            rows.join(F.broadcast(self._spark.createDataFrame(of_table)), "manifest")
            .groupBy("table_uuid", "key_hash")
            .agg(F.max("bytes").alias("bytes"))
            .groupBy("table_uuid")
            .agg(F.sum("bytes").alias("bytes"))
            .collect()
        )
        sums = {row["table_uuid"]: int(row["bytes"]) for row in totals}
        return {one.table_uuid: sums.get(one.table_uuid, 0) for one in snapshots}

    @staticmethod
    def _recall(snapshot: ProofSnapshot, known: KnownProof, found: _Found) -> bool:
        """Takes over what an earlier proof read from this snapshot's list, if one did."""
        listed = known.list_of(snapshot.manifest_list) if snapshot.manifest_list else None
        if listed is None:
            return False
        found.name(snapshot, listed.manifests)
        found.sizes[snapshot.manifest_list] = listed.bytes
        return True

    def _read_lists(self, snapshots: Sequence[ProofSnapshot], found: _Found) -> None:
        for snapshot, rows in zip(snapshots, self._lists(snapshots), strict=True):
            error = next((row["error"] for row in rows if row["error"]), "")
            if error:
                found.fail(snapshot.table_uuid, error)
                continue
            found.sizes[snapshot.manifest_list] = rows[0]["list_bytes"]
            named = [row for row in rows if row["path"] is not None]
            found.name(snapshot, [ListedManifest(r["path"], r["bytes"], r["rows"]) for r in named])

    def _lists(self, snapshots: Sequence[ProofSnapshot]) -> list[list[dict[str, Any]]]:
        rows = [
            {
                "number": number,
                "manifest_list": snapshot.manifest_list,
                "inline": list(snapshot.inline_manifests),
            }
            for number, snapshot in enumerate(snapshots)
        ]
        if len(rows) <= _FEW:
            with ThreadPoolExecutor(_THREADS) as pool:
                return list(pool.map(lambda row: list(_read_list(self._store, row)), rows))
        schema = pa.schema(
            [
                ("number", pa.int64()),
                ("manifest_list", pa.string()),
                ("inline", pa.list_(pa.string())),
            ]
        )
        frame = self._spread(pa.Table.from_pylist(rows, schema=schema))
        answer: list[list[dict[str, Any]]] = [[] for _ in rows]
        for row in frame.mapInArrow(_list_reader(self._store), _ddl(_LISTED)).toArrow().to_pylist():
            answer[row["number"]].append(row)
        return answer

    def _covered(self, found: _Found, known: KnownProof) -> dict[str, ManifestProof]:
        """Manifests that were proved before and whose rows in the index say the same."""
        before = {
            path: proof
            for path, manifest in found.listed.items()
            if (proof := known.manifests.get(key_hash(path))) and proof.bytes == manifest.bytes
        }
        rows = self._book.index_rows(before.values()) if before else {}
        return {
            path: proof
            for path, proof in before.items()
            if rows.get(key_hash(path), (0, 0, 0))
            == (proof.live_files, proof.live_bytes, proof.fingerprint)
        }

    def _read_manifests(
        self, asked: Sequence[ListedManifest], wanted: Sequence[str]
    ) -> list[ManifestProof]:
        hashes = frozenset(map(key_hash, wanted))
        if len(asked) <= _FEW and _entries(asked) <= _FEW_ENTRIES:
            with ThreadPoolExecutor(_THREADS) as pool:
                return list(pool.map(lambda one: prove_manifest(self._store, one, hashes), asked))
        shared = self._spark.sparkContext.broadcast(hashes)
        frame = self._asked(asked).mapInArrow(_prover(self._store, shared), _ddl(MANIFEST))
        return [
            ManifestProof(**{**row, "hits": tuple(row["hits"])})
            for row in frame.toArrow().to_pylist()
        ]

    def _asked(self, manifests: Sequence[ListedManifest]) -> DataFrame:
        # The large ones first and dealt out in turn, so that no executor is left with all of them.
        largest = sorted(manifests, key=lambda manifest: -(manifest.rows or manifest.bytes))
        rows = [{"path": m.path, "bytes": m.bytes, "rows": m.rows} for m in largest]
        return self._spread(pa.Table.from_pylist(rows, schema=_ASKED))

    def _spread(self, rows: pa.Table) -> DataFrame:
        slices = self._spark.sparkContext.defaultParallelism * 4
        return self._spark.createDataFrame(rows).repartition(max(1, min(slices, rows.num_rows)))

    @staticmethod
    def _proved_lists(
        snapshots: Sequence[ProofSnapshot], found: _Found, proofs: Mapping[str, ManifestProof]
    ) -> Iterator[tuple[str, int, Sequence[str]]]:
        """Lists that were read now, with every manifest of theirs proved, now or before."""
        broken = {path for path, proof in proofs.items() if proof.error}
        for snapshot in snapshots:
            named = found.manifests.get(snapshot.key)
            if snapshot.manifest_list and named is not None and not broken.intersection(named):
                size = found.sizes[snapshot.manifest_list]
                yield snapshot.manifest_list, size, named


def _entries(manifests: Iterable[ListedManifest]) -> float:
    """How many entries manifests have; endlessly many where a list does not say."""
    return sum(math.inf if one.rows is None else one.rows for one in manifests)


def _confirmed(
    hits: Mapping[str, Sequence[str]], wanted: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Hash hits, kept only where the location itself is wanted; in the plan's spelling."""
    by_key = {location_key(path): path for path in wanted} if hits else {}
    confirmed = {
        manifest: tuple(by_key[key] for path in paths if (key := location_key(path)) in by_key)
        for manifest, paths in hits.items()
    }
    return {manifest: paths for manifest, paths in confirmed.items() if paths}


def _list_reader(store: ObjectStore) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [found for row in batch.to_pylist() for found in _read_list(store, row)]
            yield pa.RecordBatch.from_pylist(rows, schema=_LISTED)

    return read


def _read_list(store: ObjectStore, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    of = {"number": row["number"], "path": None, "bytes": 0, "rows": None, "error": ""}
    try:
        if not row["manifest_list"]:
            yield {**of, "list_bytes": 0}
            for path in row["inline"]:
                yield {**of, "path": path, "bytes": store.size(path) or 0, "list_bytes": 0}
            return
        content = store.read(row["manifest_list"])
        # A row of its own: an empty table's list names no manifest.
        yield {**of, "list_bytes": len(content)}
        for manifest in listed_manifests(row["manifest_list"], content):
            named = {"path": manifest.path, "bytes": manifest.bytes, "rows": manifest.rows}
            yield {**of, **named, "list_bytes": len(content)}
    except FileNotFoundError:
        yield {**of, "list_bytes": 0, "error": f"{row['manifest_list']} is missing"}
    except MeltlineError as odd:
        yield {**of, "list_bytes": 0, "error": f"{odd.message}: {odd.found}"}


def _prover(store: ObjectStore, wanted: Any) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                vars(prove_manifest(store, ListedManifest(**row), wanted.value))
                for row in batch.to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=MANIFEST)

    return read


def _sizes(store: ObjectStore) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    schema = pa.schema([("manifest", pa.string()), ("key_hash", pa.int64()), ("bytes", pa.int64())])

    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                live = live_files(ListedManifest(**row), store.read(row["path"]))
                columns = {
                    "manifest": [row["path"]] * len(live),
                    "key_hash": [key_hash(file.path) for file in live],
                    "bytes": [file.bytes for file in live],
                }
                yield pa.RecordBatch.from_pydict(columns, schema=schema)

    return read


def _ddl(schema: pa.Schema) -> str:
    words = {pa.string(): "string", pa.int64(): "bigint", pa.list_(pa.string()): "array<string>"}
    return ", ".join(f"{field.name} {words[field.type]}" for field in schema)
