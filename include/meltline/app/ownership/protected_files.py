"""Protected files: no plan may include them, referenced or not.

Only gates call it: they refuse a plan with such a file.
"""

from collections.abc import Collection, Iterable, Sequence

from meltline.domain.archive.cold_paths import lies_under
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.table_metadata import TableMetadata


def metadata_keys(states: Iterable[TableMetadata]) -> set[str]:
    """Returns location keys of tables' metadata files, current and in their logs."""
    return {
        location_key(path)
        for state in states
        for path in (state.metadata_location, *state.metadata_log)
    }


def protected_among(
    paths: Sequence[str], metadata: Collection[str], archives: Sequence[str]
) -> list[str]:
    """Returns paths of metadata files, of an engine's hint, or of the archive (I-8)."""
    return [
        path
        for path in paths
        if location_key(path) in metadata
        or path.rpartition("/")[2] == "version-hint.text"
        or any(lies_under(path, place) for place in archives)
    ]
