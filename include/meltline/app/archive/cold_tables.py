"""Finds the cold table with the history of a hot table.

Everything that reads or writes the archive calls it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Protocol, TypeVar

from meltline.app.catalog.metadata import load_state, load_states
from meltline.app.catalog.tables import ObservedTable
from meltline.app.safety.cold_owner import ColdOwner
from meltline.app.services import ColdReader, ReadContext
from meltline.config.load import Config
from meltline.domain.archive.archive import COLD_OF
from meltline.domain.errors import ColdMissing, MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import CatalogEntry, CopyReader

Tier_co = TypeVar("Tier_co", bound=ColdReader, covariant=True)


class _WithCold(Protocol[Tier_co]):
    @property
    def cold(self) -> Tier_co | None: ...

    @property
    def config(self) -> Config: ...


def require_cold(context: _WithCold[Tier_co]) -> Tier_co:
    """Returns the cold tier, with the access that the caller's context has.

    Raises:
        ColdMissing: None is configured.
    """
    if context.cold is None:
        raise no_cold(context.config)
    return context.cold


def require_copies(context: ReadContext) -> CopyReader:
    """Returns the reader of copies, which is independent of their writer; wired if cold is."""
    assert context.copies is not None
    return context.copies


def no_cold(config: Config) -> ColdMissing:
    """Returns the error of a missing cold tier."""
    return ColdMissing(
        "no cold tier is configured",
        object=str(config.path),
        expected="cold: NAME, where NAME is one of catalogs",
        found="no such key",
        next="add a catalog for the archive and name it, as docs/keep-history-cold.md shows",
    )


def plain_name(table: ObservedTable) -> TableName:
    """Returns a table's name; a dropped table's former name."""
    return table.state.name if table.drop is None else table.drop.object.table_name


@dataclass
class ListedColdTables:
    """The tables of the cold catalog, listed once and read on demand.

    Raises CatalogUnlistable if the catalog cannot be listed.

    Attributes:
        owner: This installation, which should own them.
    """

    tier: ColdReader
    owner: ColdOwner
    _read: dict[TableName, TableMetadata] = field(default_factory=dict)
    _given: dict[TableName, str] = field(default_factory=dict)

    @classmethod
    def read(cls, context: ReadContext) -> "ListedColdTables":
        """Returns the tables of the cold tier. Raises ColdMissing if none is configured."""
        return cls(require_cold(context), ColdOwner.of(context))

    @cached_property
    def entries(self) -> Mapping[TableName, CatalogEntry]:
        """The entries of the catalog, by name."""
        return {pointer.name: pointer for pointer in self.tier.catalog.listing().entries}

    def of(self, uuid: str, names: Iterable[TableName]) -> TableMetadata | None:
        """Returns the cold table of a hot one; None if nothing of it was archived.

        Args:
            uuid: The hot table's.
            names: The hot table's names, now or before. Other names are searched too.

        Raises:
            LedgerOutOfStep: It belongs to another installation.
            MeltlineError: A table that may be it cannot be read.
        """
        likely = [place for name in names for place in self._places(name, uuid)]
        for name in [*dict.fromkeys(likely), *self.entries]:
            if name in self.entries and self._state(name).properties.get(COLD_OF) == uuid:
                return self.require_own(self._state(name))
        return None

    def require_own(self, state: TableMetadata) -> TableMetadata:
        """Returns an archived table; refuses one of another installation.

        Raises:
            LedgerOutOfStep: It belongs to another installation, which the error names.
        """
        self.owner.require(state)
        return state

    def place(self, uuid: str, name: TableName) -> TableName:
        """Returns the name for a table's history: its own, unless another history has it."""
        if (state := self.of(uuid, [name])) is not None:
            return state.name
        own, apart = self._places(name, uuid)
        # A table in the same handoff may be about to get that name.
        is_taken = own in self.entries or self._given.get(own, uuid) != uuid
        place = apart if is_taken else own
        self._given[place] = uuid
        return place

    def all(self) -> list[TableMetadata | MeltlineError]:
        """Loads every cold table, or returns its error."""
        return list(load_states(self.tier.store, self.entries.values()).values())

    def _places(self, name: TableName, uuid: str) -> tuple[TableName, TableName]:
        own = TableName(self.tier.catalog.name, name.namespace, name.name)
        return own, replace(own, name=f"{name.name}__{_letters(uuid)}")

    def _state(self, name: TableName) -> TableMetadata:
        if name not in self._read:
            location = self.entries[name].metadata_location
            self._read[name] = load_state(self.tier.store, name, location)
        return self._read[name]


def _letters(uuid: str) -> str:
    """Returns a table's identity for use in a name; in format 1 it may be a location."""
    plain = uuid.replace("-", "")
    return plain if plain.isalnum() else sha256(uuid.encode()).hexdigest()[:32]
