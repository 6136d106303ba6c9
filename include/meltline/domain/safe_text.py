"""Makes third-party text safe to show and to paste: names may hold any character.

Errors, suggested commands and pages use it.
"""

import shlex
import unicodedata
from collections.abc import Iterable

_HIDDEN = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))
"""Unicode categories that change how a text reads: escape codes, direction marks, line breaks."""


def visible(text: str, *, keep: str = "") -> str:
    """Escapes characters that are invisible, or that change how others are shown.

    Args:
        text: Any text.
        keep: Such characters that stay, for example the line breaks of a text of several lines.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter if letter in keep or not _is_hidden(letter) else _escaped(letter) for letter in text
    )


def quote(word: object) -> str:
    """Quotes an argument of a suggested command for a shell.

    An argument with hidden characters is spelled `$'...'`, as bash and zsh read it.
    """
    text = str(word)
    if not any(map(_is_hidden, text)):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{visible(escaped)}'"


def quote_all(words: Iterable[object]) -> str:
    """Quotes several arguments, separated by spaces."""
    return " ".join(map(quote, words))


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in _HIDDEN


def _escaped(letter: str) -> str:
    number = ord(letter)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
