"""Archive tasks for Spark executors: Arrow rows in, Arrow rows out, with the stores serialized.

`spark_archive` runs them. Executors import this module without a Spark session.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_tasks import (
    FileDone,
    ManifestDone,
    bring,
    files_there,
    needs_of,
    read_again,
    write_manifest,
)
from meltline.adapters.archive.rewriting.manifests import Amended, EntryTotals, Need, NeededFile
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.units import from_millis, to_millis

_ROWS = 10_000  # rows of an Arrow batch

REQUESTS = pa.schema(
    [
        ("place", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("added", pa.int32()),
        ("existing", pa.int32()),
        ("deleted", pa.int32()),
    ]
)
NEEDS = pa.schema(
    [
        ("place", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("need", pa.string()),
        ("target", pa.string()),  # only for files that are copied unchanged
        ("error", pa.string()),
    ]
)
COPIES = pa.schema([("target", pa.string()), ("bytes", pa.int64())])
_PROOF = [
    ("target", pa.string()),
    ("target_bytes", pa.int64()),
    ("sha256", pa.string()),
    ("modified", pa.int64()),  # ms
    ("etag", pa.string()),
]
PROOF = tuple(name for name, _ in _PROOF)
BROUGHT = pa.schema(
    [
        ("place", pa.int64()),
        ("path", pa.string()),
        ("hot_bytes", pa.int64()),
        ("need", pa.string()),
        ("bytes", pa.int64()),
        ("lower", pa.string()),
        ("upper", pa.string()),
        ("is_rewritten", pa.bool_()),
        ("is_new", pa.bool_()),
        *_PROOF,
        ("error", pa.string()),
    ]
)
DOUBTFUL = pa.schema(
    [
        ("place", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("need", pa.string()),
        *_PROOF,  # the recorded proof of the copy; the digest is null if there is none
    ]
)
WRITTEN = pa.schema(
    [
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("files", pa.int64()),
        ("total_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("files_copied", pa.int64()),
        ("bytes_copied", pa.int64()),
        *_PROOF,
        ("error", pa.string()),
    ]
)

Batches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Row = dict[str, Any]
Files = Mapping[NeededFile, CopyProof | None]
"""Files with the recorded proofs of their copies."""


def _row_by_row(work: Callable[[Row], Iterable[Row]], schema: pa.Schema) -> Batches:
    """Runs work that maps each row to rows of a schema."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        return _in_batches((answer for row in rows for answer in work(row)), schema)

    return run


def _file_by_file(work: Callable[[Files], Iterable[FileDone]]) -> Batches:
    """Runs work that maps each file to a result (`BROUGHT`)."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
        for batch in batches:
            requests = batch.to_pylist()
            files = [
                (NeededFile(r["path"], r["bytes"], Need(r["need"])), proof_of(r)) for r in requests
            ]
            for request, done in zip(requests, work(dict(files)), strict=True):
                yield _as_brought(request, done)

    return lambda batches: _in_batches(rows(batches), BROUGHT)


def _in_batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= _ROWS:
            yield pa.RecordBatch.from_pylist(waiting, schema=schema)
            waiting = []
    yield pa.RecordBatch.from_pylist(waiting, schema=schema)


def _ref(row: Row) -> ManifestFile:
    counts = (row["added"], row["existing"], row["deleted"])
    return ManifestFile(row["path"], row["bytes"], *counts)


def read_needs(stores: Stores) -> Batches:
    """Maps manifests (`REQUESTS`) to the files that they need (`NEEDS`), or to an error."""

    def needs(row: Row) -> Iterator[Row]:
        read = needs_of(stores, _ref(row))
        for file in read.files:
            target = stores.target(file.path) if file.need is Need.COPY else None
            yield {"place": row["place"], **asdict(file), "target": target, "error": None}
        if read.error:
            yield {"place": row["place"], "error": read.error}

    return _row_by_row(needs, NEEDS)


def read_named(stores: Stores) -> Batches:
    """Maps paths of cold manifests to their live files (`COPIES`)."""

    def files_named(row: Row) -> Iterator[Row]:
        for target, length in files_there(stores, row["manifest"]):
            yield {"target": target, "bytes": length}

    return _row_by_row(files_named, COPIES)


def bring_files(stores: Stores) -> Batches:
    """Maps files, each with the first manifest that needs it, to copy results (`BROUGHT`)."""
    return _file_by_file(lambda files: bring(stores, files))


def read_files(stores: Stores) -> Batches:
    """Maps existing copies and their proofs (`DOUBTFUL`) to read results (`BROUGHT`)."""
    return _file_by_file(lambda files: read_again(stores, files))


def _as_brought(request: Row, done: FileDone) -> Row:
    return {
        "place": request["place"],
        "path": done.path,
        "hot_bytes": request["bytes"],
        "need": request["need"],
        "bytes": done.bytes,
        "lower": done.lower,
        "upper": done.upper,
        "is_rewritten": done.is_rewritten,
        "is_new": done.is_new,
        **proof_row(done.proof),
        "error": done.error or None,
    }


def proof_row(proof: CopyProof | None) -> Row:
    """Converts a proof to columns; all null without a proof."""
    if proof is None:
        return {}
    return {
        "target": proof.path,
        "target_bytes": proof.bytes,
        "sha256": proof.sha256,
        "modified": to_millis(proof.modified_at),
        "etag": proof.etag,
    }


def proof_of(row: Row) -> CopyProof | None:
    """Converts columns to a proof; None without one."""
    if row.get("sha256") is None:
        return None
    modified = from_millis(row["modified"])
    return CopyProof(row["target"], row["target_bytes"], row["sha256"], modified, row["etag"])


def file_done(row: Row) -> FileDone:
    """Converts a row of `BROUGHT`."""
    return FileDone(
        row["path"],
        row["bytes"],
        row["lower"] or "",
        row["upper"] or "",
        bool(row["is_rewritten"]),
        bool(row["is_new"]),
        proof_of(row),
        row["error"] or "",
    )


def write_manifests(stores: Stores) -> Batches:
    """Maps manifests, with rewritten files or errors, to write results (`WRITTEN`)."""
    return _row_by_row(lambda row: [_as_row(_written(stores, row))], WRITTEN)


def _written(stores: Stores, row: Row) -> ManifestDone:
    if row["error"]:
        return ManifestDone(row["path"], error=row["error"])
    amended = {
        part["path"]: Amended(part["bytes"], part["lower"], part["upper"])
        for part in row["amended"] or ()
    }
    return write_manifest(stores, _ref(row), amended)


def _as_row(done: ManifestDone) -> Row:
    totals = done.totals
    return {
        "path": done.path,
        "bytes": done.bytes,
        "files": totals.files,
        "total_bytes": totals.bytes,
        "rows": totals.rows,
        "files_copied": done.files_copied,
        "bytes_copied": done.bytes_copied,
        **proof_row(done.proof),
        "error": done.error,
    }


def manifest_done(row: Row) -> ManifestDone:
    """Converts a row of `WRITTEN`."""
    return ManifestDone(
        row["path"],
        row["bytes"],
        EntryTotals(row["files"], row["total_bytes"], row["rows"]),
        row["files_copied"],
        row["bytes_copied"],
        proof_of(row),
        row["error"],
    )
