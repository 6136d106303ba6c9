"""A plan under evaluation, and the facts that every kind of plan must have.

The evidence modules build on it: `evidence` for purges, `expire_evidence` for expirations.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from meltline.app.archive.cold_facts import ColdFacts
from meltline.app.gate.proof import Proof
from meltline.app.gate.sources import GateSources
from meltline.app.ownership.confinement import Confinement
from meltline.app.ownership.protected_files import protected_among
from meltline.app.safety.owner_guards import OwnerGuards
from meltline.domain.deletion.half_seen import HalfSeenPlaces
from meltline.domain.deletion.plan import Plan
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.deletion.withheld import Why
from meltline.domain.iceberg.files import PlannedFile
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.retention.holds import is_held
from meltline.domain.retention.policy import Levels

Measures: TypeAlias = Mapping[str, Collection[str] | int | float | bool]
"""Facts by name: a number, a flag, or the objects that are counted."""


@dataclass(frozen=True)
class Surroundings:
    """Facts about the lake that all plans of a gate are compared with, read once.

    Attributes:
        now: Wall clock, when the gate began.
        protected: Location keys of tables' metadata files, current and in their logs.
        elsewhere: The other name under which a planned file may be needed.
        contested: Planned files that foreign owners may need, and the owner.
        half_seen: Half-seen locations, by current listings and by the ledger.
    """

    sources: GateSources
    now: datetime
    proof: Proof
    owners: OwnerIndex
    groups: Groups
    protected: Collection[str]
    elsewhere: Mapping[str, str]
    contested: Mapping[str, str]
    half_seen: HalfSeenPlaces

    @property
    def roots(self) -> Confinement:
        """The locations in which files may be deleted: inside a root, and not half seen."""
        return Confinement(self.sources.config.roots, self.sources.resolver, self.half_seen)

    def levels(self, state: TableMetadata) -> Levels:
        """Returns the properties that apply to a table, most specific first."""
        return self.proof.world.levels(state, self.sources.config.ledger_namespace)

    def is_held(self, state: TableMetadata) -> bool:
        """Returns whether a hold is on a table, or on a namespace of it."""
        return any(is_held(properties, self.now) for _, properties in self.levels(state))

    @cached_property
    def held(self) -> frozenset[str]:
        """The tables under a hold; cached, because many plans check all of their group."""
        return frozenset(state.uuid for state in self.proof.world.states if self.is_held(state))

    @cached_property
    def guarded(self) -> frozenset[str]:
        """The tables whose owners forbid deletions."""
        return OwnerGuards.read(self.sources.guards).among(self.proof.world.states)


@dataclass(frozen=True)
class Case:
    """A plan, its stored items, and the defects of the copies that it depends on."""

    plan: Plan
    files: Sequence[PlannedFile]
    cold: ColdFacts
    around: Surroundings

    @cached_property
    def paths(self) -> list[str]:
        """The paths of the planned files."""
        return [file.path for file in self.files]

    @property
    def owners(self) -> set[str]:
        """The plan's table, and the owners of planned files."""
        return {file.owner for file in self.files} | {self.plan.table_uuid}

    @property
    def members(self) -> frozenset[str]:
        """The tables of the plan's group, and the owners of its files."""
        return self._group | self.owners

    @property
    def _group(self) -> frozenset[str]:
        return self.around.groups.members(self.plan.table_uuid)

    def errors(self, uuids: Iterable[str]) -> list[str]:
        """Returns what could not be read of some tables."""
        return [error for uuid in uuids for error in self.around.proof.errors.get(uuid, ())]

    def common_measures(self, refused: Mapping[str, Why], unreadable: Collection[str]) -> Measures:
        """Returns the facts that every plan has.

        Args:
            refused: Planned files outside the roots, or half seen.
            unreadable: Unreadable objects that might need a planned file.
        """
        plan, paths, around = self.plan, self.paths, self.around
        digest = plan.digest_of(self.files)
        referenced, elsewhere = around.proof.referenced, around.elsewhere
        archives = around.sources.config.archives
        return {
            "digest_matches": digest == plan.digest and len(self.files) == plan.files,
            "planned_referenced": [p for p in paths if p in referenced]
            + [f"{p}, maybe the same as {elsewhere[p]}" for p in paths if p in elsewhere],
            "planned_unowned": [
                f.path
                for f in self.files
                if f.owner not in around.owners.owners_or(f.path, self._group)
            ],
            "planned_outside_roots": [p for p, why in refused.items() if why is not Why.HALF_SEEN],
            "planned_half_seen": [p for p, why in refused.items() if why is Why.HALF_SEEN],
            "planned_protected": protected_among(paths, around.protected, archives),
            "unreadable": unreadable,
            **self.cold.as_facts(),
            "tables_read": len(around.proof.world.states),
        }
