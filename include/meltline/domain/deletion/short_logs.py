"""Tables whose old metadata files an engine or a server deletes soon.

Where a server writes the metadata, the file that a commit replaced says which refs it lost
(decision 048). A run that dies after its commit has the next one look for it.
"""

from collections.abc import Mapping

from meltline.domain.iceberg.metadata_editor import PREVIOUS_VERSIONS
from meltline.domain.iceberg.table_metadata import ENGINE_DELETES_METADATA

ENOUGH_VERSIONS = 100
"""What Iceberg keeps by itself."""

KEEP_VERSIONS = (
    f"set {ENGINE_DELETES_METADATA}=false, or {PREVIOUS_VERSIONS} to {ENOUGH_VERSIONS} at least"
)
"""The way out."""


def deletes_soon(properties: Mapping[str, str]) -> str:
    """Why the file before a commit may be gone before it is read; empty where it stays."""
    if properties.get(ENGINE_DELETES_METADATA, "").strip().lower() != "true":
        return ""
    kept = properties.get(PREVIOUS_VERSIONS, "").strip() or str(ENOUGH_VERSIONS)
    if kept.isascii() and kept.isdigit() and int(kept) >= ENOUGH_VERSIONS:
        return ""
    return (
        f"its old metadata files are deleted after {kept} commits, and with them what would tell "
        "which refs came while its snapshots expired"
    )
