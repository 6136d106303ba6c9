"""Lazy proxy: builds the wrapped object on first attribute access.

A command then loads nothing that it does not use.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

T = TypeVar("T")


def late(build: Callable[[], T]) -> T:
    """Stands for an object, and builds it when the first of its attributes is asked for."""
    return cast(T, _Late(build))


class _Late:
    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    @cached_property
    def _built(self) -> Any:
        return self._build()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._built, name)
