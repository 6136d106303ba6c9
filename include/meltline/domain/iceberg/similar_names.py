"""Suggests similar table names for a name that was not found."""

from collections.abc import Iterable
from difflib import get_close_matches

from meltline.domain.iceberg.names import TableName


def similar(text: str, names: Iterable[TableName], most: int = 3) -> list[TableName]:
    """Returns tables with the same last part, or else with similar names."""
    listed = {name.plain: name for name in sorted(names)}
    last = text.replace("`", "").rpartition(".")[2].casefold()
    same = [name for name in listed.values() if name.name.casefold() == last]
    close = get_close_matches(text.replace("`", ""), listed, most, 0.8)  # names begin alike
    by_last = {name.name.casefold(): name for name in listed.values()}
    alike = [by_last[word] for word in get_close_matches(last, by_last, most)]
    return (same or [listed[word] for word in close] or alike)[:most]
