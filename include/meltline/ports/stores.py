"""Object storage, and bulk deletes from it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from meltline.domain.deletion.departed import DepartedObject


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing. `path` is spelled as Iceberg would write it under that prefix.

    Attributes:
        etag: What the store calls this version of it: no digest of anything. Empty where the store
            has none.
        is_version: Whether the store shows it as one of its versions, so that a delete would leave
            its bytes there. Listings and some stores do not tell: then it is false.
    """

    path: str
    bytes: int
    modified_at: datetime
    etag: str = ""
    is_version: bool = field(default=False, compare=False)

    @property
    def version(self) -> str:
        """Which object it is of those that may lie under its path one after another."""
        return f"{self.bytes} {self.modified_at.isoformat()} {self.etag}"


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """What lies under a path.

    Attributes:
        file: None where nothing does. Of a link it is the link itself.
        error: Why nobody can say; empty where it is known.
        is_link: Whether the name is itself a link to a file that has another one.
    """

    path: str
    file: StoredObject | None = None
    error: str = ""
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOutcome:
    """What came of one delete; a file that was gone already counts as done.

    Attributes:
        error: Why it was not deleted; empty when it was.
        replaced: Why what lies there is not what was to be deleted, and was left alone.
        was_gone: Whether there was nothing to delete.
    """

    path: str
    error: str = ""
    replaced: str = ""
    was_gone: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of an object.

    Attributes:
        content: As many bytes as were asked for; all where it has no more.
        bytes: How many the object has.
    """

    content: bytes
    bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether that is all of it."""
        return len(self.content) == self.bytes


@dataclass(frozen=True)
class Level:
    """What lies right in a folder.

    Attributes:
        files: Its files, where the store measures what it lists.
        names: The last names of its files, where measuring each would cost a request of its own.
        folders: Its folders' locations, with a slash at the end.
    """

    files: tuple[StoredObject, ...]
    names: tuple[str, ...]
    folders: tuple[str, ...]

    def paths(self, folder: str) -> list[str]:
        """Its files' paths, by the path of the folder."""
        base = folder.rstrip("/") + "/"
        return [*(file.path for file in self.files), *(base + name for name in self.names)]


class FolderReader(Protocol):
    """Lists single folders."""

    def level(self, folder: str) -> Level:
        """What lies right in a folder; one that is not there is empty.

        Raises:
            StoreRefused: Any of it cannot be listed, or has a name that cannot be spelled.
        """
        ...


class ObjectReader(Protocol):
    """Object storage, read. Must be picklable, as what follows: executors use it too."""

    def read(self, path: str) -> bytes:
        """The whole object.

        Raises:
            FileNotFoundError: It is not there.
            StoreRefused: Any other reason.
        """
        ...

    def read_prefix(self, path: str, length: int) -> Prefix:
        """The first bytes of an object, and its size, in one request. Raises as `read` does."""
        ...

    def stream(self, path: str) -> Iterator[bytes]:
        """The object in parts of a few MiB, so that its length does not matter.

        Raises:
            FileNotFoundError: It is not there.
            StoreRefused: Any other reason, at any part.
        """
        ...

    def size(self, path: str) -> int | None:
        """Its length in bytes, None when it is not there. Raises StoreRefused otherwise."""
        ...

    def measure(self, path: str) -> StoredObject | None:
        """The object as a listing would show it; None when it is not there. Raises StoreRefused."""
        ...

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        """The sizes and times of many objects, an answer per path, in their order."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object under a folder, at any depth. A folder that is not there is empty."""
        ...

    def links_among(self, paths: Sequence[str]) -> Iterable[str]:
        """Those of some names, all of one folder, that are themselves links to files."""
        ...


class ObjectWriter(Protocol):
    """Object storage, written to: what lay under a path is replaced."""

    def write(self, path: str, content: bytes) -> datetime:
        """Writes an object and returns when the store says it was written."""
        ...

    def swap(self, path: str, content: bytes, expected: bytes | None) -> bool:
        """Writes an object if it holds what is expected, in one step where the store can do that.

        Where it cannot, the object is read again after it was written.

        Args:
            path: The object.
            content: What it holds afterwards.
            expected: What it holds before; None is that there is none.

        Returns:
            False where something else lay there, or came to lie there; nothing was written then.

        Raises:
            StoreRefused: It could not be read or written.
        """
        ...

    def write_stream(self, path: str, parts: Iterable[bytes]) -> None:
        """Writes an object from parts. It is there whole, as the parts were, or not at all.

        Raises:
            StoreRefused: It could not be written, or what arrived is not what was sent.
        """
        ...

    def proves_writes(self, path: str) -> bool:
        """Whether `write_stream` here ends well only where the store holds what was sent.

        Either the store itself held what came against a checksum, or it was read again.
        """
        ...


class ObjectRemover(Protocol):
    """Deletes at once, and looks at nothing: for what surely nobody has come to need.

    A purge goes by `Deleter`, which deletes only what is still as it departed.
    """

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        """Deletes objects in bulk, an outcome per path, with the side files of local ones."""
        ...


class PathResolver(Protocol):
    """Where names lead."""

    def real_path(self, path: str) -> str:
        """The location that a name leads to once links are followed; of an object its own."""
        ...

    def identity(self, path: str) -> str:
        """What two names of one thing have in common, whatever links and mounts lead to it.

        Two things may have it in common too: it narrows a search, and proves nothing.
        """
        ...

    def is_link(self, path: str) -> bool:
        """Whether a name is itself a link to a file that has another one."""
        ...


class MetadataFiles(Protocol):
    """What an edit of a table needs of the store: see `ObjectReader`, and the two after it.

    It deletes only metadata files of its own that no catalog has ever had.
    """

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, content: bytes) -> datetime: ...

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]: ...


class Deleter(Protocol):
    """Deletes files in bulk, at no more than the given rate.

    A store whose client can delete on a condition may do so; others look first, and delete then.
    """

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        """Deletes those files that are still what departed; an outcome per file, in their order."""
        ...
