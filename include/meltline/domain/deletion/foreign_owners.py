"""Foreign owners: signs in a folder that somebody uses it whom no catalog of ours shows.

A table owns the files that its own commits named. That a file lies in the table's folder is no
evidence: other catalogs, views and other formats write there too. A sign stops the folder, until
a person says that its owner is known and gone.
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
    """What a sign tells of a folder's other owner."""

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
    """A sign that somebody whom no catalog shows uses a folder.

    Attributes:
        root: The table's folder that it was found for, as a prefix.
        id: By what a person allows it: a UUID, or `path`.
        kind: What it tells.
        path: The file or folder that is the sign; `table` of a catalog for one that is listed.
        folder: What the other owner uses, as a prefix.
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
        """Whom it tells of in which root, whichever of their files is the sign."""
        return self.root, self.id, self.kind

    @property
    def stops(self) -> str:
        """Below which prefix nothing becomes an orphan: the root, or a folder inside of it."""
        return self.folder if self.folder.startswith(self.root) else self.root

    @property
    def stops_named_files(self) -> bool:
        """Whether the other owner may need files that commits of ours have named.

        A log of another format may name the same data files. A table whose metadata lies in our
        table's own folder may be a copy of it, or have its files.
        """
        is_inside = self.folder != self.root and self.folder.startswith(self.root)
        return self.kind in _SAME_FILES or (self.kind is SignKind.TABLE and not is_inside)

    @property
    def message(self) -> str:
        """What was found, for people."""
        return f"{self.kind} uses {self.stops}: {self.path}"

    @property
    def fix(self) -> str:
        """How a person says that the other owner is gone."""
        return f"once that owner is gone: `meltline sweep allow {quote(self.id)} --reason TEXT`"


def sign_order(sign: ForeignSign) -> tuple[str, str, str, str]:
    """By what signs are sorted: no two are alike in it."""
    return sign.root, sign.kind, sign.id, sign.path


@dataclass(frozen=True, slots=True)
class AllowedOwner:
    """That a person says of a foreign owner: it is known, and needs nothing any more.

    Attributes:
        id: A UUID, the path of a sign, or a folder that is one table's alone.
        who: Who said so.
        reason: Why.
        at: When.
    """

    id: str
    who: str
    reason: str
    at: datetime


def marker_of(folder: str) -> SignKind | None:
    """Which other format a folder of that name belongs to; None for none."""
    return _MARKER_FOLDERS.get(folder.rstrip("/").rpartition("/")[2])


def marker_above(folder: str) -> str:
    """The folder of another format's log that a folder is, or lies in; empty for none."""
    parts = folder.rstrip("/").split("/")
    for count, part in enumerate(parts, 1):
        if part in _MARKER_FOLDERS:
            return "/".join(parts[:count]) + "/"
    return ""


def format_of_file(path: str) -> tuple[SignKind, str] | None:
    """The other format that a file belongs to by its name, and the folder of its table."""
    if paimon := _PAIMON.fullmatch(path):
        return SignKind.PAIMON, claim_prefix(paimon[1])
    if lance := _LANCE.fullmatch(path):
        return SignKind.LANCE, claim_prefix(lance[1])
    return None


def tells_owner(path: str) -> bool:
    """Whether a file is a table's or view's metadata.

    One before its last rename is none yet, and a checksum beside one is none either.
    """
    is_whole = not path.endswith((".tmp", ".crc"))
    return is_metadata(path) and is_whole and not is_passed_over(path.rpartition("/")[2])


def contexts_of(locations: Iterable[str]) -> frozenset[str]:
    """What Iceberg puts into the paths of a table's files outside its location: `/ns/table/`."""
    contexts = set()
    for location in locations:
        parts = [part for part in split_location(location).path.split("/") if part]
        contexts.add("/" + "/".join(parts[-2:]) + "/")
    return frozenset(contexts)


def carries(path: str, contexts: Iterable[str]) -> bool:
    """Whether a path names the table that it was written for."""
    return any(context in path for context in contexts)
