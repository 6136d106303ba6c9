"""Manifests as PyIceberg writes them: each entry is a block of its own, deflated."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro


def one_entry_a_block(metadata: Path) -> None:
    """Rewrites the manifests and manifest lists of a folder in place, the lists with new lengths.

    Their entries stay as they are. PyIceberg writes no checksum files, so none is left.
    """
    _rewrite_all(metadata, "deflate", 1)


def uncompressed(metadata: Path) -> None:
    """The same, but in large blocks that are not compressed: names in them can be replaced."""
    _rewrite_all(metadata, "null", 16_000)


def _rewrite_all(metadata: Path, codec: str, interval: int) -> None:
    lists = set(metadata.glob("snap-*.avro"))
    lengths: dict[str, int] = {}
    for manifest in set(metadata.glob("*.avro")) - lists:
        lengths[manifest.name] = _rewrite(manifest, *_read(manifest), codec, interval)
    for file in lists:
        header, rows = _read(file)
        for row in rows:
            row["manifest_length"] = lengths[row["manifest_path"].rpartition("/")[2]]
        _rewrite(file, header, rows, codec, interval)


def _read(file: Path) -> tuple[dict[str, str], list[Any]]:
    with file.open("rb") as content:
        reader = fastavro.reader(content)
        return reader.metadata, list(reader)


def _rewrite(
    file: Path, header: dict[str, str], rows: Iterable[Any], codec: str, interval: int
) -> int:
    """Writes rows to a file, in blocks of so many bytes or one row, and returns its length."""
    schema = json.loads(header["avro.schema"])
    others = {key: text for key, text in header.items() if not key.startswith("avro.")}
    content = io.BytesIO()
    fastavro.writer(content, schema, rows, codec, sync_interval=interval, metadata=others)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return file.write_bytes(content.getbuffer())
