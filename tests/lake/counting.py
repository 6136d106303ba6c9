"""A store that counts how often each object is read."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.store import MemoryStore


@dataclass
class CountingStore:
    """The store of a lake, and how often each object was read."""

    store: MemoryStore
    reads: Counter[str] = field(default_factory=Counter)

    def read(self, path: str) -> bytes:
        self.reads[path] += 1
        return self.store.read(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)
