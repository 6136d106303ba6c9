"""Kills a process at any call of any port: after that it does nothing any more, as if by -9.

Or lets that one call fail, and the process lives on.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from threading import RLock
from typing import Any, Protocol

from meltline.app.services import ColdTier, RunContext
from meltline.domain.errors import LockHeld, MeltlineError
from meltline.ports import ControlLedger, FileLedger, Lock
from tests.doubles.archive import MemoryArchive

PORTS = (
    "manifests", "reader", "committer", "deleter", "proofs", "gate",
    "copies", "rows",
)  # fmt: skip
CATALOG = ("catalogs", "editors", "registrars")
STORE = ("store", "writer", "remover", "resolver")


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
        struck_at: The call that did; calls that it made itself may follow it in `calls`.
    """

    dies_at: int = 0
    after: bool = False
    about: str = ""
    fails_with: Exception | None = None
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    is_struck: bool = False
    struck_at: str = ""
    _counted: int = 0
    _guard: Any = field(default_factory=RLock)

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        with self._guard:
            self._require_alive()
            self.calls.append(name)
            is_last = self._is_counted(name) and self._counted == self.dies_at
            if is_last and not self.after:
                self._strike(name)
            try:
                return work()
            finally:  # whatever it answers: a row that is not there is an answer too
                if is_last and self.after:
                    self._strike(name)

    def _is_counted(self, name: str) -> bool:
        is_counted = name.startswith(self.about)
        self._counted += is_counted
        return is_counted

    def _strike(self, call: str) -> None:
        self.is_struck = True
        self.struck_at = call
        if self.fails_with is not None:
            raise self.fails_with
        self.dead = True
        self._require_alive()

    def _cold(self, services: RunContext, tier: ColdTier) -> dict[str, Any]:
        """Cold, and an archive that dies at any call that it makes itself."""
        store, catalog = told_store(tier, "cold store", self), Port(tier.catalog, "cold", self)
        archive: Any = MemoryArchive(  # type: ignore[arg-type]
            catalog, store["store"], tier.warehouse, services.clock, services.control.copies
        )
        catalogs: Any = dict.fromkeys(("catalog", "editor", "registrar"), catalog)
        told: Any = ColdTier(**catalogs, warehouse=tier.warehouse, **store)  # type: ignore[arg-type]
        return {"cold": told, "archive": archive}

    def _require_alive(self) -> None:
        if self.dead:
            raise Killed(self.calls[-1])

    def of(self, services: RunContext) -> RunContext:
        """The services as this process uses them."""
        ports = told_ports(services, self)
        locks: Any = _Locks(services.control.locks, "control.locks", self)
        ports["control"] = replace(ports["control"], locks=locks)
        changes: dict[str, Any] = {**vars(services), **ports}
        if services.cold is not None:
            changes |= self._cold(services, services.cold)
        return RunContext(**changes)


def told_ports(services: RunContext, caller: Caller) -> dict[str, Any]:
    """The ports of services, each of whose calls goes through somebody."""
    ports: dict[str, Any] = {n: Port(getattr(services, n), n, caller) for n in PORTS}
    ports |= told_store(services, "store", caller)
    parts: dict[str, Any] = {
        part.name: Port(getattr(services.files, part.name), "files", caller, f"_{part.name}")
        for part in fields(FileLedger)
    }
    of_control: dict[str, Any] = {
        part: Port(port, f"control.{part}", caller) for part, port in vars(services.control).items()
    }
    for role in CATALOG:
        named = getattr(services, role)
        ports[role] = {name: Port(catalog, "catalog", caller) for name, catalog in named.items()}
    return {**ports, "files": FileLedger(**parts), "control": ControlLedger(**of_control)}


def told_store(owner: object, name: str, caller: Caller) -> dict[str, Any]:
    """The same of what a store may be asked: it is one."""
    return {field: Port(getattr(owner, field), name, caller) for field in STORE}


class Port:
    """A port each of whose calls goes through a process, `files.record_departures` by name."""

    def __init__(self, target: Any, name: str, process: "Caller", part: str = "") -> None:
        self._target, self._name, self._process, self._part = target, name, process, part

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._target, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            name = f"{self._name}.{attribute}{self._part}"
            return self._process.call(name, lambda: found(*args, **named))

        return call


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
