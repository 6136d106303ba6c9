"""Records of archived snapshots, and their form as properties of a cold table.

The handoff writes them. Cold alone then has all that the control ledger knows of its copies.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import from_millis, to_millis


@dataclass(frozen=True)
class Validity:
    """The interval in which a snapshot was main's head for readers: `[start, end)`, both UTC.

    It is empty (`start` is `end`) if it is not proved that it ever was, as on a side branch.

    Attributes:
        end: None if no observation saw it replaced.
    """

    start: datetime
    end: datetime | None


@dataclass(frozen=True)
class ArchivedSnapshot:
    """A snapshot whose copy in cold is complete, verified and registered (AR-33, AR-35, AR-36).

    Attributes:
        table_uuid: The hot table's UUID; a cold table has a UUID of its own.
        table: The hot table's name at the handoff.
        files: Files that the copy references, including its manifest list and manifests.
        bytes: Their bytes; files shared by several snapshots count with each.
        rows: Live rows, as the manifests count them.
        files_copied: Those of the files that were not in cold before.
        bytes_copied: Their bytes.
        cold_location: The cold metadata file that registered it.
        verified_at: When copy and original were last found to be equal.
        keep_until: The earliest time at which it may be removed (UTC).
        deep_at: When the permanent store was last found to have all of it; None if it has not.
        deep_bytes: Bytes that were copied there for it and are new there.
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
"""Property of a cold table: the UUID of the hot table whose history it contains."""

ARCHIVED = "meltline.archived."
"""Followed by a snapshot's id, the property of a cold table that records the copy."""


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
    """Returns the property of a cold table that records one of its snapshots: key and value.

    Cold alone then has all that the control ledger knows of it.

    Args:
        snapshot_id: As in hot.
        validity: The interval in which it was main's head.
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
    """Reads a cold table's records of its snapshots; only of existing snapshots with a full record.

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
            continue  # the next handoff copies it again, and rewrites the record
    return sorted(archived, key=lambda copy: (copy.committed_at, copy.snapshot_id))
