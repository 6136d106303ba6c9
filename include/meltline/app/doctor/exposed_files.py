"""What others may read that Meltline has written on local disk, or was told in a file."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from meltline.access import let_in
from meltline.config.load import Config


@dataclass(frozen=True)
class OpenFile:
    """A file or folder that lets in whom it should not.

    Attributes:
        who: Whom, and for what.
        fix: The line that closes it.
    """

    path: Path
    who: str
    fix: str


def open_files(config: Config) -> Iterator[OpenFile]:
    """The control ledger, pages of gates, and `meltline.yaml` where a secret stands in it."""
    for path in _own(config):
        yield from _opened(path, config)
    yield from _opened(config.docs_folder, config, folder=True)


def _own(config: Config) -> Iterator[Path]:
    database = unquote(config.control.partition(":///")[2].partition("?")[0])
    if database and config.control.startswith("sqlite"):
        yield from (Path(f"{database}{part}") for part in ("", "-wal", "-shm"))
    if _holds_a_secret(config):
        yield config.path


def _holds_a_secret(config: Config) -> bool:
    try:
        text = config.path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(secret in text for secret in config.secrets)


def _opened(path: Path, config: Config, *, folder: bool = False) -> Iterator[OpenFile]:
    who = " and ".join(let_in(path, config.local_access, folder=folder))
    if who:
        words = ["chmod", *(["-R"] if folder else []), config.local_access.closed, str(path)]
        yield OpenFile(path, who, shlex.join(words))
