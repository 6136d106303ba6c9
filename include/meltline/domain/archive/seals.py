"""Which metadata of the archive are Meltline's own: each of its commits leaves a seal in them.

A seal is a digest of all that a metadata document says, kept as one of its properties. Whoever
else commits carries the property on, over a document of which it is not the digest. A broken seal
is never made anew: what was done stays visible, however often Meltline commits on top of it.
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
    """The seal that belongs into a document, whether it is in there or not."""
    sealed = {key: field for key, field in document.items() if key not in _LEFT_OUT}
    properties = dict(document.get("properties") or {})
    properties.pop(SEAL, None)
    sealed["properties"] = properties
    return sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def foreign_to(document: Mapping[str, Any]) -> list[str]:
    """What of a cold table's metadata Meltline did not write; of unsealed ones, its snapshots."""
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
    """The same edit of a cold table, sealed; what is foreign in it stays to be seen."""

    def sealed(document: MetadataEditor) -> None:
        is_ours = not foreign_to(document.document)
        edit(document)
        if is_ours and document.is_changed:
            document.set_properties({SEAL: seal_of(document.document)})

    return sealed


def with_seal(document: dict[str, Any]) -> dict[str, Any]:
    """The first document of a cold table, sealed."""
    properties = {**(document.get("properties") or {}), SEAL: seal_of(document)}
    return {**document, "properties": properties}
