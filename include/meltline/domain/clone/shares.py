"""Shares: a pinned state of a table, schema or database for other readers.

A share is a namespace with its name. Each table in it is a separate table over one snapshot of a
source, and the source has a tag on that snapshot. All facts are in the catalog, as properties of
the namespace and of its tables (ML-19 to ML-21, DS-14).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from meltline.domain.clone.clones import (
    GC,
    GC_BEFORE,
    Identity,
    Source,
    copied_properties,
    document_of,
    only_snapshot,
)
from meltline.domain.iceberg.metadata_editor import MetadataEditor
from meltline.domain.iceberg.names import TableName, quote_part, split_name
from meltline.domain.iceberg.objects import ObjectKind, ObjectName
from meltline.domain.iceberg.table_metadata import SnapshotRef
from meltline.domain.retention.policy import FOREVER_MS, SHARE_TAG
from meltline.domain.units import format_instant, parse_instant

_SHARE = "meltline.share"
_NAME = f"{_SHARE}.name"
_FROM = f"{_SHARE}.from"
_KIND = f"{_SHARE}.kind"
_MODE = f"{_SHARE}.mode"
_AT = f"{_SHARE}.at"
_WHO = f"{_SHARE}.who"
_AUTO, _MANUAL = "auto", "manual"

_OF = f"{_SHARE}.of"
_OF_UUID = f"{_SHARE}.of-uuid"
_DIGEST = f"{_SHARE}.digest"
_VOLATILE = ("last-updated-ms", "metadata-log")


@dataclass(frozen=True)
class Share:
    """A share.

    Attributes:
        name: Its name; its tables are in the namespace with that name.
        source: The table, schema or database that is shared.
        auto: Whether every daily run updates it; else only `share update` does.
        at: When it was last created or updated.
        who: The user who did that.
    """

    name: str
    source: ObjectName
    auto: bool
    at: datetime
    who: str

    @property
    def place(self) -> ObjectName:
        """The namespace of its tables."""
        return ObjectName(self.source.catalog, (self.name,))

    @property
    def mode(self) -> str:
        """How it is updated: `auto` or `manual`."""
        return _AUTO if self.auto else _MANUAL

    def written(self) -> dict[str, str]:
        """Serializes it as properties of its namespace; the source's name is without catalog."""
        levels = (*self.source.namespace, *([self.source.table] if self.source.table else []))
        return {
            _NAME: self.name,
            _FROM: ".".join(map(quote_part, levels)),
            _KIND: self.source.kind,
            _MODE: self.mode,
            _AT: format_instant(self.at),
            _WHO: self.who,
        }


def read_share(catalog: str, properties: Mapping[str, str]) -> Share | None:
    """Reads the share from a namespace's properties; None if it is no share."""
    try:
        levels = split_name(properties[_FROM])
        is_table = properties[_KIND] == ObjectKind.TABLE
        source = (
            ObjectName(catalog, levels[:-1], levels[-1])
            if is_table
            else ObjectName(catalog, levels)
        )
        at = parse_instant(properties[_AT])
        auto = properties[_MODE] == _AUTO
        return Share(properties[_NAME], source, auto, at, properties.get(_WHO, ""))
    except (KeyError, ValueError, IndexError):
        return None


@dataclass(frozen=True)
class Origin:
    """The source of a share's table: its UUID, and its name when the snapshot was pinned."""

    name: TableName
    uuid: str


def read_origin(properties: Mapping[str, str]) -> Origin | None:
    """Reads the source from a share's table; None if its properties were removed."""
    try:
        return Origin(TableName.parse(properties[_OF]), properties[_OF_UUID])
    except (KeyError, ValueError):
        return None


def pin(share: str, snapshot_id: int) -> SnapshotRef:
    """Returns the tag that keeps a share's snapshot."""
    return SnapshotRef(tag_of(share), snapshot_id, is_branch=False, max_ref_age_ms=FOREVER_MS)


def tag_of(share: str) -> str:
    """Returns the name of a share's tags."""
    return f"{SHARE_TAG}{share}"


def shared_document(source: Source, own: Identity, share: str, at: datetime) -> dict[str, Any]:
    """Builds the metadata of a share's table. Engines may never expire or purge it."""
    properties = copied_properties(source.state.properties) | {
        GC: "false",
        _NAME: share,
        _OF: str(source.state.name),
        _OF_UUID: source.state.uuid,
    }
    properties.pop(GC_BEFORE, None)
    document = document_of(source, own, at, properties)
    document["properties"][_DIGEST] = _digest(document)
    return document


def emptied(document: MetadataEditor) -> None:
    """Removes all file references from a table of a share. Its columns stay."""
    empty = only_snapshot(document.document, None)
    document.replace(empty | {"snapshot-log": []})


def is_of_share(properties: Mapping[str, str]) -> bool:
    """Whether a table was created for a share."""
    return any(key in properties for key in (_OF, _OF_UUID, _DIGEST))


def is_untouched(document: Mapping[str, Any]) -> bool:
    """Whether a share's table is unchanged since its creation: no other writer wrote to it."""
    stated_digest = (document.get("properties") or {}).get(_DIGEST)
    return bool(stated_digest == _digest(document))


def _digest(document: Mapping[str, Any]) -> str:
    properties = {k: v for k, v in (document.get("properties") or {}).items() if k != _DIGEST}
    content = {k: v for k, v in document.items() if k not in _VOLATILE} | {"properties": properties}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
