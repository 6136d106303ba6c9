"""Kills a process at any call that it makes for chunks, those of the engine in cold among them.

Or has somebody else act just before that call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from meltline.app.services import RunContext
from tests.doubles.chunks import MemoryReplicator, MemoryRollupEngine, TableWriter
from tests.lake.lake import Lake
from tests.lives.kills import Caller, Port, Process

_CHUNK_PORTS = ("chunk_files", "cold_chunk_files", "chunk_rows", "dropper")


@dataclass
class ChunkProcess(Process):
    """A process that also dies at calls of the chunks' ports."""

    lake: Lake | None = None

    def of(self, services: RunContext) -> RunContext:
        told = super().of(services)
        assert self.lake is not None
        changes: dict[str, Any] = {**vars(told), **chunk_ports(self.lake, services, self)}
        return RunContext(**changes)


def chunk_ports(lake: Lake, services: RunContext, caller: Caller) -> dict[str, Any]:
    """The chunks' ports, each of whose calls goes through somebody; a copy's own steps too."""
    ports: dict[str, Any] = {
        name: Port(getattr(services, name), name, caller) for name in _CHUNK_PORTS
    }
    return {
        **ports,
        "replicator": MemoryReplicator(_writer(lake, "replicator", caller)),
        "rollups": MemoryRollupEngine(_writer(lake, "rollups", caller)),
    }


def _writer(lake: Lake, name: str, caller: Caller) -> TableWriter:
    """Writes for an engine, each of whose own steps goes through somebody."""
    everything = {**lake.catalogs, "ice": lake.cold}
    catalogs: Any = {key: Port(catalog, name, caller) for key, catalog in everything.items()}
    return TableWriter(catalogs, lake.store, lake.clock, lake.next_id)


@dataclass
class Bystander:
    """Lets every call pass, and acts once, just before the given one.

    Attributes:
        acts_at: The how manieth call.
        about: What the names of the calls that count begin with.
    """

    acts_at: int
    about: str
    act: Callable[[], object]
    has_acted: bool = False
    calls: list[str] = field(default_factory=list)

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        self.calls.append(name)
        counted = sum(name.startswith(self.about) for name in self.calls)
        if counted >= self.acts_at and not self.has_acted and name.startswith(self.about):
            self.has_acted = True
            self.act()
        return work()

    def of(self, lake: Lake, services: RunContext) -> RunContext:
        """The services as one uses them beside whom others act."""
        ledger = {
            part: Port(port, f"control.{part}", self)
            for part, port in vars(services.control).items()
            if part != "locks"
        }
        control: Any = type(services.control)(**{**vars(services.control), **ledger})
        changes: dict[str, Any] = {**vars(services), "control": control}
        return RunContext(**{**changes, **chunk_ports(lake, services, self)})
