"""Files of the local file system, spelled exactly as Iceberg wrote their paths.

The standard library rather than obstore's local store, because of what that one was seen to do:
it neither lists nor opens a name that ends in `#` and digits, it takes a trailing `|` for a
folder, and one link loop or odd name anywhere makes a whole listing fail.
"""

import errno
import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from meltline.adapters.object_store.local_writes import (
    Fill,
    Together,
    pour,
    require_same,
    swap_file,
    write_whole,
)
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.locations import split_location
from meltline.ports import DeleteOutcome, ObjectStat, Prefix, StoredObject

_log = logging.getLogger(__name__)
_PART = 4 * 1024 * 1024
_THREADS = 8
_NO_FILE = "it is no regular file"
_A_FEW_NAMES = 8  # of a folder: they are asked for by name
_SHOWN = 4  # names that a listing shows while one is asked for by name
_FEW = 200  # files that one thread deletes before others have started

Answer = TypeVar("Answer", ObjectStat, DeleteOutcome)


class LocalFiles:
    """The object-store port over local files: `/x`, `file:/x`, `file:///x`."""

    def read(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: It is not there.
            StoreRefused: Any other reason.
        """
        try:
            with open_regular(_local_name(path)) as file:
                return file.read()
        except NotADirectoryError:
            raise FileNotFoundError(path) from None
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise _refused("read", path, error) from error

    def read_prefix(self, path: str, length: int) -> Prefix:
        """The first bytes of a file, and its size. Raises as `read` does."""
        try:
            with open_regular(_local_name(path)) as file:
                return Prefix(file.read(length), os.fstat(file.fileno()).st_size)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except (OSError, ValueError) as error:
            raise _refused("read", path, error) from error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """A part of a file; less where it ends before. Raises as `read` does."""
        try:
            with open_regular(_local_name(path)) as file:
                file.seek(start)
                return file.read(length)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except (OSError, ValueError) as error:
            raise _refused("read", path, error) from error

    def size(self, path: str) -> int | None:
        """Its length in bytes, None when it is not there. Raises StoreRefused otherwise."""
        try:
            status = os.stat(_local_name(path))  # noqa: PTH116 - many
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise _refused("measure", path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise _refused("measure", path, OSError(_NO_FILE))
        return status.st_size

    def proves_writes(self, path: str) -> bool:
        """A file that was written from parts has been read again."""
        return True

    def write(self, path: str, content: bytes) -> datetime:
        """Writes a file in one step, so that nobody reads half of it; returns its time."""
        target = self._written(path, lambda file: file.write(content))
        return _time(os.stat(target))  # noqa: PTH116

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Writes a file if it holds what is expected. See the port."""
        try:
            return swap_file(_changeable_name(path), content, expected)
        except (OSError, ValueError) as error:
            raise _refused("write", path, error) from error

    def stream(self, path: str) -> Iterator[bytes]:
        """The file in parts. Raises as `read` does."""
        try:
            with open_regular(_local_name(path)) as file:
                while part := file.read(_PART):
                    yield part
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except (OSError, ValueError) as error:
            raise _refused("read", path, error) from error

    def write_stream(
        self, path: str, parts: Iterable[bytes], together: Together | None = None
    ) -> None:
        """Writes a file from parts, and reads it again before it gets its name. See the port."""
        self._written(path, lambda file: require_same(file, pour(file, parts)), together)

    def _written(self, path: str, fill: Fill, together: Together | None = None) -> str:
        try:
            target = _changeable_name(path)
            write_whole(path, target, fill, together)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise _refused("write", path, error) from error
        return target

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every file under a folder, at any depth, the hidden ones too.

        Links are passed over: what they lead to has another name, by which it may be needed.
        """
        folders = [prefix.rstrip("/") + "/"]
        while folders:
            spelled = folders.pop()
            for node in _entries(spelled):
                if node.is_dir(follow_symlinks=False):
                    folders.append(f"{spelled}{node.name}/")
                elif node.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # gone since it was listed
                        status = node.stat(follow_symlinks=False)
                        yield StoredObject(spelled + node.name, status.st_size, _time(status))

    def names(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """The names of the files and of the folders right in a folder; nothing is measured."""
        files: list[str] = []
        folders: list[str] = []
        for node in _entries(folder):
            if node.is_dir(follow_symlinks=False):
                folders.append(node.name)
            elif node.is_file(follow_symlinks=False):
                files.append(node.name)
        return files, folders

    def measure(self, path: str) -> StoredObject | None:
        """A file as a listing would show it; None when it would not."""
        try:
            status = os.lstat(_local_name(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise _refused("measure", path, error) from error
        is_file = stat.S_ISREG(status.st_mode)
        return StoredObject(path, status.st_size, _time(status)) if is_file else None

    def real_path(self, path: str) -> str:
        """The path without links, as far as it is there."""
        try:
            return f"file://{os.path.realpath(_local_name(path))}"
        except (OSError, ValueError) as error:
            raise _refused("resolve", path, error) from error

    def identity(self, path: str) -> str:
        """The number of its inode; the path itself where nothing is there.

        Without the device: one folder, mounted twice over a network, may have two.
        """
        try:
            return f"inode {os.stat(split_location(path).path).st_ino}"  # noqa: PTH116 - many
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return path
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return path
            raise _refused("resolve", path, error) from error

    def is_link(self, path: str) -> bool:
        """Whether it is a symbolic link. What is not there, or cannot be, is none."""
        try:
            return stat.S_ISLNK(os.lstat(split_location(path).path).st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return False
            raise _refused("resolve", path, error) from error

    def links_among(self, paths: Sequence[str]) -> Iterator[str]:
        """Those of some names, all of one folder, that are symbolic links.

        A listing tells of many names at once. One that shows mostly others is given up; what it has
        not shown, or not by this spelling, is asked for by name.
        """
        unseen = {path.rpartition("/")[2]: path for path in paths}
        if len(unseen) > _A_FEW_NAMES:
            folder = split_location(paths[0].rpartition("/")[0] + "/").path
            with suppress(OSError, ValueError), os.scandir(folder) as nodes:
                for node in islice(nodes, _SHOWN * len(unseen)):
                    if node.name in unseen:
                        is_link = node.is_symlink()
                        path = unseen.pop(node.name)
                        if is_link:
                            yield path
        yield from filter(self.is_link, unseen.values())

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes files, each with Hadoop's checksum file beside it, an outcome per path.

        Several at a time: a disk that has not seen a folder lately answers late.
        """
        return _in_shares(_delete, paths)

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """What lies under many paths now; of a link, the link."""
        return _in_shares(_stat, paths)


def _in_shares(work: Callable[[str], Answer], paths: Sequence[str]) -> list[Answer]:
    def worked(share: Sequence[str]) -> list[Answer]:
        return [work(path) for path in share]

    if len(paths) <= _FEW:
        return worked(paths)
    size = -(-len(paths) // _THREADS)
    shares = [paths[at : at + size] for at in range(0, len(paths), size)]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [answer for answers in pool.map(worked, shares) for answer in answers]


def _stat(path: str) -> ObjectStat:
    try:
        status = os.lstat(_local_name(path))
    except (FileNotFoundError, NotADirectoryError):
        return ObjectStat(path)
    except (OSError, ValueError, StoreRefused) as error:
        return ObjectStat(path, error=str(error))
    if stat.S_ISDIR(status.st_mode):
        return ObjectStat(path, error="a folder lies there")
    file = StoredObject(path, status.st_size, _time(status))
    return ObjectStat(path, file, is_link=stat.S_ISLNK(status.st_mode))


def _delete(path: str) -> DeleteOutcome:
    try:
        file = _changeable_name(path)
        folder, _, name = file.rpartition("/")
        _unlink(file)
        side = f"{folder}/.{name}.crc"
        if os.access(side, os.F_OK, follow_symlinks=False):  # most have none: to ask is cheaper
            _unlink(side)
    except (OSError, ValueError, StoreRefused) as error:
        return DeleteOutcome(path, str(error))
    return DeleteOutcome(path)


def _unlink(file: str) -> None:
    """Deletes a file if it is there. Text, not paths: objects of them cost as much as the deed."""
    try:
        os.unlink(file)  # noqa: PTH108
    except (FileNotFoundError, NotADirectoryError):
        return


def _entries(spelled: str) -> list[os.DirEntry[str]]:
    """What lies in a folder, without names that no path can spell."""
    try:
        with os.scandir(_local(spelled)) as scan:
            entries = list(scan)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        raise _refused("list", spelled, error) from error
    misnamed = [node for node in entries if not node.name.isascii() and not _is_text(node.name)]
    for node in misnamed:
        _log.warning("passed over, as its name is not UTF-8: %r", node.path)
    return [node for node in entries if node not in misnamed] if misnamed else entries


def open_regular(file: str) -> BinaryIO:
    """Opens a file to read it; what is none, such as a pipe, is not waited for.

    Raises:
        OSError: It is no regular file, or cannot be opened.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise OSError(_NO_FILE) from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(_NO_FILE)


def _local(path: str) -> Path:
    return Path(_local_name(path))


def _local_name(path: str) -> str:
    location = split_location(path)
    if location.scheme != "file" or location.authority or not location.path.startswith("/"):
        raise StoreRefused(
            f"{path} does not name a local file",
            object=path,
            expected="an absolute path, bare or after file:",
            found=path,
            next="have the table's location corrected; until then its files are kept",
        )
    return location.path


def _changeable_name(path: str) -> str:
    """A path that may be written or deleted: through `..` a link leads to another file."""
    file = _local_name(path)
    if ".." in file.split("/") or path.endswith("/"):
        raise StoreRefused(
            f"{path} may name different files to different readers, so it is left alone",
            object=path,
            expected="a path of a file, without '..'",
            found=path,
            next="move the table to a location without '..'",
        )
    return file


def _refused(action: str, path: str, error: Exception) -> StoreRefused:
    reason = getattr(error, "strerror", None) or str(error)
    return StoreRefused(
        f"cannot {action} {path}: {reason}",
        object=path,
        expected=f"a file this user may {action}",
        found=str(reason),
        next="check the disk and the permissions, then run again",
    )


def _time(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime, UTC)


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
