"""Permissions of the files that Meltline writes on local disk for itself.

Modes are set and not merely asked for: a mask of the process neither opens nor closes anything.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path


class Access(StrEnum):
    """`local-access` of `meltline.yaml`."""

    OWNER = "owner"
    GROUP = "group"

    @property
    def file(self) -> int:
        """The mode of a file."""
        return 0o660 if self is Access.GROUP else 0o600

    @property
    def folder(self) -> int:
        """The mode of a folder; what a group shares stays the group's, whoever makes it."""
        return 0o2770 if self is Access.GROUP else 0o700

    @property
    def closed(self) -> str:
        """What `chmod` is told to keep all others out."""
        return "o-rwx" if self is Access.GROUP else "go-rwx"


def make_folder(folder: Path, access: Access) -> None:
    """Makes a folder and those above it that are missing; one that is there stays as it is.

    Raises:
        OSError: It cannot be made.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            place.mkdir(0o700)
            place.chmod(access.folder)


def make_file(file: Path, access: Access) -> None:
    """Makes an empty file; one that is there stays as it is.

    Raises:
        OSError: It cannot be made.
    """
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        file.chmod(access.file)


def let_in(path: Path, access: Access, *, folder: bool = False) -> Iterator[str]:
    """Whom a file or folder lets in that should not be: `others`, `group`, and for what.

    Folders above it that keep somebody out are taken into account.
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
