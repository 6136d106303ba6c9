"""Foreign owners: detects users of a table's folder that no configured catalog shows.

A table owns the files that its own commits referenced. A file's location in the table's folder
proves nothing: other catalogs, views and other formats write there too. A sign blocks the folder
until an operator confirms that its owner is known and gone. The sweep and the purge use it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from meltline.domain.deletion.orphans import is_metadata, is_passed_over
from meltline.domain.iceberg.locations import claim_prefix, split_location
from meltline.domain.safe_text import quote


class SignKind(StrEnum):
    """The kind of a folder's other owner, according to a sign."""

    TABLE = "a table that no catalog shows"
    VIEW = "a view that no catalog shows"
    UNREADABLE = "a metadata file that cannot be read"
    DELTA = "a Delta table"
    HUDI = "a Hudi table"
    PAIMON = "a Paimon table"
    LANCE = "a Lance dataset"
    ENDED = "a table that has left its catalog"
    OTHER_FORMAT = "a table of another format"
    SEEN = "nobody else"


_MARKER_FOLDERS = {
    "_delta_log": SignKind.DELTA,
    ".hoodie": SignKind.HUDI,
    "_versions": SignKind.LANCE,
}
_SAME_FILES = frozenset({SignKind.DELTA, SignKind.HUDI, SignKind.OTHER_FORMAT})
_PAIMON = re.compile(r"(.*)/(?:snapshot/snapshot-\d+|schema/schema-\d+)")
_LANCE = re.compile(r"(.*?)(?:/data)?/[^/]+\.lance")


@dataclass(frozen=True, slots=True)
class ForeignSign:
    """A sign that an owner outside all catalogs uses a folder.

    Attributes:
        root: The table's folder that it was found for, as a prefix.
        id: The id by which an operator allows it: a UUID, or `path`.
        kind: The kind of owner.
        path: The file or folder that is the sign; `table` of a catalog for a listed table.
        folder: The folder that the other owner uses, as a prefix.
        seen_at: When the owner was first found there.
    """

    root: str
    id: str
    kind: SignKind
    path: str
    folder: str
    seen_at: datetime

    @property
    def owner(self) -> tuple[str, str, SignKind]:
        """Identifies the owner in a root, whichever of its files is the sign."""
        return self.root, self.id, self.kind

    @property
    def stops(self) -> str:
        """The prefix below which no file becomes an orphan: the root, or a folder inside it."""
        return self.folder if self.folder.startswith(self.root) else self.root

    @property
    def stops_named_files(self) -> bool:
        """Whether the other owner may need files that our commits have referenced.

        A log of another format may reference the same data files. A table with its metadata in our
        table's own folder may be a copy of it, or use its files.
        """
        is_inside = self.folder != self.root and self.folder.startswith(self.root)
        return self.kind in _SAME_FILES or (self.kind is SignKind.TABLE and not is_inside)

    @property
    def message(self) -> str:
        """Describes the sign for people."""
        return f"{self.kind} uses {self.stops}: {self.path}"

    @property
    def fix(self) -> str:
        """The command by which an operator confirms that the other owner is gone."""
        return f"once that owner is gone: `meltline sweep allow {quote(self.id)} --reason TEXT`"


def sign_order(sign: ForeignSign) -> tuple[str, str, str, str]:
    """The sort key of signs; it is unique."""
    return sign.root, sign.kind, sign.id, sign.path


@dataclass(frozen=True, slots=True)
class AllowedOwner:
    """An operator's approval: a foreign owner is known, and no longer needs its files.

    Attributes:
        id: A UUID, the path of a sign, or a folder that only one table uses.
        who: The operator.
        reason: The operator's reason.
        at: When it was given.
    """

    id: str
    who: str
    reason: str
    at: datetime


def marker_of(folder: str) -> SignKind | None:
    """Returns the other format that a folder with this name belongs to; None for none."""
    return _MARKER_FOLDERS.get(folder.rstrip("/").rpartition("/")[2])


def marker_above(folder: str) -> str:
    """Returns the log folder of another format at or above a folder; empty for none."""
    parts = folder.rstrip("/").split("/")
    for count, part in enumerate(parts, 1):
        if part in _MARKER_FOLDERS:
            return "/".join(parts[:count]) + "/"
    return ""


def format_of_file(path: str) -> tuple[SignKind, str] | None:
    """Returns the other format that a file's name belongs to, and the folder of its table."""
    if paimon := _PAIMON.fullmatch(path):
        return SignKind.PAIMON, claim_prefix(paimon[1])
    if lance := _LANCE.fullmatch(path):
        return SignKind.LANCE, claim_prefix(lance[1])
    return None


def tells_owner(path: str) -> bool:
    """Whether a file is a table's or view's metadata.

    A temporary file before its final rename does not count, and neither does a checksum file.
    """
    is_whole = not path.endswith((".tmp", ".crc"))
    return is_metadata(path) and is_whole and not is_passed_over(path.rpartition("/")[2])


def contexts_of(locations: Iterable[str]) -> frozenset[str]:
    """Returns the part of paths outside a table's location that names it: `/ns/table/`."""
    contexts = set()
    for location in locations:
        parts = [part for part in split_location(location).path.split("/") if part]
        contexts.add("/" + "/".join(parts[-2:]) + "/")
    return frozenset(contexts)


def carries(path: str, contexts: Iterable[str]) -> bool:
    """Whether a path contains the name of the table that it was written for."""
    return any(context in path for context in contexts)
