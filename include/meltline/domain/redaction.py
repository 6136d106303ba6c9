"""Words that are not to be repeated. What a library says may quote an address with its password.

The process knows its secrets from when its configuration is loaded. Errors pass through here when
they are made, so that nothing which is built of them holds one: answers, the ledger, pages, XComs.
"""

from collections.abc import Iterable

_UNTOLD: set[str] = set()
_STARS = "***"


def keep_untold(words: Iterable[str]) -> None:
    """From now on these words are stars in whatever is told."""
    _UNTOLD.update(filter(None, words))


def discreet(text: str) -> str:
    """A text without what must not be told."""
    for word in sorted(_UNTOLD, key=len, reverse=True):  # one may be part of another
        text = text.replace(word, _STARS)
    return text


def cause(error: BaseException) -> str:
    """What an error of somebody else's is, in words that may be told."""
    return discreet(f"{type(error).__name__}: {error}")
