"""Query and result of storage usage: bytes by owner and stage, over the whole index at once.

`app/storage` builds the query; `adapters/file_index` answers it (`LedgerReader`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.iceberg.locations import OwnerIndex


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that is in no manifest, and the reference to it."""

    path: str
    bytes: int
    use: FileReference


@dataclass(frozen=True)
class UsageQuery:
    """The input of a storage usage report.

    Attributes:
        at: The instant of the report: a file counts as departed if it departed by then.
        owners: The owners of locations.
        manifests: References to each manifest, and so to all its files, by manifest id.
        lines: References by snapshots that are read incrementally: by table, the sequence number
            of each snapshot and its reference.
        due_by: The end of the forecast of files in failsafe that become due; None for no forecast.
        side_files: Manifest lists, metadata files and statistics.
        paths: Paths to look up among the counted files.
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
    """Storage usage by owner and stage. Each byte counts once, for its file's owner (ML-4, ML-18).

    Attributes:
        owned: Bytes by owner and stage.
        foreign: Bytes of files without an owner, by the first table that refers to them.
        together: Pairs of tables that both refer to a file now, each sorted.
        lent: Owners, each with a table that refers to one of its files now.
        known_paths: The paths of the query that were counted.
        due: Bytes in failsafe by owner and due day in UTC, up to `due_by`; overdue bytes are under
            the day before the report.
    """

    owned: Mapping[tuple[str, Stage], int] = field(default_factory=dict)
    foreign: Mapping[str, int] = field(default_factory=dict)
    together: frozenset[tuple[str, str]] = frozenset()
    lent: frozenset[tuple[str, str]] = frozenset()
    known_paths: frozenset[str] = frozenset()
    due: Mapping[tuple[str, date], int] = field(default_factory=dict)
