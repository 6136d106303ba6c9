"""Properties that Meltline adds to the configured ones of PyIceberg.

REST connections and PyIceberg scans share them.
"""

from collections.abc import Mapping

from pyiceberg.io import PY_IO_IMPL

from meltline.domain.iceberg.locations import split_location


def reading_regular_files(properties: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Adds `RegularFiles` to PyIceberg's properties for a local warehouse that names no FileIO."""
    if split_location(warehouse).scheme != "file":
        return dict(properties)
    return {PY_IO_IMPL: "meltline.adapters.catalogs.regular_files.RegularFiles", **properties}
