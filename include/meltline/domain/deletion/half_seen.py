"""Half-seen places: of what needs the files there, a catalog shows only a part."""

from collections.abc import Iterable

from meltline.domain.iceberg.locations import claim_prefix, location_key


class HalfSeenPlaces:
    """Folders and buckets in which nothing may be deleted, by whatever table it is needed no more.

    A catalog with branches of its own may show the tables of one of them. What another branch
    needs cannot be told from what nobody needs.
    """

    def __init__(self, places: Iterable[str] = ()) -> None:
        self.places = tuple(dict.fromkeys(places))
        self._prefixes = tuple(sorted({name for place in self.places for name in _names(place)}))

    def holds(self, path: str) -> bool:
        """Whether a file lies in one of them, by its name alone; in doubt it does."""
        return claim_prefix(path).startswith(self._prefixes) or location_key(path).startswith(
            self._prefixes
        )


def is_place(text: str) -> bool:
    """Whether a warehouse, say, is a location; a server may know it by a name."""
    return text.startswith("/") or ":/" in text


def _names(place: str) -> tuple[str, str]:
    """As it is written, and as it is read: too wide a place keeps files, too narrow a one not."""
    return claim_prefix(place), f"{location_key(place).removesuffix('/')}/"
