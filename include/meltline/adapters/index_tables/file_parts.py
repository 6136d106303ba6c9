"""Cache of the ledger's files and parts of them, as read from the store; no file ever changes.

`parquet_scan.py` reads through it. It is apart from that because it knows neither Iceberg nor
Parquet.
"""

import io
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Protocol

from meltline.domain.errors import StoreRefused

REMEMBERED = 128 * 1024 * 1024
"""Bytes that are kept in memory."""

_Part = tuple[str, int, int]  # path, start and length in bytes of the part


class NotPlain(Exception):
    """The file cannot be read in this process, whatever the reason: Spark reads it instead."""


class TableFiles(Protocol):
    """The files of the ledger's tables: see `ObjectReader` and `ObjectWriter`."""

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, start: int, length: int) -> bytes: ...

    def write(self, path: str, content: bytes) -> datetime: ...


class FileParts:
    """Parts of files that were read; the oldest are evicted first."""

    def __init__(self, store: TableFiles, remembered: int) -> None:
        """Takes the store, and how many bytes to remember."""
        self._store = store
        self._remembered = remembered
        self._parts: OrderedDict[_Part, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def whole(self, path: str) -> bytes:
        """Reads a complete file from the store, without the cache. Raises NotPlain."""
        return _from_store(lambda: self._store.read(path))

    def held(self, path: str, length: int) -> bytes:
        """Returns a complete file with that length from the cache; empty if it is not cached."""
        return self._parts.get((path, 0, length), b"")

    def fits(self, size: int) -> bool:
        """Whether that many bytes fit into the cache together."""
        return size <= self._remembered

    def keep(self, path: str, start: int, content: bytes) -> None:
        """Caches content that was just written or read."""
        part = (path, start, len(content))
        with self._lock:
            self._size += len(content) - len(self._parts.pop(part, b""))
            self._parts[part] = content
            while self._size > self._remembered:
                self._size -= len(self._parts.popitem(last=False)[1])

    def range(self, path: str, start: int, length: int) -> bytes:
        """Reads a part of a file. Raises NotPlain, also if the file ends before."""
        if content := self._parts.get((path, start, length)):
            return content
        content = _from_store(lambda: self._store.read_range(path, start, length))
        if len(content) != length:
            raise NotPlain
        self.keep(path, start, content)
        return content


class RangedFile(io.RawIOBase):
    """A file object that reads only the requested parts from the store."""

    def __init__(self, parts: FileParts, path: str, length: int) -> None:
        """Takes the file's length as its manifest has it."""
        self._parts = parts
        self._path = path
        self._length = length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (
            offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        )
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Reads the next bytes. Raises NotPlain."""
        left = max(0, self._length - self._at)
        length = left if size < 0 else min(size, left)
        content = self._parts.range(self._path, self._at, length) if length else b""
        self._at += length
        return content


def _from_store(read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except (FileNotFoundError, StoreRefused) as refused:
        raise NotPlain from refused
