"""Creates Meltline's own local files with the permissions that `local-access` allows.

Modes are set explicitly with `chmod`: the umask of the process neither widens nor narrows them.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path


class Access(StrEnum):
    """The setting `local-access` of `meltline.yaml`: who may read and write local files."""

    OWNER = "owner"
    GROUP = "group"

    @property
    def file(self) -> int:
        """Returns the mode of a file."""
        return 0o660 if self is Access.GROUP else 0o600

    @property
    def folder(self) -> int:
        """Returns the mode of a folder; setgid keeps a shared folder in its group."""
        return 0o2770 if self is Access.GROUP else 0o700

    @property
    def closed(self) -> str:
        """Returns the `chmod` argument that removes access for everyone else."""
        return "o-rwx" if self is Access.GROUP else "go-rwx"


def make_folder(folder: Path, access: Access) -> None:
    """Creates a folder and its missing parents; existing folders are not changed.

    Raises:
        OSError: A folder cannot be created.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with suppress(FileExistsError):  # another process created it first
            place.mkdir(0o700)
            place.chmod(access.folder)


def make_file(file: Path, access: Access) -> None:
    """Creates an empty file; an existing one is not changed.

    Raises:
        OSError: The file cannot be created.
    """
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        file.chmod(access.file)


def let_in(path: Path, access: Access, *, folder: bool = False) -> Iterator[str]:
    """Yields permissions of a path wider than `local-access` allows: for `others` or its `group`.

    Parent folders that block access are taken into account.
    """
    try:
        modes = [stat.S_IMODE(above.stat().st_mode) for above in path.resolve().parents]
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    everybody = all(above & stat.S_IXOTH for above in modes)
    members = all(above & (stat.S_IXOTH | stat.S_IXGRP) for above in modes)
    if everybody and mode & 0o007:
        yield f"others may {_may(mode, folder=folder)}"
    if access is Access.OWNER and members and mode & 0o070:
        yield f"its group may {_may(mode >> 3, folder=folder)}"


def _may(bits: int, *, folder: bool) -> str:
    words = [(4, "list" if folder else "read"), (2, "write"), (1, "enter" if folder else "run")]
    return " and ".join(word for bit, word in words if bits & bit)
