"""Detects table metadata that Iceberg's Java library refuses to load, though others write it.

The observe step reports such a table, with the repair.
"""

from datetime import timedelta
from itertools import pairwise

from meltline.domain.iceberg.table_metadata import TableMetadata

TOLERANCE = timedelta(minutes=1)
"""The clock difference between two writers that Iceberg's Java library tolerates."""

BEGIN_ANEW = (
    "set write.metadata.previous-versions-max=1 on it with PyIceberg, which begins its metadata "
    "log anew, and unset it after; where its snapshot log is meant, register an earlier file"
)
"""The repair. Another commit does not repair it: the log then has the wrong time in its middle."""


def load_refusal(state: TableMetadata) -> str:
    """Returns why Iceberg's Java library refuses to load a table; empty if it does not.

    A PyIceberg transaction that began more than a minute before another writer's commit leaves such
    metadata. Source: `TableMetadata` in Iceberg's `core`, the checks of both logs.
    """
    logs = {
        "snapshot": [entry.at for entry in state.snapshot_log],
        "metadata": [state.metadata_times[file] for file in state.metadata_log],
    }
    for name, times in logs.items():
        for earlier, later in pairwise([*times, state.last_updated]):
            if earlier - later > TOLERANCE:
                return (
                    f"its {name} log is out of order by more than a minute, and Iceberg's Java "
                    "library, Spark and Trino among its users, refuses to load it"
                )
    return ""
