"""Similar names for a table that was not found.

`main` imports it only for such an error, since it lists the catalogs.
"""

from collections.abc import Sequence
from pathlib import Path

from meltline.app.catalog.resolve import with_similar
from meltline.cli.options import wire
from meltline.domain.errors import TableNotFound


def with_names_alike(error: TableNotFound, words: Sequence[str]) -> TableNotFound:
    """Adds to the error the similar names in the command's catalogs."""
    return with_similar(error, wire(_config(words)).ledgers().catalogs.values())


def _config(words: Sequence[str]) -> Path | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, is_joined, setting = word.partition("=")
        if name == "--config":
            return Path(setting if is_joined else following)
    return None
