"""The cold catalog as it stands: which of its tables holds the history of which hot table."""

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
    """The cold tier, to be read or written as the caller has it.

    Raises:
        ColdMissing: None is configured.
    """
    if context.cold is None:
        raise no_cold(context.config)
    return context.cold


def require_copies(context: ReadContext) -> CopyReader:
    """What reads copies apart from who made them; wired wherever cold is."""
    assert context.copies is not None
    return context.copies


def no_cold(config: Config) -> ColdMissing:
    """What to say where a cold tier is needed and none is configured."""
    return ColdMissing(
        "no cold tier is configured",
        object=str(config.path),
        expected="cold: NAME, where NAME is one of catalogs",
        found="no such key",
        next="add a catalog for the archive and name it, as docs/keep-history-cold.md shows",
    )


def plain_name(table: ObservedTable) -> TableName:
    """A table's name; of a dropped one, the name that it had."""
    return table.state.name if table.drop is None else table.drop.object.table_name


@dataclass
class ListedColdTables:
    """The tables of the cold catalog, listed once and read where they are asked for.

    Raises CatalogUnlistable where the catalog cannot be listed.

    Attributes:
        owner: This installation, whose tables these should be.
    """

    tier: ColdReader
    owner: ColdOwner
    _read: dict[TableName, TableMetadata] = field(default_factory=dict)
    _given: dict[TableName, str] = field(default_factory=dict)

    @classmethod
    def read(cls, context: ReadContext) -> "ListedColdTables":
        """Returns those of the cold tier. Raises ColdMissing where none is configured."""
        return cls(require_cold(context), ColdOwner.of(context))

    @cached_property
    def entries(self) -> Mapping[TableName, CatalogEntry]:
        """What the catalog lists, by name."""
        return {pointer.name: pointer for pointer in self.tier.catalog.listing().entries}

    def of(self, uuid: str, names: Iterable[TableName]) -> TableMetadata | None:
        """The cold table of a hot one; None where nothing of it has been handed over.

        Args:
            uuid: The hot table's.
            names: Those that the hot table has, or had. It is looked for elsewhere too.

        Raises:
            LedgerOutOfStep: It is another installation's.
            MeltlineError: A table that may be it cannot be read.
        """
        likely = [place for name in names for place in self._places(name, uuid)]
        for name in [*dict.fromkeys(likely), *self.entries]:
            if name in self.entries and self._state(name).properties.get(COLD_OF) == uuid:
                return self.require_own(self._state(name))
        return None

    def require_own(self, state: TableMetadata) -> TableMetadata:
        """Returns an archived table; one of another installation is refused.

        Raises:
            LedgerOutOfStep: Which installation.
        """
        self.owner.require(state)
        return state

    def place(self, uuid: str, name: TableName) -> TableName:
        """Under which name a table's history is kept: its own, unless another table's is there."""
        if (state := self.of(uuid, [name])) is not None:
            return state.name
        own, apart = self._places(name, uuid)
        # One that is handed over in the same night may be about to get that name.
        is_taken = own in self.entries or self._given.get(own, uuid) != uuid
        place = apart if is_taken else own
        self._given[place] = uuid
        return place

    def all(self) -> list[TableMetadata | MeltlineError]:
        """Every cold table, or why it cannot be read."""
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
    """A table's identity as a part of a name; tables of format 1 may have a location for one."""
    plain = uuid.replace("-", "")
    return plain if plain.isalnum() else sha256(uuid.encode()).hexdigest()[:32]
