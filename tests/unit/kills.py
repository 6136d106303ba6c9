"""Kills a process at any call of any port: after that it does nothing any more, as if by -9."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import RLock
from typing import Any

from meltline.adapters.memory.archive import MemoryArchive
from meltline.app.services import ColdTier, Services
from meltline.domain.errors import LockHeld, MeltlineError
from meltline.ports import Lock

PORTS = (
    "store", "manifests", "control", "reader", "files", "committer", "deleter", "proofs", "gate",
    "copies", "rows",
)  # fmt: skip


class Killed(BaseException):
    """The process died. No `except Exception` may swallow it."""


@dataclass
class Process:
    """Counts calls of ports, and dies at the given one, before or after it takes effect."""

    dies_at: int = 0
    after: bool = False
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    _guard: Any = field(default_factory=RLock)

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        with self._guard:
            self._require_alive()
            self.calls.append(name)
            is_last = len(self.calls) == self.dies_at
            self.dead = self.dead or (is_last and not self.after)
            self._require_alive()
            answer = work()
            self.dead = self.dead or is_last
            self._require_alive()
            return answer

    def _cold(self, services: Services, tier: ColdTier) -> dict[str, Any]:
        """Cold, and an archive that dies at any call that it makes itself."""
        store, catalog = _Port(tier.store, "cold store", self), _Port(tier.catalog, "cold", self)
        archive: Any = MemoryArchive(catalog, store, tier.warehouse, services.clock)  # type: ignore[arg-type]
        return {"cold": ColdTier(catalog, store, tier.warehouse), "archive": archive}  # type: ignore[arg-type]

    def _require_alive(self) -> None:
        if self.dead:
            raise Killed(self.calls[-1])

    def of(self, services: Services) -> Services:
        """The services as this process uses them."""
        ports = {name: _Port(getattr(services, name), name, self) for name in PORTS}
        ports["control"] = _Control(services.control, "control", self)
        catalogs = {name: _Port(c, "catalog", self) for name, c in services.catalogs.items()}
        changes: dict[str, Any] = {**vars(services), **ports, "catalogs": catalogs}
        if services.cold is not None:
            changes |= self._cold(services, services.cold)
        return Services(**changes)


class _Port:
    def __init__(self, target: Any, name: str, process: Process) -> None:
        self._target, self._name, self._process = target, name, process

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._target, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            name = f"{self._name}.{attribute}"
            return self._process.call(name, lambda: found(*args, **named))

        return call


class _Control(_Port):
    """Locks whose holder, once dead, neither renews nor frees them."""

    @contextmanager
    def lock(self, key: str, holder: str, *, wait: timedelta, lease: timedelta) -> Iterator[Lock]:
        with self.locks({key: holder}, wait=wait, lease=lease) as held:
            lock = held[key]
            if not isinstance(lock, Lock):
                raise lock
            yield lock

    @contextmanager
    def locks(
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
        return self._process.call(f"control.{name}", lambda: getattr(self._target, name)(*args))
