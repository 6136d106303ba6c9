"""Delete files for cold: other paths, everything else as it was."""

import io
import json
import os
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meltline.adapters.archive.rewriting.delete_files import (
    REWRITABLE,
    rewrite_deletes,
    rewritten_before,
    source_digest,
)
from meltline.domain.archive.cold_paths import mirrored

COLD = "s3://ice/archive"
SOURCE = source_digest("s3://lake/t/d", 10)
HOT = ("s3://lake/t/a", "s3://lake/t/b", "s3://lake/t/b b")
ROWS = [{"file_path": path, "pos": pos} for path in HOT for pos in (0, 3, 2**40)]
COPIES = [{**row, "file_path": mirrored(str(row["file_path"]), COLD)} for row in ROWS]


def ids(number: int) -> dict[bytes, bytes]:
    return {b"PARQUET:field_id": str(number).encode()}


PARQUET = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata=ids(2147483546)),
        pa.field("pos", pa.int64(), nullable=False, metadata=ids(2147483545)),
    ]
)
AVRO = {
    "type": "record",
    "name": "deletes",
    "fields": [
        {"name": "file_path", "type": "string", "field-id": 2147483546},
        {"name": "pos", "type": "long", "field-id": 2147483545},
    ],
}


def parquet(rows: list[dict[str, Any]], **settings: Any) -> bytes:
    made = io.BytesIO()
    with pq.ParquetWriter(made, PARQUET, store_schema=False, **settings) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=PARQUET), row_group_size=4)
        writer.add_key_value_metadata({"delete-type": "position", "iceberg.schema": "{}"})
    return made.getvalue()


def avro(rows: list[dict[str, Any]]) -> bytes:
    made = io.BytesIO()
    fastavro.writer(made, AVRO, rows, codec="deflate", metadata={"delete-type": "position"})
    return made.getvalue()


def puffin(*paths: str, flags: int = 0, kind: str = "deletion-vector-v1") -> bytes:
    blobs, body = [], b"PFA1"
    for number, path in enumerate(paths):
        vector = os.urandom(20 + number)
        blobs.append(
            {
                "type": kind, "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1,
                "offset": len(body), "length": len(vector),
                "properties": {"referenced-data-file": path, "cardinality": "1"},
            }
        )  # fmt: skip
        body += vector
    payload = json.dumps({"blobs": blobs, "properties": {"created-by": "tests"}}).encode()
    end = len(payload).to_bytes(4, "little") + flags.to_bytes(4, "little")
    return body + b"PFA1" + payload + end + b"PFA1"


MAKERS = {
    "PARQUET": lambda: parquet(ROWS),
    "AVRO": lambda: avro(ROWS),
    "PUFFIN": lambda: puffin(*HOT),
}
each_format = pytest.mark.parametrize("file_format", sorted(REWRITABLE))


def test_parquet_keeps_rows_field_ids_compression_and_what_its_writer_said() -> None:
    for compression in ("zstd", "gzip", "none", "snappy"):
        before = parquet(ROWS, compression=compression)
        made = rewrite_deletes("PARQUET", before, SOURCE, COLD)
        old, new = (pq.ParquetFile(pa.BufferReader(b)) for b in (before, made.content))
        assert new.read().to_pylist() == COPIES
        assert new.schema_arrow == old.schema_arrow
        assert [f.metadata for f in new.schema_arrow] == [f.metadata for f in old.schema_arrow]
        assert new.metadata.row_group(0).column(0).compression == (
            old.metadata.row_group(0).column(0).compression
        )
        assert dict(old.metadata.metadata).items() <= dict(new.metadata.metadata).items()


def test_parquet_keeps_the_deleted_rows_that_some_writers_add() -> None:
    struct = pa.struct([pa.field("id", pa.int64(), metadata=ids(1))])
    schema = PARQUET.append(pa.field("row", struct, metadata=ids(2147483544)))
    rows = [{**row, "row": {"id": number}} for number, row in enumerate(ROWS)]
    before = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), before, store_schema=False)
    made = rewrite_deletes("PARQUET", before.getvalue(), SOURCE, COLD)
    found = pq.ParquetFile(pa.BufferReader(made.content))
    assert found.read().column("row").to_pylist() == [row["row"] for row in rows]
    assert found.schema_arrow.field("row").type.field("id").metadata == ids(1)


