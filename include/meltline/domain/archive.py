"""The facts of the cold tier: what is handed over, and what is known of it afterwards."""

from dataclasses import dataclass
from datetime import datetime

from meltline.domain.names import TableName


@dataclass(frozen=True)
class Validity:
    """When a snapshot was what readers of its branch saw: `[start, end)`, both UTC.

    Attributes:
        end: None where it was never replaced while anybody looked.
    """

    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class ArchivedSnapshot:
    """A snapshot whose copy in cold is whole, verified and registered (AR-33, AR-35, AR-36).

    Attributes:
        table_uuid: Of the hot table; a cold table has a UUID of its own.
        table: The hot table's name when it was handed over.
        files: Files that the copy refers to, its manifest list and manifests among them.
        bytes: Their bytes; what several snapshots share counts with each.
        rows: Live rows, as the manifests count them.
        files_copied: Those of the files that cold did not have before.
        bytes_copied: Their bytes.
        cold_location: The cold metadata file with which it was registered.
        verified_at: When copy and original were last found to agree.
        keep_until: Nothing removes it before (UTC).
    """

    table_uuid: str
    table: TableName
    snapshot_id: int
    committed_at: datetime
    validity: Validity
    files: int
    bytes: int
    rows: int
    files_copied: int
    bytes_copied: int
    cold_location: str
    verified_at: datetime
    keep_until: datetime
