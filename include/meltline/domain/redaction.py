"""Redacts secrets in texts: a library's error may quote an address with its password.

The process knows its secrets once its configuration is loaded. Errors are redacted when they are
created, so that nothing built from them contains a secret: results, ledger, pages, XComs.
"""

from collections.abc import Iterable

_UNTOLD: set[str] = set()
_STARS = "***"


def keep_untold(words: Iterable[str]) -> None:
    """Registers secrets that are replaced by stars in every text from now on."""
    _UNTOLD.update(filter(None, words))


def discreet(text: str) -> str:
    """Returns a text without the registered secrets."""
    for word in sorted(_UNTOLD, key=len, reverse=True):  # longest first: one may be part of another
        text = text.replace(word, _STARS)
    return text


def cause(error: BaseException) -> str:
    """Describes a third-party error without secrets."""
    return discreet(f"{type(error).__name__}: {error}")
