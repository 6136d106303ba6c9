"""Converts manifest outcomes to rows of the index job's result, and back.

The job writes these rows on executors, and `ingest.py` reads them on the driver. It imports neither
Spark nor a manifest reader.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from meltline.domain.iceberg.files import ManifestOutcome


def outcome_of(row: Mapping[str, Any]) -> ManifestOutcome:
    """Returns a manifest's outcome from its row in the job's result."""
    return ManifestOutcome(
        path=row["manifest"],
        added=row["added"],
        existing=row["existing"],
        deleted=row["deletes"],
        owners=tuple(row["owners"]),
        error=row["error"],
        bytes_added=row["bytes_added"],
        bytes_removed=row["bytes_removed"],
        ambiguity=row["odd"],
        places=tuple(row["places"]),
    )


def outcome_rows(outcomes: Sequence[ManifestOutcome], schema: pa.Schema) -> pa.RecordBatch:
    """Returns outcomes as rows of the index job's result; its other columns are null."""
    rows = [
        {
            "manifest": outcome.path,
            "added": outcome.added,
            "existing": outcome.existing,
            "deletes": outcome.deleted,
            "owners": list(outcome.owners),
            "error": outcome.error,
            "bytes_added": outcome.bytes_added,
            "bytes_removed": outcome.bytes_removed,
            "odd": outcome.ambiguity,
            "places": list(outcome.places),
        }
        for outcome in outcomes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
