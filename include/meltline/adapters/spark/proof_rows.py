"""What one manifest keeps alive, as the gate reads it from the file."""

from dataclasses import dataclass
from functools import reduce
from operator import xor

import pyarrow as pa

from meltline.adapters.hashing import key_hash
from meltline.adapters.iceberg.evidence_reader import ListedManifest, live_files
from meltline.domain.errors import MeltlineError
from meltline.ports import ObjectStore

MANIFEST = pa.schema(
    [
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("live_files", pa.int64()),
        ("live_bytes", pa.int64()),
        ("fingerprint", pa.int64()),
        ("hits", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)


@dataclass
class ManifestProof:
    """A manifest that was read from its file, or why it could not be.

    Attributes:
        path: The manifest; `bytes` is its length as its list has it.
        live_files: How many files it keeps alive; `live_bytes` is their size.
        fingerprint: The exclusive-or of the hashes of their locations.
        hits: Those of them whose hash is wanted.
        error: Why it could not be read; empty when it was.
    """

    path: str
    bytes: int
    live_files: int = 0
    live_bytes: int = 0
    fingerprint: int = 0
    hits: tuple[str, ...] = ()
    error: str = ""


def prove_manifest(
    store: ObjectStore, manifest: ListedManifest, wanted: frozenset[int]
) -> ManifestProof:
    """Reads a manifest from its file and looks for wanted files in it, by their hashes."""
    try:
        live = live_files(manifest, store.read(manifest.path))
    except FileNotFoundError:
        return ManifestProof(manifest.path, manifest.bytes, error=f"{manifest.path} is missing")
    except MeltlineError as odd:
        return ManifestProof(manifest.path, manifest.bytes, error=f"{odd.message}: {odd.found}")
    hashes = [key_hash(file.path) for file in live]
    return ManifestProof(
        path=manifest.path,
        bytes=manifest.bytes,
        live_files=len(live),
        live_bytes=sum(file.bytes for file in live),
        fingerprint=reduce(xor, hashes, 0),
        hits=tuple(f.path for f, hashed in zip(live, hashes, strict=True) if hashed in wanted),
    )