@pytest.mark.parametrize("file_format", ["PARQUET", "AVRO"])
def test_rows_stay_sorted_where_the_copies_paths_sort_otherwise(file_format: str) -> None:
    paths = ("s3://lake/t/a b", "s3://lake/t/a!b")  # `!` lies before `b`, and its escape behind
    rows = [{"file_path": path, "pos": pos} for path in sorted(paths) for pos in (5, 9)]
    content = parquet(rows) if file_format == "PARQUET" else avro(rows)
    made = rewrite_deletes(file_format, content, SOURCE, COLD)
    found = read(file_format, made.content)
    assert found == sorted(found, key=lambda row: (row["file_path"], row["pos"]))
    assert {row["file_path"] for row in found} == {mirrored(path, COLD) for path in paths}
    assert (made.lower, made.upper) == (found[0]["file_path"], found[-1]["file_path"])


def read(file_format: str, content: bytes) -> list[dict[str, Any]]:
    if file_format == "PARQUET":
        found: list[dict[str, Any]] = pq.read_table(pa.BufferReader(content)).to_pylist()
        return found
    return [row for row in fastavro.reader(io.BytesIO(content)) if isinstance(row, dict)]


def test_avro_keeps_rows_and_header() -> None:
    before = avro(ROWS)
    made = rewrite_deletes("AVRO", before, SOURCE, COLD)
    old, new = (fastavro.reader(io.BytesIO(content)) for content in (before, made.content))
    assert list(new) == COPIES
    assert old.metadata.items() <= new.metadata.items()


def test_vectors_stay_byte_by_byte_where_they_are() -> None:
    before = puffin(*HOT)
    made = rewrite_deletes("PUFFIN", before, SOURCE, COLD)
    start = before.rindex(b"PFA1", 0, len(before) - 4)
    assert made.content[:start] == before[:start]
    footers = [json.loads(content[start + 4 : -12]) for content in (before, made.content)]
    for old, new, path in zip(footers[0]["blobs"], footers[1]["blobs"], HOT, strict=True):
        assert new["properties"].pop("referenced-data-file") == mirrored(path, COLD)
        del old["properties"]["referenced-data-file"]
        assert new == old
    assert footers[0]["properties"].items() <= footers[1]["properties"].items()


@each_format
def test_what_was_rewritten_says_from_what_and_between_which_files(file_format: str) -> None:
    made = rewrite_deletes(file_format, MAKERS[file_format](), SOURCE, COLD)
    assert rewritten_before(file_format, made.content) == made
    assert made.source == SOURCE
    if file_format != "PUFFIN":
        assert (made.lower, made.upper) == (mirrored(HOT[0], COLD), mirrored(HOT[2], COLD))


@each_format
def test_an_original_says_nothing_of_the_kind(file_format: str) -> None:
    assert rewritten_before(file_format, MAKERS[file_format]()).source == ""


@each_format
def test_rewriting_twice_gives_the_same_bytes(file_format: str) -> None:
    content = MAKERS[file_format]()
    one, other = (rewrite_deletes(file_format, content, SOURCE, COLD) for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("file_format", "content"),
    [
        ("PARQUET", parquet(ROWS)[:-9]),
        ("PARQUET", b""),
        ("AVRO", avro(ROWS)[:-9]),
        ("PUFFIN", puffin(*HOT)[:-1]),
        ("PUFFIN", b"x" + puffin(*HOT)),
        ("PUFFIN", puffin(*HOT, flags=1)),
        ("PUFFIN", puffin(*HOT, kind="apache-datasketches-theta-v1")),
        ("PARQUET", parquet([{"file_path": "s3://lake/a/../b", "pos": 1}])),
    ],
    ids=["cut", "empty", "cut", "cut", "begins otherwise", "flags", "another blob", "odd path"],
)
def test_what_cannot_be_rewritten_surely_is_refused(file_format: str, content: bytes) -> None:
    with pytest.raises((ValueError, EOFError, OSError)):
        rewrite_deletes(file_format, content, SOURCE, COLD)


def test_a_file_without_deletes_stays_one() -> None:
    made = rewrite_deletes("PARQUET", parquet([]), SOURCE, COLD)
    assert pq.read_table(pa.BufferReader(made.content)).num_rows == 0
    assert (made.lower, made.upper) == ("", "")
