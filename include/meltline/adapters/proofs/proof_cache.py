"""Cache of the gates' earlier reads, in the ledger's table `proofs`.

The proof reader uses it. It does not depend on the index: the hashes of a manifest's live files are
stored with its proof. So a proof holds whatever the index has forgotten, or never knew.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from meltline.adapters.index_tables.scan_query import Condition
from meltline.adapters.index_tables.schema import PROOFS
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.pyiceberg_reader import ListedManifest
from meltline.adapters.proofs.hash_sets import HITS, PACKED, searched, searcher, sound
from meltline.adapters.proofs.manifest_proof import ManifestProof
from meltline.domain.clock import CLOCK_TOLERANCE, Clock
from meltline.domain.iceberg.files import FileKind

ProvedList = tuple[str, int, Sequence[str]]
"""A manifest list that was read: path, length in bytes, manifests."""
_WIDTH = 8
_ROW = 100  # approximate bytes of a proof without its hashes
_OF_MANIFESTS: Condition = ("kind", "=", str(FileKind.MANIFEST))
_COUNTS = ("path", "bytes", "live_files", "live_bytes", "fingerprint")


@dataclass(frozen=True)
class KnownList:
    """A manifest list that was read before.

    Attributes:
        bytes: Its length.
        manifests: The hashes of its manifests' paths.
        path: Its path, because two locations may have one hash.
        fingerprint: Another hash of its manifests' paths, for the same reason.
    """

    bytes: int
    manifests: Sequence[int]
    path: str
    fingerprint: int

    def is_of(self, manifests: Sequence[str]) -> bool:
        """Returns whether it named these manifests."""
        return self.fingerprint == paths_fingerprint(manifests)


def paths_fingerprint(paths: Iterable[str]) -> int:
    """Returns a number that distinguishes sequences of paths, even if 64-bit hashes collide."""
    digest = blake2b("\n".join(paths).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass(frozen=True)
class KnownProof:
    """The content of earlier proofs, by the hashes of the files' locations."""

    manifests: Mapping[int, ManifestProof] = field(default_factory=dict)
    lists: Mapping[int, KnownList] = field(default_factory=dict)

    def list_of(self, path: str) -> KnownList | None:
        """Returns a manifest list from the cache if all its manifests are cached; else None."""
        listed = self.lists.get(key_hash(path)) if path else None
        if listed is None or listed.path != path:
            return None
        if any(number not in self.manifests for number in listed.manifests):
            return None
        paths = [self.manifests[number].path for number in listed.manifests]
        return listed if listed.is_of(paths) else None

    @cached_property
    def listed(self) -> Mapping[int, ListedManifest]:
        """Returns its manifests as lists describe them; their entry counts are not cached."""
        return {n: ListedManifest(p.path, p.bytes, None) for n, p in self.manifests.items()}


