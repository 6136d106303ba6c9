"""Writes small objects on the condition that they still hold what was read."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from meltline.adapters.object_store.cloud import CloudStore
from meltline.adapters.object_store.local_writes import write_whole

if TYPE_CHECKING:  # obstore keeps this name in its stubs alone
    from obstore import UpdateVersion


def swap(store: CloudStore, key: str, content: bytes, expected: bytes | None) -> bool:
    """Writes an object by one conditional request. See `ObjectWriter.swap`.

    A store that offers no conditional writes is read before and after an ordinary one.
    """
    try:
        found = obstore.get(store, key)
        held, version = bytes(found.bytes()), found.meta
    except FileNotFoundError:
        held, version = None, None
    if held != expected:
        return False
    mode: Literal["create"] | UpdateVersion = "create"
    if version is not None:
        stated = {"e_tag": version["e_tag"], "version": version["version"]}
        mode = {name: text for name, text in stated.items() if text}  # type: ignore[assignment]
    try:
        obstore.put(store, key, content, mode=mode, use_multipart=False)
    except (AlreadyExistsError, PreconditionError):
        return False
    except (NotImplementedError, BaseError) as error:
        if not _offers_none(error):
            raise
        obstore.put(store, key, content, use_multipart=False)
        return bytes(obstore.get(store, key).bytes()) == content
    return True


def _offers_none(error: Exception) -> bool:
    """Whether a store, or its client, knows no conditional writes."""
    return isinstance(error, NotImplementedError) or "NotImplemented" in str(error)


def swap_file(file: str, content: bytes, expected: bytes | None) -> bool:
    """Writes a local file while nobody else can. See `ObjectWriter.swap`.

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
    """Holds a lock file. It stays: who took it away could take one that somebody else holds."""
    with Path(name).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
