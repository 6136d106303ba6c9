"""Detects tables whose old metadata files an engine or a server deletes soon.

If a server writes the metadata, the file that a commit replaced shows which refs it lost (decision
048). If a run dies after its commit, the next run reads that file.
"""

from collections.abc import Mapping

from meltline.domain.iceberg.metadata_editor import PREVIOUS_VERSIONS
from meltline.domain.iceberg.table_metadata import ENGINE_DELETES_METADATA

ENOUGH_VERSIONS = 100
"""The number of metadata files that Iceberg keeps by default."""

KEEP_VERSIONS = (
    f"set {ENGINE_DELETES_METADATA}=false, or {PREVIOUS_VERSIONS} to {ENOUGH_VERSIONS} at least"
)
"""The settings that keep them longer."""


def deletes_soon(properties: Mapping[str, str]) -> str:
    """Returns why the file before a commit may be deleted before it is read; empty if kept."""
    if properties.get(ENGINE_DELETES_METADATA, "").strip().lower() != "true":
        return ""
    kept = properties.get(PREVIOUS_VERSIONS, "").strip() or str(ENOUGH_VERSIONS)
    if kept.isascii() and kept.isdigit() and int(kept) >= ENOUGH_VERSIONS:
        return ""
    return (
        f"its old metadata files are deleted after {kept} commits, and with them what would tell "
        "which refs came while its snapshots expired"
    )
