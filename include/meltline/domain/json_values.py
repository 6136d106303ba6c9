"""Converts facts to JSON values, for `--json` and the pages.

Both use it, so that a command and a page show the same document.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_instant


def plain(node: Any) -> Any:
    """Converts facts to JSON values: instants in UTC with Z, names as Spark SQL writes them."""
    if dataclasses.is_dataclass(node) and not isinstance(node, (type, TableName)):
        return {f.name: plain(getattr(node, f.name)) for f in dataclasses.fields(node)}
    if isinstance(node, Mapping):
        return {str(key): plain(child) for key, child in node.items()}
    if isinstance(node, (Sequence, set, frozenset)) and not isinstance(node, str):
        return [plain(child) for child in node]
    return _leaf(node)


def _leaf(node: Any) -> bool | int | float | str | None:
    if node is None or isinstance(node, (bool, int, float)):
        return node
    return format_instant(node) if isinstance(node, datetime) else str(node)
