"""The permanent store: each file of cold at its own path there, below one folder."""

from meltline.adapters.archive.copies import CopyTarget, Stores
from meltline.domain.errors import StoreRefused


class DeepCopies:
    """The port `DeepStore`.

    Args:
        stores: Cold's as where copies come from, the permanent one's as where they go.
        cold: Cold's once more, as where they come back to.
    """

    def __init__(self, stores: Stores, cold: CopyTarget) -> None:
        self._stores = stores
        self._cold = cold

    def hold(self, path: str, size: int) -> int:
        return size if self._stores.copy(path, size).is_new else 0

    def size(self, path: str) -> int | None:
        self._stores.pace.wait()
        return self._stores.cold.size(self._stores.target(path))

    def give_back(self, path: str) -> int:
        target = self._stores.target(path)
        size = self.size(path)
        if size is None:
            raise FileNotFoundError(path)
        self._stores.pace.wait(2)
        self._cold.write_stream(path, self._stores.cold.stream(target))
        if (held := self._cold.size(path)) != size:
            raise StoreRefused(
                f"{path} did not come back whole",
                object=path,
                expected=f"{size} bytes, as {target} has",
                found="no such file" if held is None else f"{held} bytes",
                next="run it again once the store answers",
            )
        return size
