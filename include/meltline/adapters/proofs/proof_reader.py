"""Reads manifest lists and manifests for the gate, on executors, independently of the index.

Files never change, so the gate reads each only once. The ledger's table `proofs` stores the names
in each list. For each manifest it stores how many live files and bytes it has, the hashes of their
paths, and a fingerprint. If hashes and fingerprint no longer agree, the manifest is read
from its file again (docs/decisions/003). The index is never used.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.pyiceberg_reader import ListedManifest, live_columns
from meltline.adapters.proofs.manifest_proof import (
    LISTED,
    MANIFEST,
    ManifestProof,
    prove_manifest,
    read_list,
)
from meltline.adapters.proofs.proof_cache import KnownList, KnownProof, ProofTable
from meltline.adapters.spark.distribution import spread
from meltline.concurrency import thread_map
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports import ObjectReader, ProofResult, ProofSnapshot, SnapshotKey

_FEW = 5_000  # files: fewer are read here faster than a Spark job starts
_A_FILE = 16_000_000  # entries whose hashes fill one file of the ledger
_REQUESTS = pa.schema([("path", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64())])
_LIST = pa.schema(
    [("number", pa.int64()), ("manifest_list", pa.string()), ("inline", pa.list_(pa.string()))]
)
_SIZE = pa.schema([("manifest", pa.string()), ("key_hash", pa.int64()), ("bytes", pa.int64())])
Batches = Iterable[pa.RecordBatch]
Hits = Mapping[int, tuple[int, ...]]
"""Sought hashes in sound proofs of manifests, by the hash of the manifest's path."""


