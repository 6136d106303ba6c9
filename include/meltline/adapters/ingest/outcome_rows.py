"""What came of reading each manifest, as rows of the index job's result."""

from collections.abc import Sequence

import pyarrow as pa

from meltline.domain.iceberg.files import ManifestOutcome


def outcome_of(row: dict[str, object]) -> ManifestOutcome:
    """A manifest's outcome from its row in the job's result."""
    return ManifestOutcome(
        path=str(row["manifest"]),
        added=int(row["added"]),  # type: ignore[call-overload]
        existing=int(row["existing"]),  # type: ignore[call-overload]
        deleted=int(row["deletes"]),  # type: ignore[call-overload]
        owners=tuple(row["owners"]),  # type: ignore[arg-type]
        error=str(row["error"]),
        bytes_added=int(row["bytes_added"]),  # type: ignore[call-overload]
        bytes_removed=int(row["bytes_removed"]),  # type: ignore[call-overload]
        ambiguity=str(row["odd"]),
        places=tuple(row["places"]),  # type: ignore[arg-type]
    )


def outcome_rows(outcomes: Sequence[ManifestOutcome], schema: pa.Schema) -> pa.RecordBatch:
    """Outcomes as rows of the index job's result; its other columns are null."""
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
