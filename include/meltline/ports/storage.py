"""Weighing what is stored: bytes by owner and stage, over the whole index at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.iceberg.locations import OwnerIndex


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that stands in no manifest, and who refers to it."""

    path: str
    bytes: int
    use: FileReference


@dataclass(frozen=True)
class UsageQuery:
    """What is to be weighed, and how it stands.

    Attributes:
        at: The instant: what had departed by then counts as departed.
        owners: Who owns what.
        manifests: Who refers to each manifest, and so to all that it holds, by manifest id.
        lines: Who refers to the files of snapshots that are known by what they changed: by table,
            the sequence numbers of those and their uses.
        due_by: Until when it is asked what comes due of what waits; None: it is not asked.
        side_files: Manifest lists, metadata files and statistics.
        paths: Those of which is asked whether they are among what was weighed.
    """

    at: datetime
    owners: OwnerIndex
    manifests: Mapping[int, Collection[FileReference]]
    side_files: Sequence[UsedFile]
    paths: Collection[str] = ()
    lines: Mapping[str, Sequence[tuple[int, FileReference]]] = field(default_factory=dict)
    due_by: datetime | None = None


@dataclass(frozen=True)
class UsageTotals:
    """What weighing came to. A byte stands with the owner of its file, once (ML-4, ML-18).

    Attributes:
        owned: Bytes by owner and stage.
        foreign: Bytes of files that nobody owns, by the first table that refers to them.
        together: Pairs of tables that both refer to a file now, each sorted.
        lent: Owners, each with a table that refers to a file of theirs now.
        known_paths: Of the paths that were asked for, those that were weighed.
        due: Bytes in failsafe by owner and the day in UTC on which they are due, as far as that is
            asked for; what is overdue is under the day before the question.
    """

    owned: Mapping[tuple[str, Stage], int] = field(default_factory=dict)
    foreign: Mapping[str, int] = field(default_factory=dict)
    together: frozenset[tuple[str, str]] = frozenset()
    lent: frozenset[tuple[str, str]] = frozenset()
    known_paths: frozenset[str] = frozenset()
    due: Mapping[tuple[str, date], int] = field(default_factory=dict)