class ProofTable:
    """Reads and writes the ledger's table `proofs`.

    Attributes:
        local_bytes: Hashes that this process searches and caches; executors search larger sets.
    """

    local_bytes = 256 * 1024 * 1024

    def __init__(self, tables: LedgerTables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock
        self._opened: list[pa.Table] = []  # sound hashes; a file's hashes never change

    def open(self, since: datetime) -> KnownProof:
        """Returns every result read from the files since that time, without the hashes.

        Such files never change: a file with two contradictory results counts as unread.
        """
        rows = self._tables.look(
            "proofs",
            ("kind", "key_hash", *_COUNTS, "manifests"),
            # Results dated by a fast clock count once their time has come.
            [("proved_at", ">=", since), ("proved_at", "<=", self._clock.now() + CLOCK_TOLERANCE)],
        )
        manifests: dict[int, ManifestProof] = {}
        lists: dict[int, KnownList] = {}
        contradicted = set()
        for row in rows.to_pylist():
            number = row["key_hash"]
            if row["kind"] == FileKind.MANIFEST:
                proof = ManifestProof(**{name: row[name] for name in _COUNTS})
                agrees = manifests.setdefault(number, proof) == proof
            else:
                facts = (row["path"], row["fingerprint"] or 0)
                listed = KnownList(row["bytes"], row["manifests"], *facts)
                agrees = lists.setdefault(number, listed) == listed
            if not agrees:
                contradicted.add(number)
        for number in contradicted:
            manifests.pop(number, None)
            lists.pop(number, None)
        return KnownProof(manifests, lists)

    def ask(
        self, proofs: Mapping[int, ManifestProof], sought: Collection[int]
    ) -> dict[int, tuple[int, ...]]:
        """Returns the sought hashes in manifests that were read before.

        A manifest is left out, and counts as unread, if its hashes are missing, or if their number
        or fingerprint differs from the record.
        """
        hashes = pa.array(sought, pa.int64())
        answer = self._answer(proofs, [searched(rows, hashes) for rows in self._opened])
        if unanswered := [number for number in proofs if number not in answer]:
            size = _WIDTH * sum(proofs[number].live_files for number in unanswered)
            search = self._search_here if size <= self.local_bytes else self._search_spread
            answer |= self._answer(proofs, [search(unanswered, hashes)])
        return answer

    @staticmethod
    def _answer(
        proofs: Mapping[int, ManifestProof], tables: Iterable[pa.Table]
    ) -> dict[int, tuple[int, ...]]:
        return {
            row["key_hash"]: tuple(row["hits"])
            for rows in tables
            for row in rows.to_pylist()
            if (proof := proofs.get(row["key_hash"]))
            and (proof.live_files, proof.fingerprint) == (row["live_files"], row["fingerprint"])
        }

    def _search_here(self, manifests: Collection[int], sought: pa.Array) -> pa.Table:
        rows = sound(self._tables.look("proofs", PACKED, [_OF_MANIFESTS], ("key_hash", manifests)))
        self._keep(rows)
        return searched(rows, sought)

    def _search_spread(self, manifests: Collection[int], sought: pa.Array) -> pa.Table:
        rows = self._tables.read("proofs").where(F.col("kind") == str(FileKind.MANIFEST))
        chosen = rows.join(self._tables.ids("key_hash", manifests), "key_hash", "leftsemi").select(
            *PACKED
        )
        shared = self._tables.spark.sparkContext.broadcast(sought)
        search = searcher(lambda: shared.value)
        names = "key_hash bigint, live_files bigint, fingerprint bigint, hits array<bigint>"
        return chosen.mapInArrow(search, names).toArrow().cast(HITS)

    def _keep(self, rows: pa.Table) -> None:
        """Caches rows for the session's later gates, while there is room."""
        if sum(opened.nbytes for opened in self._opened) + rows.nbytes <= self.local_bytes:
            self._opened.append(rows)

    def write(self, manifests: Iterable[ManifestProof], lists: Iterable[ProvedList]) -> None:
        """Stores the sound results of this read."""
        now = self._clock.now()
        rows = [
            {
                **{name: getattr(proof, name) for name in (*_COUNTS, "hashes")},
                "kind": str(FileKind.MANIFEST),
                "key_hash": key_hash(proof.path),
                "proved_at": now,
            }
            for proof in manifests
            if proof.is_sound and proof.hashes is not None
        ]
        rows += [
            {
                "kind": str(FileKind.MANIFEST_LIST),
                "key_hash": key_hash(path),
                "path": path,
                "bytes": size,
                "manifests": [key_hash(manifest) for manifest in paths],
                "fingerprint": paths_fingerprint(paths),
                "proved_at": now,
            }
            for path, size, paths in lists
        ]
        if rows:
            table = pa.Table.from_pylist(rows, schema=PROOFS)
            self._tables.append_arrow("proofs", table, f"proofs-{now.isoformat()}")
            self._keep(sound(table.filter(pc.is_valid(table["hashes"])).select(PACKED)))

    def write_read(self, manifests: DataFrame, files: int) -> None:
        """Stores results from executors, which are too large for this process."""
        now = self._clock.now()
        rows = manifests.where("error = '' AND contradiction = ''").select(
            F.lit(str(FileKind.MANIFEST)).alias("kind"),
            *("key_hash", *_COUNTS, "hashes"),
            F.lit(None).cast("array<bigint>").alias("manifests"),
            F.lit(now).alias("proved_at"),
        )
        self._tables.write("proofs", rows.coalesce(files), f"proofs-{now.isoformat()}")

    def forget(self, before: datetime) -> str:
        """Deletes the proofs from before that time, once they are half of the table.

        Args:
            before: The age limit of proofs (`gates.full-proof-every`); no gate uses older ones.

        Returns:
            A report; empty if it did not pay yet.
        """
        rows = self._tables.look("proofs", ("proved_at", "live_files"))
        weights = pc.add(pc.multiply(pc.fill_null(rows["live_files"], 0), _WIDTH), _ROW)
        old = pc.less(rows["proved_at"], pa.scalar(before, rows["proved_at"].type))
        outdated, total = (pc.sum(column).as_py() or 0 for column in (weights.filter(old), weights))
        if not outdated or 2 * outdated < total:
            return ""
        delete = f"DELETE FROM {self._tables.namespace}.proofs WHERE proved_at < :before"
        self._tables.spark.sql(delete, args={"before": before})
        return f"proofs: {pc.sum(old).as_py()} that no gate asks for any more deleted"
