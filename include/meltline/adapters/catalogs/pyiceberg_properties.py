"""What PyIceberg is told beside what a person has configured."""

from collections.abc import Mapping

from pyiceberg.io import PY_IO_IMPL

from meltline.domain.iceberg.locations import split_location


def reading_regular_files(properties: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """PyIceberg's properties with `RegularFiles`, where the warehouse is local and names none."""
    if split_location(warehouse).scheme != "file":
        return dict(properties)
    return {PY_IO_IMPL: "meltline.adapters.catalogs.regular_files.RegularFiles", **properties}
