"""Schema of the file ledger's Iceberg tables, as Arrow schemas, from which Spark's are derived.

All are format 2 and append-only; a change of state is a new row, and the newest wins. Rows that are
over move to the `settled_` table of the same columns. Every module that reads or writes the
ledger's tables uses it.
"""

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")

ENTRIES = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("manifest_id", pa.int64()),
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("status", pa.int32()),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
    ]
)
MANIFESTS = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("manifest_id", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("added", pa.int32()),
        ("existing", pa.int32()),
        ("deleted", pa.int32()),
        ("whole", pa.bool_()),
    ]
)
CHANGES = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("snapshot_id", pa.int64()),
        ("manifest_id", pa.int64()),
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("part", pa.int64()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("since", pa.int64()),
        ("until", pa.int64()),
    ]
)
SNAPSHOTS = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("snapshot_id", pa.int64()),
        ("committed_at", _TIME),
        ("parent_id", pa.int64()),
        ("manifest_list", pa.string()),
        ("list_hash", pa.int64()),
        ("manifest_list_bytes", pa.int64()),
        ("manifests", pa.list_(pa.int64())),
        ("sequence_number", pa.int64()),
        ("by_changes", pa.bool_()),
        ("live_files", pa.int64()),
        ("live_bytes", pa.int64()),
        ("list_sha256", pa.string()),
    ]
)
SIDE_FILES = pa.schema(
    [
        ("table_uuid", pa.string()),
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("snapshot_id", pa.int64()),
        ("first_seen", _TIME),
    ]
)
PLAN_ITEMS = pa.schema(
    [
        ("plan_id", pa.string()),
        ("path", pa.string()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("owner", pa.string()),
        ("due_at", _TIME),
    ]
)
DEPARTURES = pa.schema(
    [
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("kind", pa.string()),
        ("bytes", pa.int64()),
        ("owner", pa.string()),
        ("plan_id", pa.string()),
        ("departed_at", _TIME),
        ("due_at", _TIME),
        ("state", pa.string()),
        ("recorded_at", _TIME),
        ("written_ns", pa.int64()),
        ("marker", pa.string()),
    ]
)
STRAYS = pa.schema(
    [
        ("path", pa.string()),
        ("key_hash", pa.int64()),
        ("bytes", pa.int64()),
        ("modified_at", _TIME),
        ("owner", pa.string()),
        ("listed_at", _TIME),
    ]
)
PROOFS = pa.schema(
    [
        ("kind", pa.string()),
        ("key_hash", pa.int64()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("live_files", pa.int64()),
        ("live_bytes", pa.int64()),
        ("fingerprint", pa.int64()),
        ("hashes", pa.binary()),
        ("manifests", pa.list_(pa.int64())),
        ("proved_at", _TIME),
    ]
)
SETTLING = pa.schema(
    [
        ("move", pa.string()),
        ("table_uuid", pa.string()),
        ("key_hash", pa.int64()),
        ("part", pa.int64()),
        ("since", pa.int64()),
    ]
)
"""Rows that are being moved to the history tables now."""

TABLES = {
    "entries": ENTRIES,
    "manifests": MANIFESTS,
    "changes": CHANGES,
    "snapshots": SNAPSHOTS,
    "side_files": SIDE_FILES,
    "plan_items": PLAN_ITEMS,
    "departures": DEPARTURES,
    "proofs": PROOFS,
    "strays": STRAYS,
    "settling": SETTLING,
    "settled_changes": CHANGES,
    "settled_snapshots": SNAPSHOTS,
    "settled_side_files": SIDE_FILES,
    "settled_departures": DEPARTURES,
}
