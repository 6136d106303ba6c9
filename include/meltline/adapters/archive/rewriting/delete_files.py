"""Rewrites delete files that name data files, so that they name the copies in cold.

Position deletes have the paths in a column, deletion vectors in the footer of their Puffin file. A
rewritten file records a digest of the original's path and length. So an existing copy is accepted
or refused without the original.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from meltline.adapters.manifests.avro_container import AvroFile
from meltline.domain.archive.cold_paths import mirrored

SOURCE = "meltline.source"
_LOWER, _UPPER = "meltline.lower", "meltline.upper"
_FILE_PATH_ID = b"2147483546"  # the reserved field of position deletes
_FIELD_ID = b"PARQUET:field_id"
_ARROW_SCHEMA = b"ARROW:schema"
_ROWS = 64 * 1024  # at a time
_PUFFIN = b"PFA1"
_FOOTER_END = 12  # bytes: the payload's length, flags, magic
_NO_FLAGS = bytes(4)
_REFERENCED = "referenced-data-file"
_VECTOR = "deletion-vector-v1"


@dataclass(frozen=True)
class Rewritten:
    """A delete file as it is in cold.

    Attributes:
        content: Its bytes.
        source: The digest that identifies its original.
        lower: The least data file that it names, by cold's path; likewise `upper`. Empty if
            it names none, or names them one by one.
    """

    content: bytes
    source: str
    lower: str = ""
    upper: str = ""


def source_digest(path: str, length: int) -> str:
    """Returns the digest that a rewritten file records; a path of hot must not appear in it."""
    return xxhash.xxh3_128_hexdigest(f"{length} {path}".encode())


# --- position deletes in Parquet ------------------------------------------------------------------


def rewrite_parquet(content: bytes, source: str, warehouse: str) -> Rewritten:
    """Rewrites position deletes in Parquet, with the same columns, ids, order and compression.

    Raises:
        ValueError: It has no column of paths, or one of them cannot be mirrored. pyarrow may
            raise others if it is no Parquet file.
    """
    file = pq.ParquetFile(pa.BufferReader(content))
    column = _path_column(file.schema_arrow)
    paths = _distinct(file, column)
    names = {path: mirrored(path, warehouse) for path in paths}
    lower, upper = min(names.values(), default=""), max(names.values(), default="")
    schema = file.schema_arrow.remove_metadata()
    output = io.BytesIO()
    with pq.ParquetWriter(output, schema, store_schema=False, compression=_codec(file)) as writer:
        for batch in _batches(file, column, names):
            writer.write_batch(batch.replace_schema_metadata(None))
        notes = {SOURCE: source, _LOWER: lower, _UPPER: upper}
        writer.add_key_value_metadata({**_said_of(file), **notes})
    return Rewritten(output.getvalue(), source, lower, upper)


def _said_of(file: pq.ParquetFile) -> dict[str, str]:
    """Returns a file's key-value metadata, without Arrow's own form of the schema."""
    metadata = file.metadata.metadata or {}
    return {key.decode(): text.decode() for key, text in metadata.items() if key != _ARROW_SCHEMA}


def _path_column(schema: pa.Schema) -> str:
    for field in schema:
        if (field.metadata or {}).get(_FIELD_ID) == _FILE_PATH_ID:
            return str(field.name)
    raise ValueError("a position delete file without a column of paths")


def _codec(file: pq.ParquetFile) -> str:
    if not file.metadata.num_row_groups:
        return "zstd"
    codec = str(file.metadata.row_group(0).column(0).compression).lower()
    return "none" if codec == "uncompressed" else codec


def _distinct(file: pq.ParquetFile, column: str) -> set[str]:
    distinct: set[str] = set()
    for batch in file.iter_batches(_ROWS, columns=[column]):
        distinct.update(pc.unique(batch.column(0)).to_pylist())
    return distinct


def _batches(
    file: pq.ParquetFile, column: str, names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows with new paths; sorts them again only if the order of paths changes."""
    at = file.schema_arrow.get_field_index(column)
    turned = (_turned(batch, at, names) for batch in file.iter_batches(_ROWS))
    ordered = [names[path] for path in sorted(names)]
    if ordered == sorted(ordered):
        yield from turned
        return
    table = pa.Table.from_batches(turned)
    order = [(name, "ascending") for name in table.column_names[at : at + 2]]
    yield from table.sort_by(order).to_batches(_ROWS)


def _turned(batch: pa.RecordBatch, at: int, names: Mapping[str, str]) -> pa.RecordBatch:
    coded = batch.column(at).dictionary_encode()
    mapped = pa.array([names[path] for path in coded.dictionary.to_pylist()], pa.string())
    paths = pa.DictionaryArray.from_arrays(coded.indices, mapped).cast(pa.string())
    return batch.set_column(at, batch.schema.field(at), paths)


def _described_parquet(content: bytes) -> Mapping[str, str]:
    return _said_of(pq.ParquetFile(pa.BufferReader(content)))


