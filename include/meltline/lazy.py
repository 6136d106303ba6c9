"""Lazy proxy: builds the wrapped object on first attribute access.

The wiring uses it, so that a command loads only what it uses.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

T = TypeVar("T")


def late(build: Callable[[], T]) -> T:
    """Returns a proxy that builds its object when an attribute is accessed for the first time."""
    return cast(T, _Late(build))


class _Late:
    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> Any:
        return self._build()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._built, name)
