"""Proof of one manifest list or one manifest, read from the file for the gate.

The proof reader calls it, here or on executors. It decodes with PyIceberg, unlike the index.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.manifests.pyiceberg_reader import (
    ListedManifest,
    listed_manifests,
    live_columns,
)
from meltline.adapters.proofs.hash_sets import Packed, fingerprint, packed
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.reachable import ReachableSet
from meltline.ports import ObjectReader

LISTED = pa.schema(
    [
        ("number", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("list_bytes", pa.int64()),
        ("list_sha256", pa.string()),
        ("error", pa.string()),
    ]
)
MANIFEST = pa.schema(
    [
        ("key_hash", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("live_files", pa.int64()),
        ("live_bytes", pa.int64()),
        ("fingerprint", pa.int64()),
        ("hashes", pa.binary()),
        ("hits", pa.list_(pa.int64())),
        ("error", pa.string()),
        ("contradiction", pa.string()),
    ]
)


def read_list(store: ObjectReader, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields rows of `LISTED`: one for the snapshot's list, and one for each of its manifests."""
    of = {"number": row["number"], "path": None, "bytes": 0, "rows": None, "error": ""}
    try:
        listed, manifests = _listed(store, row)
    except FileNotFoundError:
        where = row["manifest_list"] or "an inline manifest"
        yield {**of, "list_bytes": 0, "list_sha256": "", "error": f"{where} is missing"}
        return
    except MeltlineError as fault:
        error = f"{fault.message}: {fault.found}"
        yield {**of, "list_bytes": 0, "list_sha256": "", "error": error}
        return
    of |= {"list_bytes": listed.length, "list_sha256": listed.sha256}
    yield of  # a row of its own: an empty table's list names no manifest
    for manifest in manifests:
        yield {**of, "path": manifest.path, "bytes": manifest.bytes, "rows": manifest.rows}


def _listed(
    store: ObjectReader, row: dict[str, Any]
) -> tuple[ReachableSet, Sequence[ListedManifest]]:
    path = row["manifest_list"]
    if path:
        content = store.read(path)
        return ReachableSet.of_list(content), listed_manifests(path, content)
    contents = [(inline, store.read(inline)) for inline in row["inline"]]
    manifests = [ListedManifest(inline, len(content), None) for inline, content in contents]
    return ReachableSet.of_manifests(contents), manifests


@dataclass
class ManifestProof:
    """The content of a manifest that was read from its file, or why it could not be read.

    Attributes:
        path: The manifest; `bytes` is its length according to its list.
        live_files: The number of its live files; `live_bytes` is their size.
        fingerprint: The exclusive-or of the hashes of their locations.
        hashes: Their packed hashes; None if they are in the ledger already, or unread.
        hits: The sought hashes among them.
        error: Why it could not be read; empty if it was.
        contradiction: How the counts in its list differ from its entries.
    """

    path: str
    bytes: int
    live_files: int = 0
    live_bytes: int = 0
    fingerprint: int = 0
    hashes: Packed | None = None
    hits: tuple[int, ...] = ()
    error: str = ""
    contradiction: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether it was read and agrees with its list, so that it need not be read again."""
        return not (self.error or self.contradiction)


def prove_manifest(
    store: ObjectReader, manifest: ListedManifest, sought: frozenset[int]
) -> ManifestProof:
    """Reads a manifest from its file and searches it for sought files, by their hashes."""
    try:
        live = live_columns(manifest, store.read(manifest.path))
    except FileNotFoundError:
        return ManifestProof(manifest.path, manifest.bytes, error=f"{manifest.path} is missing")
    except MeltlineError as fault:
        return ManifestProof(manifest.path, manifest.bytes, error=f"{fault.message}: {fault.found}")
    keys = [key_hash(path) for path in live.paths]
    hashes = np.array(keys, np.int64)
    return ManifestProof(
        path=manifest.path,
        bytes=manifest.bytes,
        live_files=len(keys),
        live_bytes=sum(live.sizes),
        fingerprint=fingerprint(hashes),
        hashes=packed(hashes),
        hits=tuple(sorted(sought.intersection(keys))),
        contradiction=live.contradiction,
    )
