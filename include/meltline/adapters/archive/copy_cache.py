"""Stores copy proofs in the ledger, and in a document in the archive beside the copies.

The workers of the archive use it as their cache. The document survives the loss of the ledger.
"""

import gzip
from collections.abc import Collection, Mapping
from uuid import uuid4

from meltline.domain.archive.cold_proofs import CopyProof, proofs_as_text, proofs_folder
from meltline.ports import CopyCache, ObjectWriter


class ArchiveBook:
    """The port `CopyCache` over the control ledger, with the archive's own record of it.

    Args:
        ledger: The cache that answers.
        store: The cold store.
        warehouse: The folder of the cold catalog.
    """

    def __init__(self, ledger: CopyCache, store: ObjectWriter, warehouse: str) -> None:
        self._ledger = ledger
        self._store = store
        self._warehouse = warehouse

    def of(self, paths: Collection[str]) -> Mapping[str, CopyProof]:
        """Returns proofs that were compared with the originals; all other copies are read again."""
        return {p: proof for p, proof in self._ledger.of(paths).items() if proof.from_source}

    def save(self, proofs: Collection[CopyProof]) -> None:
        """Stores new proofs, first in the archive, then in the ledger."""
        prior = self._ledger.of([proof.path for proof in proofs])
        new = [proof for proof in proofs if prior.get(proof.path) != proof]
        if not new:
            return
        content = gzip.compress(proofs_as_text(new).encode(), mtime=0)
        self._store.write(f"{proofs_folder(self._warehouse)}/{uuid4()}.jsonl.gz", content)
        self._ledger.save(new)
