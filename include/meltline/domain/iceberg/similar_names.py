"""Names that somebody may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from meltline.domain.iceberg.names import TableName


def similar(text: str, names: Iterable[TableName], most: int = 3) -> list[TableName]:
    """Tables that somebody may have meant who wrote this: of the same last part, else alike."""
    listed = {name.plain: name for name in sorted(names)}
    last = text.replace("`", "").rpartition(".")[2].casefold()
    same = [name for name in listed.values() if name.name.casefold() == last]
    close = get_close_matches(text.replace("`", ""), listed, most, 0.8)  # they begin alike anyway
    by_last = {name.name.casefold(): name for name in listed.values()}
    alike = [by_last[word] for word in get_close_matches(last, by_last, most)]
    return (same or [listed[word] for word in close] or alike)[:most]
