"""Seals: detect commits to the archive that are not Meltline's own.

A seal is a digest of a whole metadata document, stored as one of its properties. Another writer's
commit keeps the property, but changes the document, so that the digest no longer matches. A broken
seal is never renewed: the foreign commit stays visible, however often Meltline commits on top of
it.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from meltline.domain.archive.archive import ARCHIVED
from meltline.domain.iceberg.metadata_editor import MetadataEditor

SEAL = "meltline.seal"
Edit = Callable[[MetadataEditor], None]
_LEFT_OUT = ("metadata-log", "last-updated-ms")  # every commit sets them when it is written


def seal_of(document: Mapping[str, Any]) -> str:
    """Computes the seal of a document, whether it contains one or not."""
    sealed = {key: field for key, field in document.items() if key not in _LEFT_OUT}
    properties = dict(document.get("properties") or {})
    properties.pop(SEAL, None)
    sealed["properties"] = properties
    return sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def foreign_to(document: Mapping[str, Any]) -> list[str]:
    """Returns foreign content of a cold table's metadata; if unsealed, foreign snapshots."""
    properties = document.get("properties") or {}
    problems = [
        f"snapshot {id} was committed to the archive by somebody else"
        for snapshot in document.get("snapshots") or ()
        if f"{ARCHIVED}{(id := snapshot['snapshot-id'])}" not in properties
    ]
    if not problems and SEAL in properties and properties[SEAL] != seal_of(document):
        problems.append("the metadata of the cold table were changed by somebody else")
    return problems


def sealing(edit: Edit) -> Edit:
    """Wraps an edit of a cold table so that it renews the seal, unless foreign content exists."""

    def sealed(document: MetadataEditor) -> None:
        is_ours = not foreign_to(document.document)
        edit(document)
        if is_ours and document.is_changed:
            document.set_properties({SEAL: seal_of(document.document)})

    return sealed


def with_seal(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the first document of a cold table, sealed."""
    properties = {**(document.get("properties") or {}), SEAL: seal_of(document)}
    return {**document, "properties": properties}
