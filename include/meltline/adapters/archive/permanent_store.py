"""The permanent store: mirrors each file of cold at the same path below one folder.

It copies with the archive's own code, with cold as the source.
"""

from meltline.adapters.archive.copies import CopyTarget, Stores
from meltline.domain.errors import StoreRefused


class DeepCopies:
    """The port `DeepStore`.

    Args:
        stores: The cold store as the source of copies, the permanent one as their target.
        cold: The cold store again, as the target of restored files.
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
