"""Files of the local file system, spelled exactly as Iceberg wrote their paths.

`stores` calls it for local paths. It uses the standard library, because obstore's local store
failed in tests. That one neither lists nor opens a name that ends in `#` and digits, and it takes
a trailing `|` for a folder. One link loop or unusual name makes its whole listing fail.
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
_A_FEW_NAMES = 8  # of one folder: checked one by one
_SHOWN = 4  # names of a listing that cost as much as one check
_FEW = 200  # files that one thread handles before others have started

Answer = TypeVar("Answer", ObjectStat, DeleteOutcome)


class LocalFiles:
    """Implements the object-store port over local files: `/x`, `file:/x`, `file:///x`."""

    def read(self, path: str) -> bytes:
        """Returns the whole file.

        Raises:
            FileNotFoundError: There is no such file.
            StoreRefused: It cannot be read for another reason.
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
        """Returns the first bytes of a file, and its size. Raises as `read` does."""
        try:
            with open_regular(_local_name(path)) as file:
                return Prefix(file.read(length), os.fstat(file.fileno()).st_size)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except (OSError, ValueError) as error:
            raise _refused("read", path, error) from error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Returns a part of a file; less if the file ends before. Raises as `read` does."""
        try:
            with open_regular(_local_name(path)) as file:
                file.seek(start)
                return file.read(length)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(path) from None
        except (OSError, ValueError) as error:
            raise _refused("read", path, error) from error

    def size(self, path: str) -> int | None:
        """Returns its length in bytes, None if there is none. Raises StoreRefused otherwise."""
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
        """Returns True: every file that was written from parts has been read again."""
        return True

    def write(self, path: str, content: bytes) -> datetime:
        """Writes a file in one step, so that no reader sees half of it; returns its time."""
        target = self._written(path, lambda file: file.write(content))
        return _time(os.stat(target))  # noqa: PTH116

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Replaces a file if it has the expected content. See the port."""
        try:
            return swap_file(_changeable_name(path), content, expected)
        except (OSError, ValueError) as error:
            raise _refused("write", path, error) from error

    def stream(self, path: str) -> Iterator[bytes]:
        """Yields the file in parts. Raises as `read` does."""
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
        """Yields every file under a folder, at any depth, including hidden ones.

        Links are skipped: their targets have other names, by which they may be referenced.
        """
        folders = [prefix.rstrip("/") + "/"]
        while folders:
            spelled = folders.pop()
            for node in _entries(spelled):
                if node.is_dir(follow_symlinks=False):
                    folders.append(f"{spelled}{node.name}/")
                elif node.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # deleted since the listing
                        status = node.stat(follow_symlinks=False)
                        yield StoredObject(spelled + node.name, status.st_size, _time(status))

    def names(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the names of the files and of the folders in a folder, without measuring them."""
        files: list[str] = []
        folders: list[str] = []
        for node in _entries(folder):
            if node.is_dir(follow_symlinks=False):
                folders.append(node.name)
            elif node.is_file(follow_symlinks=False):
                files.append(node.name)
        return files, folders

    def measure(self, path: str) -> StoredObject | None:
        """Returns a file as a listing would; None if a listing would not show it."""
        try:
            status = os.lstat(_local_name(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise _refused("measure", path, error) from error
        is_file = stat.S_ISREG(status.st_mode)
        return StoredObject(path, status.st_size, _time(status)) if is_file else None

    def real_path(self, path: str) -> str:
        """Returns the path with links resolved, as far as it exists."""
        try:
            return f"file://{os.path.realpath(_local_name(path))}"
        except (OSError, ValueError) as error:
            raise _refused("resolve", path, error) from error

    def identity(self, path: str) -> str:
        """Returns the number of its inode; the path itself if it does not exist.

        Without the device, because one folder, mounted twice over a network, may have two.
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
        """Returns whether it is a symbolic link; False if it does not or cannot exist."""
        try:
            return stat.S_ISLNK(os.lstat(split_location(path).path).st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                return False
            raise _refused("resolve", path, error) from error

    def links_among(self, paths: Sequence[str]) -> Iterator[str]:
        """Yields the paths, all of one folder, that are symbolic links.

        A listing covers many names at once. One that shows mostly other names is stopped, and names
        that it has not shown, or not in this spelling, are checked one by one.
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
        """Deletes files, each with Hadoop's checksum file beside it; one result per path.

        Several at a time, because a disk answers slowly for a folder it has not read lately.
        """
        return _in_shares(_delete, paths)

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """Returns the states of many paths; for a link, of the link itself."""
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
        if os.access(side, os.F_OK, follow_symlinks=False):  # most have none: checking is cheaper
            _unlink(side)
    except (OSError, ValueError, StoreRefused) as error:
        return DeleteOutcome(path, str(error))
    return DeleteOutcome(path)


def _unlink(file: str) -> None:
    """Deletes a file if it exists. Takes text: building a Path costs as much as the delete."""
    try:
        os.unlink(file)  # noqa: PTH108
    except (FileNotFoundError, NotADirectoryError):
        return


def _entries(spelled: str) -> list[os.DirEntry[str]]:
    """Returns the entries of a folder, without names that no path can spell."""
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
    """Opens a regular file for reading; does not wait for others, such as a pipe.

    Raises:
        OSError: It is not a regular file, or cannot be opened.
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
    """Returns a path that may be written or deleted; with `..` a link leads to another file."""
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
