"""Copying single files from hot to cold, verified, with memory that no file's length changes."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

from meltline.domain.cold_paths import mirrored
from meltline.domain.errors import StoreRefused
from meltline.ports import ObjectStore


class Pace:
    """Lets so many operations pass in a second, whoever asks.

    Args:
        per_second: How many; 0 for no limit.
    """

    def __init__(self, per_second: float = 0) -> None:
        self._per_second = per_second
        self._next = 0.0
        self._guard = Lock()

    def __reduce__(self) -> tuple[type["Pace"], tuple[float]]:
        return Pace, (self._per_second,)  # another process has a clock of its own

    def shared(self, parts: int) -> "Pace":
        """The pace of each of some that work at once."""
        return Pace(self._per_second / parts)

    def wait(self) -> None:
        """Waits until one operation may be sent."""
        if delay := self.delay(time.monotonic()):
            time.sleep(delay)

    def delay(self, now: float) -> float:
        """Takes one operation's turn, and says for how many seconds it has to wait.

        Args:
            now: Seconds on a clock that only goes on.
        """
        if not self._per_second:
            return 0.0
        with self._guard:
            due = max(self._next, now)
            self._next = due + 1 / self._per_second
        return due - now


@dataclass(frozen=True)
class Stores:
    """Where copies come from and where they go.

    Attributes:
        hot: The store of the hot catalog; `cold` likewise.
        warehouse: The folder of the cold catalog.
        same: Whether the two are one store, with the same credentials, that can copy by itself.
        pace: What each operation waits for.
        mends: Whether a copy of another length, or that nobody can read, is made anew. Only for
            snapshots that cold registered once: then it was whole, and is what hot still has.
    """

    hot: ObjectStore
    cold: ObjectStore
    warehouse: str
    same: bool = False
    pace: Pace = field(default_factory=Pace)
    mends: bool = False

    def target(self, path: str) -> str:
        """Where the copy of a file of hot lies.

        Raises:
            StoreRefused: It can have none.
        """
        try:
            return mirrored(path, self.warehouse)
        except ValueError as odd:
            raise _refused(path, "a path that names one place to every reader", str(odd)) from odd

    def read(self, path: str) -> bytes:
        """A file of hot, whole. Raises FileNotFoundError and StoreRefused."""
        self.pace.wait()
        return self.hot.read(path)

    def there(self, target: str) -> bytes | None:
        """A file of cold, whole; None where it is not there. Raises StoreRefused."""
        self.pace.wait()
        try:
            return self.cold.read(target)
        except FileNotFoundError:
            return None

    def write(self, target: str, content: bytes) -> None:
        """Writes a file of cold, and asks for its length. Raises StoreRefused."""
        self.pace.wait()
        self.cold.write_stream(target, [content])
        self._require(target, len(content))

    def copy(self, path: str, size: int) -> bool:
        """Has cold hold a file that is as long as its manifest says.

        Returns:
            False where cold had it.

        Raises:
            FileNotFoundError: Hot does not have it; or StoreRefused.
            StoreRefused: Either of the two is of another length, or a store refuses.
        """
        target = self.target(path)
        self.pace.wait()
        found = self.cold.size(target)
        if found == size:
            return False
        if found is not None and not self.mends:
            raise _refused(target, f"{size} bytes, as the manifest says", f"{found} bytes")
        if not (self.same and self._copied_inside(path, target, size)):
            self.pace.wait()
            self.cold.write_stream(target, self._counted(path, size))
        self._require(target, size)
        return True

    def _copied_inside(self, path: str, target: str, size: int) -> bool:
        """Has the store copy by itself what is as long as it should be; False where it cannot."""
        self.pace.wait()
        found = self.hot.size(path)
        if found != size:
            raise _refused(path, f"{size} bytes, as the manifest says", f"{found} bytes")
        self.pace.wait()
        return self.cold.copy(path, target)

    def _counted(self, path: str, size: int) -> Iterator[bytes]:
        """The parts of a file of hot; one of another length never becomes a copy."""
        sent = 0
        try:
            for part in self.hot.stream(path):
                sent += len(part)
                yield part
                self.pace.wait()
        except FileNotFoundError:
            raise _refused(path, f"{size} bytes, as the manifest says", "no such file") from None
        if sent != size:
            raise _refused(path, f"{size} bytes, as the manifest says", f"{sent} bytes")

    def _require(self, target: str, size: int) -> None:
        self.pace.wait()
        found = self.cold.size(target)
        if found != size:
            raise _refused(target, f"{size} bytes", "none" if found is None else f"{found} bytes")


def _refused(path: str, expected: str, found: str) -> StoreRefused:
    return StoreRefused(
        f"{path} cannot be handed over to cold: {found}, not {expected}",
        object=path,
        expected=expected,
        found=found,
        next="its snapshots stay hot; look at the file, and at its namesake in the other tier",
    )