# --- position deletes in Avro ---------------------------------------------------------------------


def rewrite_avro(content: bytes, source: str, warehouse: str) -> Rewritten:
    """Rewrites position deletes in Avro. Raises as `rewrite_parquet` and `AvroFile` do."""
    file = AvroFile.read(content)
    rows = list(file.records())
    for row in rows:
        row["file_path"] = mirrored(row["file_path"], warehouse)
    rows.sort(key=lambda row: (row["file_path"], row["pos"]))
    lower, upper = (rows[0]["file_path"], rows[-1]["file_path"]) if rows else ("", "")
    notes = {SOURCE: source, _LOWER: lower, _UPPER: upper}
    new = file.with_records(rows, {key: text.encode() for key, text in notes.items()})
    return Rewritten(new, source, lower, upper)


def _described_avro(content: bytes) -> Mapping[str, str]:
    header = AvroFile.read(content).header
    return {key: text.decode(errors="replace") for key, text in header.items()}


# --- deletion vectors -----------------------------------------------------------------------------


def rewrite_vectors(content: bytes, source: str, warehouse: str) -> Rewritten:
    """Rewrites a Puffin file of deletion vectors; each blob keeps its bytes and offset.

    Raises:
        ValueError: It is no Puffin file, its footer is compressed, or it has other blobs.
    """
    start, footer = _footer(content)
    for blob in footer["blobs"]:
        if blob["type"] != _VECTOR:
            raise ValueError(f"a blob of type {blob['type']} among deletion vectors")
        properties = blob["properties"]
        properties[_REFERENCED] = mirrored(properties[_REFERENCED], warehouse)
    footer["properties"] = {**(footer.get("properties") or {}), SOURCE: source}
    payload = json.dumps(footer).encode()
    end = len(payload).to_bytes(4, "little") + _NO_FLAGS + _PUFFIN
    return Rewritten(content[:start] + _PUFFIN + payload + end, source)


def _footer(content: bytes) -> tuple[int, dict[str, Any]]:
    """Returns the footer's offset and content."""
    end = content[-_FOOTER_END:]
    length = int.from_bytes(end[:4], "little", signed=True)
    start = len(content) - _FOOTER_END - length - len(_PUFFIN)
    is_puffin = content[:4] == end[8:] == _PUFFIN
    if not is_puffin or length < 0 or content[start : start + 4] != _PUFFIN:
        raise ValueError("not a Puffin file")
    if end[4:8] != _NO_FLAGS:
        raise ValueError("a Puffin file whose footer is compressed")
    footer = json.loads(content[start + 4 : start + 4 + length])
    return start, footer


def _described_vectors(content: bytes) -> Mapping[str, str]:
    _, footer = _footer(content)
    return {str(key): str(text) for key, text in (footer.get("properties") or {}).items()}


# --- all formats ----------------------------------------------------------------------------------

Rewrite = Callable[[bytes, str, str], Rewritten]
_REWRITES: Mapping[str, tuple[Rewrite, Callable[[bytes], Mapping[str, str]]]] = {
    "PARQUET": (rewrite_parquet, _described_parquet),
    "AVRO": (rewrite_avro, _described_avro),
    "PUFFIN": (rewrite_vectors, _described_vectors),
}
REWRITABLE = frozenset(_REWRITES)
"""Formats of delete files whose paths can be rewritten."""


def rewrite_deletes(file_format: str, content: bytes, source: str, warehouse: str) -> Rewritten:
    """Rewrites a delete file for cold.

    Args:
        file_format: The format in its manifest, in capitals; one of `REWRITABLE`.
        content: The original.
        source: The original's digest.
        warehouse: The folder of the cold catalog.

    Raises:
        Exception: Its content does not match its format; whatever the format's library raises.
    """
    rewrite, _ = _REWRITES[file_format]
    return rewrite(content, source, warehouse)


def same_deletes(file_format: str, content: bytes, peer: bytes) -> bool:
    """Returns whether two rewritten delete files are equal, whichever version wrote them."""
    try:
        return content == peer or _rows_of(file_format, content) == _rows_of(file_format, peer)
    except Exception:  # libraries report damage in many ways
        return False


def _rows_of(file_format: str, content: bytes) -> object:
    """Returns the content of a delete file; for Puffin its bytes, which must all be equal."""
    if file_format == "PARQUET":
        return pq.read_table(pa.BufferReader(content))
    return list(AvroFile.read(content).records()) if file_format == "AVRO" else content


def rewritten_before(file_format: str, content: bytes) -> Rewritten:
    """Reads a rewritten delete file that is in cold already. Raises as `rewrite_deletes` does."""
    _, describe = _REWRITES[file_format]
    notes = describe(content)
    return Rewritten(content, notes.get(SOURCE, ""), notes.get(_LOWER, ""), notes.get(_UPPER, ""))
