"""Kills a process at any call of any port: after that it does nothing any more, as if by -9.

Or lets that one call fail, and the process lives on.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import RLock
from typing import Any, Protocol

from meltline.app.services import ColdTier, RunContext
from meltline.domain.errors import LockHeld, MeltlineError
from meltline.ports import ControlLedger, Lock
from meltline.testing.archive import MemoryArchive

PORTS = (
    "store", "manifests", "reader", "files", "committer", "deleter", "proofs", "gate",
    "copies", "rows",
)  # fmt: skip


class Killed(BaseException):
    """The process died. No `except Exception` may swallow it."""


class Caller(Protocol):
    """Makes calls, or does not."""

    def call(self, name: str, work: Callable[[], Any]) -> Any: ...


@dataclass
class Process:
    """Counts calls of ports, and dies at the given one, before or after it takes effect.

    Attributes:
        dies_at: The how manieth call; 0 is none.
        after: Whether that call takes effect before.
        about: What the names of the calls that count begin with.
        fails_with: What that call raises instead, if the process is to live on.
        calls: The calls so far, by name.
        dead: Whether it has died.
        is_struck: Whether it has died or one call has failed.
    """

    dies_at: int = 0
    after: bool = False
    about: str = ""
    fails_with: Exception | None = None
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    is_struck: bool = False
    _counted: int = 0
    _guard: Any = field(default_factory=RLock)

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        with self._guard:
            self._require_alive()
            self.calls.append(name)
            is_last = self._is_counted(name) and self._counted == self.dies_at
            if is_last and not self.after:
                self._strike()
            answer = work()
            if is_last and self.after:
                self._strike()
            return answer

    def _is_counted(self, name: str) -> bool:
        is_counted = name.startswith(self.about)
        self._counted += is_counted
        return is_counted

    def _strike(self) -> None:
        self.is_struck = True
        if self.fails_with is not None:
            raise self.fails_with
        self.dead = True
        self._require_alive()

    def _cold(self, services: RunContext, tier: ColdTier) -> dict[str, Any]:
        """Cold, and an archive that dies at any call that it makes itself."""
        store, catalog = Port(tier.store, "cold store", self), Port(tier.catalog, "cold", self)
        archive: Any = MemoryArchive(  # type: ignore[arg-type]
            catalog, store, tier.warehouse, services.clock, services.control.copies
        )
        return {"cold": ColdTier(catalog, store, tier.warehouse), "archive": archive}  # type: ignore[arg-type]

    def _require_alive(self) -> None:
        if self.dead:
            raise Killed(self.calls[-1])

    def of(self, services: RunContext) -> RunContext:
        """The services as this process uses them."""
        ports = {name: Port(getattr(services, name), name, self) for name in PORTS}
        ports["control"] = _control(services.control, self)
        catalogs = {name: Port(c, "catalog", self) for name, c in services.catalogs.items()}
        changes: dict[str, Any] = {**vars(services), **ports, "catalogs": catalogs}
        if services.cold is not None:
            changes |= self._cold(services, services.cold)
        return RunContext(**changes)


class Port:
    """A port each of whose calls goes through a process."""

    def __init__(self, target: Any, name: str, process: "Caller") -> None:
        self._target, self._name, self._process = target, name, process

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._target, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            name = f"{self._name}.{attribute}"
            return self._process.call(name, lambda: found(*args, **named))

        return call


def _control(control: ControlLedger, process: Process) -> ControlLedger:
    """The ledger, each of whose parts is a port."""
    parts: dict[str, Any] = {
        part: Port(port, f"control.{part}", process) for part, port in vars(control).items()
    }
    parts["locks"] = _Locks(control.locks, "control.locks", process)
    return ControlLedger(**parts)


class _Locks(Port):
    """Locks whose holder, once dead, neither renews nor frees them."""

    @contextmanager
    def take(self, key: str, holder: str, *, wait: timedelta, lease: timedelta) -> Iterator[Lock]:
        with self.take_all({key: holder}, wait=wait, lease=lease) as held:
            lock = held[key]
            if not isinstance(lock, Lock):
                raise lock
            yield lock

    @contextmanager
    def take_all(
        self, holders: Mapping[str, str], *, wait: timedelta, lease: timedelta
    ) -> Iterator[Mapping[str, Lock | MeltlineError]]:
        held: dict[str, Lock | MeltlineError] = {}
        left = dict(sorted(holders.items()))
        while left:
            taken = self._call("take", left, lease)
            held |= {lock.key: lock for lock in taken}
            left = {key: holder for key, holder in left.items() if key not in held}
            if left:
                key = next(iter(left))
                held[key] = LockHeld(f"{key} is held", object=key)
                del left[key]
        try:
            yield held
        finally:
            self._call("release", [lock for lock in held.values() if isinstance(lock, Lock)])

    def _call(self, name: str, *args: Any) -> Any:
        step = getattr(self._target.rows, name)
        return self._process.call(f"{self._name}.{name}", lambda: step(*args))