@dataclass
class _Reach:
    """The lists and manifests that the snapshots refer to, as far as known.

    Attributes:
        manifests: Paths of each snapshot's manifests; `listed` has these manifests by path.
        tables: Tables that refer to a manifest, by its path.
        sizes: Lengths of lists, by path; `lists` has the reachable sets of lists read now.
        errors: By table; likewise `contradictions`.
    """

    manifests: dict[SnapshotKey, list[str]] = field(default_factory=dict)
    listed: dict[str, ListedManifest] = field(default_factory=dict)
    tables: dict[str, set[str]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    contradictions: dict[str, list[str]] = field(default_factory=dict)
    lists: dict[SnapshotKey, ReachableSet] = field(default_factory=dict)

    def name(self, snapshot: ProofSnapshot, manifests: Iterable[ListedManifest]) -> None:
        paths = self.manifests.setdefault(snapshot.key, [])
        for manifest in manifests:
            paths.append(manifest.path)
            self.listed.setdefault(manifest.path, manifest)
            self.tables.setdefault(manifest.path, set()).add(snapshot.table_uuid)

    def fail(self, uuid: str, error: str) -> None:
        self.errors.setdefault(uuid, []).append(error)

    def fail_broken(self, proofs: Iterable[ManifestProof]) -> None:
        """Adds the problems of manifests to the tables that refer to them."""
        for proof in proofs:
            for uuid in self.tables[proof.path] if proof.error else ():
                self.fail(uuid, proof.error)
            for uuid in self.tables[proof.path] if proof.contradiction else ():
                self.contradictions.setdefault(uuid, []).append(proof.contradiction)

    def proof_result(
        self, proofs: Mapping[str, ManifestProof], planned: Mapping[int, Sequence[str]], read: int
    ) -> ProofResult:
        """Builds the result from the proofs of all manifests, `read` of them from their files."""
        return ProofResult(
            manifests={key: tuple(paths) for key, paths in self.manifests.items()},
            live_files={path: proof.live_files for path, proof in proofs.items()},
            live_bytes={path: proof.live_bytes for path, proof in proofs.items()},
            sizes=self.sizes | {path: manifest.bytes for path, manifest in self.listed.items()},
            hits={p: _planned(proof.hits, planned) for p, proof in proofs.items() if proof.hits},
            errors={uuid: tuple(messages) for uuid, messages in self.errors.items()},
            contradictions={uuid: tuple(of) for uuid, of in self.contradictions.items()},
            read=read,
            lists=self.lists,
        )


class SparkProofReader:
    """Implements `ProofReader` on Spark.

    Attributes:
        job_start: Entries that this process reads while a job and its workers start.
        entries_here: Up to this number of entries this process writes the hashes itself.
    """

    job_start: float = 750_000
    entries_here = 8_000_000

    def __init__(self, spark: SparkSession, store: ObjectReader, book: ProofTable) -> None:
        self._spark = spark
        self._store = store
        self._book = book

    def prove(
        self,
        snapshots: Sequence[ProofSnapshot],
        sought: Sequence[str],
        since: datetime | None = None,
    ) -> ProofResult:
        prior = self._book.open(since) if since is not None and snapshots else KnownProof()
        reach, planned = _Reach(), _by_hash(sought)
        sound, opened = self._follow(snapshots, prior, reach, planned)
        covered = _covered(reach, prior, sound)
        fresh = [manifest for path, manifest in reach.listed.items() if path not in covered]
        proofs = {proof.path: proof for proof in self._read_manifests(fresh, planned)}
        reach.fail_broken(proofs.values())
        self._book.write(proofs.values(), _proved_lists(opened, reach, proofs))
        return reach.proof_result({**covered, **proofs}, planned, len(proofs))

    def forget(self, before: datetime) -> str:
        return self._book.forget(before)

    def distinct_bytes(self, snapshots: Sequence[ProofSnapshot]) -> Mapping[str, int]:
        """Returns bytes of the distinct live files of each table's snapshots, from the files."""
        reach = _Reach()
        self._read_lists(snapshots, reach)
        of_table = pa.Table.from_pylist(
            [
                {"manifest": path, "table_uuid": uuid}
                for path, uuids in reach.tables.items()
                for uuid in uuids
            ],
            schema=pa.schema([("manifest", pa.string()), ("table_uuid", pa.string())]),
        )
        rows = self._shared_out(list(reach.listed.values())).mapInArrow(
            _sizes(self._store), from_arrow_schema(_SIZE)
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
        return {snapshot.table_uuid: sums.get(snapshot.table_uuid, 0) for snapshot in snapshots}

    def _follow(
        self,
        snapshots: Sequence[ProofSnapshot],
        prior: KnownProof,
        reach: _Reach,
        sought: Collection[int],
    ) -> tuple[Hits, list[ProofSnapshot]]:
        """Follows snapshots to their manifests, using sound earlier proofs.

        Returns:
            The hits in manifests with an earlier proof, and the snapshots whose lists were read.
        """
        lists = [(snapshot, prior.list_of(snapshot.manifest_list)) for snapshot in snapshots]
        unread = [snapshot for snapshot, listed in lists if listed is None]
        self._read_lists(unread, reach)
        sound = self._ask(prior, [listed for _, listed in lists if listed], reach, sought)
        again = [s for s, listed in lists if listed and not _recall(s, listed, prior, sound, reach)]
        self._read_lists(again, reach)
        return sound, [*unread, *again]

    def _ask(
        self,
        prior: KnownProof,
        lists: Iterable[KnownList],
        reach: _Reach,
        sought: Collection[int],
    ) -> Hits:
        """Searches all earlier proofs for the sought hashes in one query."""
        numbers = {number for listed in lists for number in listed.manifests}
        numbers |= prior.manifests.keys() & set(map(key_hash, reach.listed))
        return self._book.ask({n: prior.manifests[n] for n in numbers}, sought) if numbers else {}

    def _read_lists(self, snapshots: Sequence[ProofSnapshot], reach: _Reach) -> None:
        for snapshot, rows in zip(snapshots, self._lists(snapshots), strict=True):
            error = next((row["error"] for row in rows if row["error"]), "")
            if error:
                reach.fail(snapshot.table_uuid, error)
                continue
            reach.sizes[snapshot.manifest_list] = rows[0]["list_bytes"]
            as_read = ReachableSet(rows[0]["list_bytes"], rows[0]["list_sha256"])
            reach.lists[snapshot.key] = as_read
            refs = [row for row in rows if row["path"] is not None]
            reach.name(snapshot, [ListedManifest(r["path"], r["bytes"], r["rows"]) for r in refs])

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
            return list(thread_map(lambda row: list(read_list(self._store, row)), rows))
        frame = spread(self._spark, pa.Table.from_pylist(rows, schema=_LIST), [1] * len(rows))
        listed = frame.mapInArrow(_list_reader(self._store), from_arrow_schema(LISTED))
        answer: list[list[dict[str, Any]]] = [[] for _ in rows]
        for row in listed.toArrow().to_pylist():
            answer[row["number"]].append(row)
        return answer

    def _read_manifests(
        self, manifests: Sequence[ListedManifest], sought: Collection[int]
    ) -> list[ManifestProof]:
        hashes, entries = frozenset(sought), _entries(manifests)
        if not self._is_worth_a_job(manifests, entries):
            return list(thread_map(lambda m: prove_manifest(self._store, m, hashes), manifests))
        shared = self._spark.sparkContext.broadcast(hashes)
        frame = self._shared_out(manifests).mapInArrow(
            _prover(self._store, shared), from_arrow_schema(MANIFEST)
        )
        if entries <= self.entries_here:
            return _proofs(frame)
        saved = frame.persist()
        try:
            proofs = _proofs(saved.drop("hashes"))
            self._book.write_read(saved, 1 + sum(m.live_files for m in proofs) // _A_FILE)
        finally:
            saved.unpersist()
        return proofs

    def _is_worth_a_job(self, manifests: Sequence[ListedManifest], entries: float) -> bool:
        """Returns whether executors would be faster: each manifest is read by one of them."""
        cores = self._spark.sparkContext.defaultParallelism
        largest = max((_entries([manifest]) for manifest in manifests), default=0)
        return len(manifests) > _FEW or entries > self.job_start + max(largest, entries / cores)

    def _shared_out(self, manifests: Sequence[ListedManifest]) -> DataFrame:
        rows = [{"path": m.path, "bytes": m.bytes, "rows": m.rows} for m in manifests]
        weights = [m.rows or m.bytes for m in manifests]
        return spread(self._spark, pa.Table.from_pylist(rows, schema=_REQUESTS), weights)


def _recall(
    snapshot: ProofSnapshot,
    listed: KnownList,
    prior: KnownProof,
    sound: Collection[int],
    reach: _Reach,
) -> bool:
    """Reuses an earlier proof of this snapshot's list.

    Not if one of its manifests must be read again, because the list has its number of entries.
    """
    if any(number not in sound for number in listed.manifests):
        return False
    reach.name(snapshot, [prior.listed[number] for number in listed.manifests])
    reach.sizes[snapshot.manifest_list] = listed.bytes
    return True


def _covered(reach: _Reach, prior: KnownProof, sound: Hits) -> dict[str, ManifestProof]:
    """Returns manifests with earlier proofs that are still the same and whose hashes are sound."""
    numbers = {path: key_hash(path) for path in reach.listed}
    return {
        path: replace(prior.manifests[numbers[path]], hits=sound[numbers[path]])
        for path, manifest in reach.listed.items()
        if numbers[path] in sound and _is_same(prior.manifests[numbers[path]], manifest)
    }


def _is_same(proof: ManifestProof, manifest: ListedManifest) -> bool:
    """Returns whether a proof is of this manifest: two locations may have one hash."""
    return (proof.path, proof.bytes) == (manifest.path, manifest.bytes)


def _proved_lists(
    snapshots: Sequence[ProofSnapshot], reach: _Reach, proofs: Mapping[str, ManifestProof]
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """Yields lists that were read now, if every manifest in them is proved, now or before."""
    broken = {path for path, proof in proofs.items() if not proof.is_sound}
    for snapshot in snapshots:
        paths = reach.manifests.get(snapshot.key)
        if snapshot.manifest_list and paths is not None and not broken.intersection(paths):
            size = reach.sizes[snapshot.manifest_list]
            yield snapshot.manifest_list, size, paths


def _by_hash(planned_paths: Sequence[str]) -> dict[int, list[str]]:
    """Returns the planned paths of each hash.

    Every path with such a hash counts as referenced, whenever its manifest was read: a collision
    of two locations can only keep a file, and the planner joins by hash as well.
    """
    paths: dict[int, list[str]] = {}
    for path in planned_paths:
        paths.setdefault(key_hash(path), []).append(path)
    return paths


def _planned(hits: Iterable[int], planned: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    return tuple(path for number in sorted({*hits}) for path in planned[number])


def _proofs(frame: DataFrame) -> list[ManifestProof]:
    rows = frame.drop("key_hash").toArrow().to_pylist()
    return [ManifestProof(**{**row, "hits": tuple(row["hits"])}) for row in rows]


def _entries(manifests: Iterable[ListedManifest]) -> float:
    """Returns how many entries manifests have; infinite if a list does not count them."""
    return sum(math.inf if manifest.rows is None else manifest.rows for manifest in manifests)


def _list_reader(store: ObjectReader) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [listed for row in batch.to_pylist() for listed in read_list(store, row)]
            yield pa.RecordBatch.from_pylist(rows, schema=LISTED)

    return read


def _prover(store: ObjectReader, sought: Any) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():  # one batch each, because the hashes are large
                proof = vars(prove_manifest(store, ListedManifest(**row), sought.value))
                proved = {**proof, "key_hash": key_hash(row["path"])}
                yield pa.RecordBatch.from_pylist([proved], schema=MANIFEST)

    return read


def _sizes(store: ObjectReader) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def read(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                live = live_columns(ListedManifest(**row), store.read(row["path"]))
                columns = {
                    "manifest": [row["path"]] * len(live.paths),
                    "key_hash": [key_hash(path) for path in live.paths],
                    "bytes": live.sizes,
                }
                yield pa.RecordBatch.from_pydict(columns, schema=_SIZE)

    return read
