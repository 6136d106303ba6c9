"""Files of the ledger and parts of them, read from the store and remembered: none ever changes."""

import io
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Protocol

from meltline.domain.errors import StoreRefused

REMEMBERED = 128 * 1024 * 1024
"""Bytes that are kept in memory."""

_Part = tuple[str, int, int]  # a path, where the part begins, and how many bytes it has


class NotPlain(Exception):
    """This is not to be read here, for a reason that matters to nobody: Spark reads it."""


class TableFiles(Protocol):
    """The files of the ledger's tables: see `ObjectReader` and `ObjectWriter`."""

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, start: int, length: int) -> bytes: ...

    def write(self, path: str, content: bytes) -> datetime: ...


class FileParts:
    """What was read of files; what was not asked for the longest is forgotten first."""

    def __init__(self, store: TableFiles, remembered: int) -> None:
        """Takes the store, and how many bytes to remember."""
        self._store = store
        self._remembered = remembered
        self._parts: OrderedDict[_Part, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def whole(self, path: str) -> bytes:
        """A file that is not remembered. Raises NotPlain."""
        return _from_store(lambda: self._store.read(path))

    def held(self, path: str, length: int) -> bytes:
        """A whole file of that length if it is remembered, else nothing."""
        return self._parts.get((path, 0, length), b"")

    def fits(self, size: int) -> bool:
        """Whether so many bytes can be remembered together."""
        return size <= self._remembered

    def keep(self, path: str, start: int, content: bytes) -> None:
        """Remembers what was written or read just now."""
        part = (path, start, len(content))
        with self._lock:
            self._size += len(content) - len(self._parts.pop(part, b""))
            self._parts[part] = content
            while self._size > self._remembered:
                self._size -= len(self._parts.popitem(last=False)[1])

    def range(self, path: str, start: int, length: int) -> bytes:
        """A part of a file. Raises NotPlain, also where the file ends before."""
        if content := self._parts.get((path, start, length)):
            return content
        content = _from_store(lambda: self._store.read_range(path, start, length))
        if len(content) != length:
            raise NotPlain
        self.keep(path, start, content)
        return content


class RangedFile(io.RawIOBase):
    """A file of which only what is asked for is read from the store."""

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
        """The next bytes. Raises NotPlain."""
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
