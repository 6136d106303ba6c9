"""Detects metadata of the archive that Meltline did not write.

Doctor and `cold verify` call it: a commit by anything else shows in the table's seal.
"""

from typing import Any

from meltline.domain.archive.seals import foreign_to
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.metadata_editor import parse_json
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import ObjectReader

_LOOKED_BACK = 20  # metadata files


def foreign_commits(store: ObjectReader, state: TableMetadata) -> tuple[str, ...]:
    """Returns the changes that others have committed to a cold table; empty if there are none."""
    try:
        document = _document(store, state.name, state.metadata_location)
    except (MeltlineError, FileNotFoundError) as error:
        return (f"{state.metadata_location} cannot be read: {error}",)
    return tuple(foreign_to(document))


def last_of_ours(store: ObjectReader, state: TableMetadata) -> str:
    """Returns a cold table's newest metadata file of Meltline; empty if none is found."""
    for location in list(reversed(state.metadata_log))[:_LOOKED_BACK]:
        try:
            if not foreign_to(_document(store, state.name, location)):
                return location
        except (MeltlineError, FileNotFoundError):
            continue
    return ""


def _document(store: ObjectReader, name: TableName, location: str) -> dict[str, Any]:
    document = parse_json(name, location, store.read(location))
    return document if isinstance(document, dict) else {}
