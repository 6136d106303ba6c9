"""Compression codecs of Avro blocks, with limits on what decompression may cost (decision 033).

The index's readers use it. Files may be damaged by anyone, and a few kilobytes can decompress
to gigabytes. So no block is decompressed beyond `LARGEST_BLOCK`, a truncated block is an error
instead of a shorter block, and Snappy's checksum is verified.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

LARGEST_BLOCK = 64 * 1024 * 1024  # bytes: writers use 64 KiB; damaged files announce anything
_RAW = -zlib.MAX_WBITS  # Avro's deflate has neither header nor checksum
_SNAPPY_LENGTH = 5  # bytes at most, of seven bits each
_A_PART = 256 * 1024  # bytes of a block that are decompressed at once


class _Unpacker(Protocol):
    """A decompressor with a limit on its output."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, packed: bytes, most: int, /) -> bytes: ...


def pack(codec: str, content: bytes) -> bytes:
    """Compresses a block's bytes."""
    return _CODECS[codec][0](content)


def unpack(codec: str, packed: bytes) -> bytes:
    """Decompresses a block's bytes.

    Raises:
        ValueError: They are more than `LARGEST_BLOCK`, or damaged.
    """
    try:
        return _CODECS[codec][1](packed)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as damaged:  # one per library
        raise ValueError(f"a block of {codec}: {damaged}") from damaged


def is_known(codec: str) -> bool:
    """Returns whether blocks of this codec can be compressed and decompressed."""
    return codec in _CODECS


def _bounded(content: bytes) -> bytes:
    if len(content) > LARGEST_BLOCK:
        raise ValueError(f"a block has more than {LARGEST_BLOCK} bytes")
    return content


def _by(unpacker: Callable[[], _Unpacker]) -> Callable[[bytes], bytes]:
    def unpacked(packed: bytes) -> bytes:
        stream = unpacker()
        content = stream.decompress(packed, LARGEST_BLOCK)
        if not stream.eof:
            raise ValueError("a block's bytes end too early, or are too many")
        return content

    return unpacked


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_RAW)
    return packer.compress(content) + packer.flush()


def _to_snappy(content: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    packed: bytes = pa.compress(content, "snappy", asbytes=True)
    return packed + zlib.crc32(content).to_bytes(4)


def _from_snappy(packed: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    length = 0
    for at, byte in enumerate(packed[:_SNAPPY_LENGTH]):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            break
    else:
        raise ValueError("a block does not say how long it is")
    if length > LARGEST_BLOCK:
        raise ValueError(f"a block has more than {LARGEST_BLOCK} bytes")
    content: bytes = pa.decompress(packed[:-4], length, "snappy", asbytes=True)
    if zlib.crc32(content).to_bytes(4) != packed[-4:]:
        raise ValueError("a block's checksum is wrong")
    return content


def _to_zstandard(content: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly

    packed: bytes = pa.compress(content, "zstd", asbytes=True)
    return packed


def _from_zstandard(packed: bytes) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - starts slowly, and few files use it

    parts, length = [], 0
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        # In parts: the buffer is allocated at the requested size, and kept if damage ends it.
        while length <= LARGEST_BLOCK and (part := stream.read(_A_PART)):
            parts.append(part)
            length += len(part)
    return _bounded(b"".join(parts))


_CODECS: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "null": (bytes, _bounded),
    "deflate": (_deflated, _by(lambda: zlib.decompressobj(_RAW))),
    "bzip2": (bz2.compress, _by(bz2.BZ2Decompressor)),
    "xz": (lzma.compress, _by(lzma.LZMADecompressor)),
    "snappy": (_to_snappy, _from_snappy),
    "zstandard": (_to_zstandard, _from_zstandard),
}
