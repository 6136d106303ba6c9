"""Crash-safe writes of local files: complete, read again and synced before they get their name.

`local` calls it, and the archive batches many files through `Together`.
"""

import ctypes
import fcntl
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import BinaryIO, Self
from uuid import uuid4

import xxhash

_PART = 4 * 1024 * 1024
_MOUNTS = Path("/proc/self/mountinfo")
_SYNCED_WHOLE = frozenset(("ext4", "xfs"))
"""File systems whose `syncfs` is known to do for all files what `fsync` does for one."""
_TELLS_ERRORS = (5, 8)  # the first Linux whose `syncfs` reports a failed write

Fill = Callable[[BinaryIO], object]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A complete file that has no final name yet."""

    path: str  # as requested
    unfinished: str
    target: str


class Together:
    """Local files that are synced together, and get their names then.

    Syncing each small file costs several times what writing it costs. If the file system cannot
    be synced as a whole, or would not report a failure, each file is synced alone. Several threads
    may use one until it is settled. Files that were not settled are deleted.

    Args:
        sync: Makes the file system of an open file write everything to disk, or raises OSError.
        devices: The devices on which this is reliable.
    """

    def __init__(
        self,
        sync: Callable[[int], None] | None = None,
        devices: Collection[int] | None = None,
    ) -> None:
        self._sync = sync or _sync_whole
        self._drafts: list[_Draft] = []
        self._folders: dict[str, bool] = {}
        self._devices: dict[int, int] = {}  # each with a descriptor opened before the files
        self._joint = _synced_whole() if devices is None else devices
        self._guard = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, odd: BaseException | None, at: TracebackType | None
    ) -> None:
        for draft in self._drafts:
            _take_away(draft.unfinished)
        for descriptor in self._devices.values():
            os.close(descriptor)

    def takes(self, folder: str) -> bool:
        """Returns whether files of a folder can be synced together. Call it before writing one."""
        if folder not in self._folders:
            with self._guard:
                device = os.stat(folder).st_dev  # noqa: PTH116
                joint = device in self._joint
                if joint and device not in self._devices:
                    self._devices[device] = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                self._folders[folder] = joint
        return self._folders[folder]

    def add(self, path: str, unfinished: str, target: str) -> None:
        """Adds a complete file."""
        self._drafts.append(_Draft(path, unfinished, target))

    def settle(self) -> Mapping[str, str]:
        """Syncs, names the files, and syncs their names.

        Returns:
            Why files have no name, by the requested path.
        """
        drafts, self._drafts = self._drafts, []
        failures = self._synced(drafts)
        for draft in drafts:
            try:
                if draft.path not in failures:
                    os.replace(draft.unfinished, draft.target)  # noqa: PTH105 - many
            except OSError as error:
                failures[draft.path] = str(error)
            if draft.path in failures:
                _take_away(draft.unfinished)
        return failures | self._synced(drafts)

    def _synced(self, drafts: Iterable[_Draft]) -> dict[str, str]:
        try:
            for descriptor in self._devices.values():
                self._sync(descriptor)
        except OSError as error:
            return {draft.path: f"the disk does not hold it: {error}" for draft in drafts}
        return {}


def write_whole(path: str, target: str, fill: Fill, together: Together | None = None) -> None:
    """Writes a file under a temporary name, and renames it when it is complete and on disk.

    Args:
        path: The requested path.
        target: The file's final name.
        fill: Writes the content.
        together: The batch that it is synced and named with; None syncs and names it now.

    Raises:
        OSError: It cannot be written.
    """
    folder = target.rpartition("/")[0]
    if not os.path.isdir(folder):  # noqa: PTH112 - many
        Path(folder).mkdir(parents=True, exist_ok=True)
    is_joint = together is not None and together.takes(folder)
    unfinished = f"{folder}/.meltline-{uuid4()}"
    try:
        with open(unfinished, "x+b") as file:  # noqa: PTH123 - many
            fill(file)
            file.flush()
            if not is_joint:
                os.fsync(file.fileno())
        if together is not None and is_joint:
            together.add(path, unfinished, target)
        else:
            os.replace(unfinished, target)  # noqa: PTH105
    except BaseException:
        _take_away(unfinished)
        raise


def swap_file(file: str, content: bytes, expected: bytes | None) -> bool:
    """Replaces a local file's content under a lock. See `ObjectWriter.swap`.

    Raises:
        OSError: It could not be read or written.
    """
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    with _locked(f"{file}.lock"):
        held = Path(file).read_bytes() if Path(file).exists() else None
        if held != expected:
            return False
        write_whole(file, file, lambda draft: draft.write(content))
    return True


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Holds a lock file. The file is kept: deleting it could delete one that another run holds."""
    with Path(name).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pour(file: BinaryIO, parts: Iterable[bytes]) -> str:
    """Writes all parts; returns their digest."""
    digest = xxhash.xxh3_128()
    for part in parts:
        digest.update(part)
        file.write(part)
    return digest.hexdigest()


def require_same(file: BinaryIO, expected: str) -> None:
    """Reads a file that was just written, and compares it with the digest of what was sent."""
    file.flush()
    file.seek(0)
    digest = xxhash.xxh3_128()
    while part := file.read(_PART):
        digest.update(part)
    if digest.hexdigest() != expected:
        raise OSError("what was written is not what was sent")


def _take_away(unfinished: str) -> None:
    with suppress(FileNotFoundError):
        Path(unfinished).unlink()


def _synced_whole() -> frozenset[int]:
    """Returns the devices of file systems that can be synced at once; empty if that is unknown."""
    try:
        release = tuple(int(number) for number in os.uname().release.split(".")[:2])
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except (OSError, ValueError):
        return frozenset()
    if release < _TELLS_ERRORS:
        return frozenset()
    typed = ((mount[2], mount[mount.index("-") + 1]) for mount in mounts)
    return frozenset(_device(number) for number, kind in typed if kind in _SYNCED_WHOLE)


def _device(number: str) -> int:
    major, _, minor = number.partition(":")
    return os.makedev(int(major), int(minor))


def _sync_whole(descriptor: int) -> None:
    """Makes a file system write everything to disk. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
