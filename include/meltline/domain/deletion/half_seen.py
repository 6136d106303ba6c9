"""Half-seen locations: paths where a catalog shows only a part of the references to files.

Purges and sweeps delete nothing there.
"""

from collections.abc import Iterable

from meltline.domain.iceberg.locations import claim_prefix, location_key


class HalfSeenPlaces:
    """Folders and buckets in which nothing may be deleted, whichever table no longer needs it.

    A catalog with branches of its own, such as Nessie, may show only one branch's tables. Files
    that another branch references look unreferenced.
    """

    def __init__(self, places: Iterable[str] = ()) -> None:
        self.places = tuple(dict.fromkeys(places))
        self._prefixes = tuple(sorted({name for place in self.places for name in _names(place)}))

    def holds(self, path: str) -> bool:
        """Whether a file is in one of them, by its name alone; in doubt it is."""
        return claim_prefix(path).startswith(self._prefixes) or location_key(path).startswith(
            self._prefixes
        )


def is_place(text: str) -> bool:
    """Whether a text, such as a warehouse, is a location; a server may use a plain name instead."""
    return text.startswith("/") or ":/" in text


def _names(place: str) -> tuple[str, str]:
    """Returns the prefix as written and normalized: too wide keeps files, too narrow loses them."""
    return claim_prefix(place), f"{location_key(place).removesuffix('/')}/"
