"""What gates have read from the files before, and whether the index still says the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.evidence_reader import ListedManifest
from meltline.adapters.spark.ledger_tables import LedgerTables
from meltline.adapters.spark.proof_rows import ManifestProof
from meltline.domain.clock import Clock
from meltline.domain.files import EntryStatus, FileKind
from meltline.ports import ObjectStore

ProvedList = tuple[str, int, Sequence[str]]
"""A manifest list that was read: its path, its length in bytes, its manifests."""


@dataclass(frozen=True)
class KnownList:
    """A manifest list that was read before."""

    bytes: int
    manifests: Sequence[ListedManifest]


@dataclass(frozen=True)
class KnownProof:
    """What earlier proofs have read, by the hashes of the files' locations."""

    manifests: Mapping[int, ManifestProof] = field(default_factory=dict)
    lists: Mapping[int, tuple[int, Sequence[int]]] = field(default_factory=dict)

    def list_of(self, path: str) -> KnownList | None:
        """A manifest list that was read before, if all its manifests were; else None."""
        size, ids = self.lists.get(key_hash(path), (0, None))
        proofs = [self.manifests.get(number) for number in ids or ()]
        if ids is None or None in proofs:
            return None
        named = [ListedManifest(proof.path, proof.bytes, None) for proof in proofs if proof]
        return KnownList(size, named)


class ProofBook(LedgerTables):
    """The ledger's table `proofs`, and the rows of the index that it vouches for."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, catalog: str, namespace: str, clock: Clock
    ) -> None:
        super().__init__(spark, store, catalog, namespace)
        self._clock = clock

    def open(self, since: datetime) -> KnownProof:
        """Everything that was read from the files since then."""
        if self._current("proofs") is None:
            return KnownProof()
        rows = self._read("proofs").where(F.col("proved_at") >= F.lit(since)).toArrow().to_pylist()
        manifests, lists = {}, {}
        for row in rows:
            if row["kind"] == FileKind.MANIFEST:
                names = ("path", "bytes", "live_files", "live_bytes", "fingerprint")
                manifests[row["key_hash"]] = ManifestProof(**{name: row[name] for name in names})
            else:
                lists[row["key_hash"]] = (row["bytes"], row["manifests"])
        return KnownProof(manifests, lists)

    def write(self, manifests: Iterable[ManifestProof], lists: Iterable[ProvedList]) -> None:
        """Remembers what was read now; what could not be read is not remembered."""
        now = self._clock.now()
        rows = [
            {
                "kind": str(FileKind.MANIFEST),
                "key_hash": key_hash(proof.path),
                "path": proof.path,
                "bytes": proof.bytes,
                "live_files": proof.live_files,
                "live_bytes": proof.live_bytes,
                "fingerprint": proof.fingerprint,
                "proved_at": now,
            }
            for proof in manifests
            if not proof.error
        ]
        rows += [
            {
                "kind": str(FileKind.MANIFEST_LIST),
                "key_hash": key_hash(path),
                "path": path,
                "bytes": size,
                "manifests": [key_hash(manifest) for manifest in named],
                "proved_at": now,
            }
            for path, size, named in lists
        ]
        self._append("proofs", rows, f"proofs-{now.isoformat()}")

    def index_rows(self, proofs: Iterable[ManifestProof]) -> dict[int, tuple[int, int, int]]:
        """Live files, their bytes and their fingerprint by the index, of some manifests."""
        rows = (
            self._live_of(proofs)
            .groupBy("manifest_id")
            .agg(
                F.count("*").alias("files"),
                F.sum("bytes").alias("size"),
                F.bit_xor("key_hash").alias("fingerprint"),
            )
            .collect()
        )
        return {row[0]: (row["files"], row["size"], row["fingerprint"]) for row in rows}

    def hits(
        self, proofs: Iterable[ManifestProof], wanted: Sequence[str]
    ) -> dict[str, tuple[str, ...]]:
        """Files of those manifests, by the index, whose hash is among the wanted ones'."""
        known = {key_hash(proof.path): proof.path for proof in proofs}
        if not wanted:
            return {}
        asked = self._hashes("key_hash", wanted)
        live = self._live_of([ManifestProof(path, 0) for path in known.values()])
        rows = live.join(asked, "key_hash", "leftsemi").select("manifest_id", "path").collect()
        found: dict[str, tuple[str, ...]] = {}
        for manifest, path in rows:
            found[known[manifest]] = (*found.get(known[manifest], ()), path)
        return found

    def _live_of(self, proofs: Iterable[ManifestProof]) -> DataFrame:
        ids = pa.table({"manifest_id": pa.array([key_hash(p.path) for p in proofs], pa.int64())})
        live = self._read("entries").where(F.col("status") < int(EntryStatus.DELETED))
        return live.join(F.broadcast(self._spark.createDataFrame(ids)), "manifest_id", "leftsemi")
