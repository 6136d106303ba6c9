"""The permanent store: each file of cold at its own path there, below one folder."""

from meltline.adapters.archive.copies import Stores


class DeepCopies:
    """The port `DeepStore`.

    Args:
        stores: Cold's as where copies come from, the permanent one's as where they go.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def hold(self, path: str, size: int) -> int:
        return size if self._stores.copy(path, size).is_new else 0

    def size(self, path: str) -> int | None:
        self._stores.pace.wait()
        return self._stores.cold.size(self._stores.target(path))
