"""The facts of the cold tier: what is handed over, and what is known of it afterwards."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import from_millis, to_millis


@dataclass(frozen=True)
class Validity:
    """When a snapshot was what readers of main saw: `[start, end)`, both UTC.

    Empty (`start` is `end`) where nobody can prove that it ever was: one of a side branch, say.

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
        deep_at: When the permanent store was last found to have all of it; None where it has not.
        deep_bytes: Bytes that went there for it, and were not there before.
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
    deep_at: datetime | None = None
    deep_bytes: int = 0


COLD_OF = "meltline.cold-of"
"""Property of a cold table: the UUID of the hot table whose history it holds."""

ARCHIVED = "meltline.archived."
"""With a snapshot's id behind it, a property of a cold table: what is known of the copy."""


def archived_property(
    snapshot_id: int,
    validity: Validity,
    *,
    files: int,
    bytes: int,
    rows: int,
    at: datetime,
    files_copied: int = 0,
    bytes_copied: int = 0,
) -> tuple[str, str]:
    """What a cold table says of one of its snapshots, as a property's key and value.

    Cold alone can then tell all that the control ledger knows of it.

    Args:
        snapshot_id: As in hot.
        validity: When it was what readers saw.
        files: As in `ArchivedSnapshot`.
        bytes: Likewise.
        rows: Likewise.
        at: When the copy was verified.
        files_copied: As in `ArchivedSnapshot`.
        bytes_copied: Likewise.
    """
    facts = {
        "from": to_millis(validity.start),
        "until": None if validity.end is None else to_millis(validity.end),
        "files": files,
        "bytes": bytes,
        "rows": rows,
        "verified": to_millis(at),
        "files-copied": files_copied,
        "bytes-copied": bytes_copied,
    }
    return f"{ARCHIVED}{snapshot_id}", json.dumps(facts, separators=(",", ":"))


def read_archived(
    state: TableMetadata, table: TableName, keep_for: timedelta = timedelta(0)
) -> list[ArchivedSnapshot]:
    """What a cold table says of its snapshots; of those that it has, and that it says whole.

    Args:
        state: The cold table.
        table: The hot table's name.
        keep_for: How long copies are kept from when they were verified.
    """
    archived = []
    for snapshot in state.snapshots.values():
        try:
            facts = json.loads(state.properties[f"{ARCHIVED}{snapshot.snapshot_id}"])
            until, verified = facts["until"], from_millis(facts["verified"])
            end = None if until is None else from_millis(until)
            archived.append(
                ArchivedSnapshot(
                    table_uuid=state.properties[COLD_OF],
                    table=table,
                    snapshot_id=snapshot.snapshot_id,
                    committed_at=snapshot.committed_at,
                    validity=Validity(from_millis(facts["from"]), end),
                    files=int(facts["files"]),
                    bytes=int(facts["bytes"]),
                    rows=int(facts["rows"]),
                    files_copied=int(facts["files-copied"]),
                    bytes_copied=int(facts["bytes-copied"]),
                    cold_location=state.metadata_location,
                    verified_at=verified,
                    keep_until=verified + keep_for,
                )
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            continue  # it is handed over once more, and said anew
    return sorted(archived, key=lambda copy: (copy.committed_at, copy.snapshot_id))
