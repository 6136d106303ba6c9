"""Protocols of object storage: reading, writing, listing and deleting objects.

`app` and other adapters call them; `adapters/object_store` implements them. Each capability has
its own protocol, so a signature shows which steps can write or delete.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.departed import DepartedObject


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing. `path` is spelled as Iceberg would write it under that prefix.

    Attributes:
        etag: The store's name for this version; it is no digest. Empty if the store has none.
        is_version: Whether the store keeps it as a version, so that a delete would leave its
            bytes there. False also where listings and some stores do not report it.
    """

    path: str
    bytes: int
    modified_at: datetime
    etag: str = ""
    is_version: bool = field(default=False, compare=False)

    @property
    def version(self) -> str:
        """Distinguishes the objects that lie under one path at different times."""
        return f"{self.bytes} {self.modified_at.isoformat()} {self.etag}"


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """The state of one path in the store.

    Attributes:
        file: The object; None if there is none. For a link, the link itself.
        error: Why the state is unknown; empty if it is known.
        is_link: Whether the path is itself a link to another file.
    """

    path: str
    file: StoredObject | None = None
    error: str = ""
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """The result of one delete; a file that was already gone counts as deleted.

    Attributes:
        error: Why it was not deleted; empty if it was.
        replaced: Why the object there is not the one to delete, and was kept.
        was_gone: Whether there was nothing to delete.
    """

    path: str
    error: str = ""
    replaced: str = ""
    was_gone: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first bytes of an object.

    Attributes:
        content: As many bytes as were requested; all if the object is shorter.
        bytes: The object's size.
    """

    content: bytes
    bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether the content is the whole object."""
        return len(self.content) == self.bytes


@dataclass(frozen=True)
class Level:
    """The direct children of a folder.

    Attributes:
        files: Its files with sizes, if the store returns those in a listing.
        names: The last names of its files, if each size would cost a request.
        folders: Locations of its subfolders, with a slash at the end.
    """

    files: tuple[StoredObject, ...]
    names: tuple[str, ...]
    folders: tuple[str, ...]

    def paths(self, folder: str) -> list[str]:
        """Returns its files' paths, given the path of the folder."""
        base = folder.rstrip("/") + "/"
        return [*(file.path for file in self.files), *(base + name for name in self.names)]


class FolderReader(Protocol):
    """Lists single folders."""

    def level(self, folder: str) -> Level:
        """Lists the direct children of a folder; a missing folder is empty.

        Raises:
            StoreRefused: A part cannot be listed, or has a name that cannot be spelled.
        """
        ...


class ObjectReader(Protocol):
    """Reads object storage. Like its neighbours it must be picklable: executors use them too."""

    def read(self, path: str) -> bytes:
        """Returns the whole object.

        Raises:
            FileNotFoundError: There is no such object.
            StoreRefused: The store failed otherwise.
        """
        ...

    def read_prefix(self, path: str, length: int) -> Prefix:
        """Returns the first bytes of an object, and its size, in one request. Raises as `read`."""
        ...

    def stream(self, path: str) -> Iterator[bytes]:
        """Yields the object in parts of a few MiB, so that an object of any length fits in memory.

        Raises:
            FileNotFoundError: There is no such object.
            StoreRefused: The store failed otherwise, at any part.
        """
        ...

    def size(self, path: str) -> int | None:
        """Returns its length in bytes, None if there is none. Raises StoreRefused otherwise."""
        ...

    def measure(self, path: str) -> StoredObject | None:
        """Returns the object as a listing would; None if there is none. Raises StoreRefused."""
        ...

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """Returns sizes and times of many objects, one result per path, in their order."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yields every object under a folder, at any depth. A missing folder is empty."""
        ...

    def links_among(self, paths: Sequence[str]) -> Iterable[str]:
        """Returns the paths, all of one folder, that are themselves links to files."""
        ...


class ObjectWriter(Protocol):
    """Writes object storage: an existing object at the path is replaced."""

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object and returns the store's time of the write."""
        ...

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Replaces an object if it has the expected content: a compare-and-swap if the store can.

        If it cannot, the object is read again after the write.

        Args:
            path: The object.
            content: The new content.
            expected: The current content; None if the object must not exist.

        Returns:
            False if the object had another content, or was replaced meanwhile; nothing was written.

        Raises:
            StoreRefused: It could not be read or written.
        """
        ...

    def write_stream(self, path: str, parts: Iterable[bytes]) -> None:
        """Writes an object from parts. It appears complete, or not at all.

        Raises:
            StoreRefused: It could not be written, or the store received other bytes than were sent.
        """
        ...

    def proves_writes(self, path: str) -> bool:
        """Returns whether a successful `write_stream` proves that the store has what was sent.

        Either the store compared the bytes with a checksum, or the object was read again.
        """
        ...


class ObjectRemover(Protocol):
    """Deletes without a check: only for objects that certainly nothing refers to.

    A purge uses `Deleter`, which deletes only objects unchanged since their departure.
    """

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, one result per path, with the side files of local ones."""
        ...


class PathResolver(Protocol):
    """Resolves links and mounts of paths."""

    def real_path(self, path: str) -> str:
        """Returns the location of a path after following links; an object's is its own."""
        ...

    def identity(self, path: str) -> str:
        """Returns a key that all names of one file share, through any links and mounts.

        Two files may share it too: it narrows a search, and proves nothing.
        """
        ...

    def is_link(self, path: str) -> bool:
        """Returns whether a path is itself a link to another file."""
        ...


class MetadataFiles(Protocol):
    """The part of a store that an edit of a table needs: see `ObjectReader` and its neighbours.

    It deletes only metadata files of its own that no catalog has ever had.
    """

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, content: bytes) -> datetime: ...

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]: ...


class Deleter(Protocol):
    """Deletes files in bulk, at no more than the given rate.

    A store with conditional deletes may use them; others check first, and delete then.
    """

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        """Deletes the files that are unchanged since their departure; one result per file."""
        ...
