"""Purge recheck: proves files unreferenced right before each batch of deletes.

It costs as much as has changed since its last read of the catalogs. The purge calls it, and the
post-delete check reads its result (`post_delete_check.py`). Plans are made from an observation
alone (`plan_purge.py`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

from meltline.app.catalog.current_tables import StandingTables
from meltline.app.observe.held_back import doubted_keys
from meltline.app.observe.observe import Observation, observe
from meltline.app.observe.recording import side_files_of
from meltline.app.ownership.confinement import Confinement
from meltline.app.ownership.foreign_owners import NamedFiles, contested_paths
from meltline.app.ownership.half_seen import half_seen_now, lying_in, place_in
from meltline.app.ownership.path_aliases import OtherNames, needed_by_other_names
from meltline.app.safety.purge_vetoes import wanted_files
from meltline.app.services import RunContext
from meltline.domain.deletion.half_seen import HalfSeenPlaces
from meltline.domain.deletion.withheld import Why
from meltline.domain.errors import HoldInForce, MeltlineError, PlanStale
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.path_aliases import places_in
from meltline.ports import (
    CatalogEntry,
    CatalogListing,
    FileReferences,
    ManifestReader,
    ObjectReader,
    VetoLedger,
)


@dataclass(frozen=True)
class RecheckInputs:
    """Inputs of a recheck, which changes nothing.

    Attributes:
        references: The references in the file index.
        names: Path aliases by which files may be needed, also those in some additional locations.
        half_seen: Half-seen locations, by what the catalogs list and by what their tables are.
        contested: Files that foreign owners may need by now.
    """

    tables: StandingTables
    references: FileReferences
    vetoes: VetoLedger
    store: ObjectReader
    manifests: ManifestReader
    names: Callable[[Collection[str]], OtherNames]
    half_seen: Callable[[Mapping[str, CatalogListing], Sequence[TableMetadata]], HalfSeenPlaces]
    roots: Callable[[HalfSeenPlaces], Confinement]
    contested: Callable[[Sequence[str]], Collection[str]]


class PurgeRecheck:
    """Keeps, during a purge, the references of all tables at the last read of the catalogs.

    The first read observes everything, so the index covers it. Later reads list the catalogs and
    read only tables whose metadata moved: their new manifest lists and manifests.

    Attributes:
        elsewhere: Files that the last read found needed, though not by their own path: by a path
            alias, a half-seen location or a foreign owner. A cancelled one would never be found
            again, so these stay in failsafe.
    """

    def __init__(
        self, inputs: RecheckInputs, observation: Observation, paths: Sequence[str]
    ) -> None:
        """Takes the latest observation, and the files that are to be deleted.

        Raises:
            PlanStale: Something that may need any file was not observed.
        """
        self._inputs = inputs
        self._observation = observation
        self._refuse_blind(observation.purge_blocked)
        self._seen: dict[CatalogEntry, None] = {}
        # By where each is recorded: under a name that moved there may be a copy with other files.
        self._known_lists: set[tuple[str, ...]] = {
            snapshot.as_written
            for table in observation.tables
            for snapshot in table.state.snapshots.values()
        }
        self._known_manifests: set[str] = set()
        # References by the file's location key: the first read covers the requested files,
        # each later one every file that was referenced since.
        self._named: dict[str, str] = {}
        self._dead = observation.dead
        self.elsewhere: set[str] = set()
        self._asked: set[str] = set()
        self._places: set[str] = set()  # of everything referenced since the first read
        self._look_up(paths)
        for table in observation.tables:
            self._note(*_side_files(table.state))
        self._groups = observation.groups
        self._states: dict[str, dict[TableName, TableMetadata]] = {}  # by UUID, then by name
        for table in observation.tables:
            self._remember(table.state)
        self._listings: dict[str, CatalogListing] = {}
        # A hold on each group that was asked for since the last read.
        self._held: dict[frozenset[str], TableName | None] = {}
        self._guards = inputs.tables.owner_guards()
        self._wanted: set[str] = set()
        for table in observation.tables:
            self._seen[CatalogEntry(table.state.name, table.state.metadata_location)] = None
        # Tables that could not be read block their own group; they are read once they move.
        for pointer in self._entries():
            if pointer.name in observation.skipped:
                self._seen[pointer] = None

    @classmethod
    def of(cls, context: RunContext, paths: Sequence[str]) -> "PurgeRecheck":
        """Does the first read. Raises as an observation does, and PlanStale."""
        observation = observe(context)
        inputs = RecheckInputs(
            StandingTables(context),
            context.files.references,
            context.control.vetoes,
            context.store,
            context.manifests,
            partial(OtherNames.now, context),
            partial(_half_seen, context),
            partial(Confinement, context.config.roots, context.resolver),
            partial(contested_paths, NamedFiles.of(context), observation.owners),
        )
        return cls(inputs, observation, paths)

    def still_needed(self, paths: Sequence[str]) -> set[str]:
        """Selects paths that are referenced now, also by a path alias.

        Raises:
            CatalogUnlistable: A catalog cannot be listed: nothing is deleted.
            PlanStale: A table that moved cannot be read, so the files it needs are unknown.
        """
        self.look()
        half_seen = self._half_seen_places()
        names = self._inputs.names({*self._places, *map(place_in, half_seen.places)})

        def needed_so(aliases: Sequence[str]) -> set[str]:
            doubted = {alias for alias in aliases if location_key(alias) in self._doubted_keys}
            named = self._named_by(aliases).keys() | doubted
            return named | lying_in(self._inputs.store, half_seen, aliases)

        needed = self._named_by(paths).keys()
        refused = self._inputs.roots(half_seen).refused(paths)
        elsewhere = set(needed_by_other_names(names, paths, needed_so))
        elsewhere |= {path for path, why in refused.items() if why is Why.HALF_SEEN}
        elsewhere |= set(self._inputs.contested(paths))
        self.elsewhere = elsewhere - needed
        return needed | elsewhere

    @cached_property
    def _doubted_keys(self) -> frozenset[str]:
        """Location keys of files in contradictory snapshots; the index does not have them."""
        try:
            return doubted_keys(self._inputs.store, self._inputs.manifests, self._observation)
        except (MeltlineError, FileNotFoundError) as error:
            self._refuse_blind(str(error))
            raise

    def _half_seen_places(self) -> HalfSeenPlaces:
        """Computes the half-seen locations by the last read."""
        by_name = (tables.values() for tables in self._states.values())
        return self._inputs.half_seen(self._listings, list(chain.from_iterable(by_name)))

    def look(self) -> None:
        """Lists the catalogs and reads what has moved since the last read; raises the same."""
        tables = self._inputs.tables
        moved = [
            pointer
            for pointer in self._entries()
            if pointer not in self._seen and not tables.is_ledger(pointer.name)
        ]
        loaded = tables.load(moved) if moved else {}
        for pointer in moved:
            self._look_at(pointer, loaded[pointer])
            self._seen[pointer] = None
        self._add_vetoed()
        self._guards = tables.owner_guards()

    def references_to(self, paths: Sequence[str]) -> dict[str, str]:
        """Returns deleted paths that were referenced at any read, with what referenced them.

        References by a path alias count too, unless a file exists under that alias. After a read
        that failed, it returns what had been read until then.
        """
        own = self._named_by(paths)
        names = self._inputs.names(self._places)
        pairs = [(path, name) for path in paths if path not in own for name in names.of(path)]
        by = self._named_by(sorted({name for _, name in pairs}))
        lost = {s.path for s in self._inputs.store.stats(sorted(by)) if s.file is None}
        return own | {path: f"{by[name]} as {name}" for path, name in pairs if name in lost}

    def _named_by(self, paths: Sequence[str]) -> dict[str, str]:
        """Returns paths that the index or a later commit references, with what references them."""
        self._look_up(paths)
        keys = ((path, location_key(path)) for path in paths)
        return {path: self._named[key] for path, key in keys if key in self._named}

    def _look_up(self, paths: Sequence[str]) -> None:
        """Asks the index once for each path; later commits are read here."""
        new = [path for path in paths if path not in self._asked]
        referenced = self._inputs.references.among(new, self._dead) if new else ()
        self._note(referenced, "a snapshot that the index knows")
        self._asked.update(new)

    def require_no_hold(self, owner: str) -> None:
        """Refuses while a hold covers a table or one that shares files with it.

        Refuses also if the table's owner forbids deletions. The answer is as of the last call of
        `still_needed`.

        Raises:
            HoldInForce: Which table is held.
        """
        self._require_no_guard(owner)
        members = self._groups.members(owner)
        if members not in self._held:
            self._held[members] = next(self._held_of(members), None)
        if name := self._held[members]:
            raise HoldInForce(
                f"{name} is under a hold: nothing of it may be purged",
                object=str(name),
                expected="no hold on the table, its namespaces or tables that share its files",
                found="a hold in force",
                next="`meltline hold list` says who holds it and why; its files wait",
            )

    def _require_no_guard(self, owner: str) -> None:
        for name, state in self._states.get(owner, {}).items():
            if setting := self._guards.of(state):
                raise HoldInForce(
                    f"the owner of {name} forbids deletions",
                    object=str(name),
                    expected=f"a table without {setting}=false",
                    found=f"{setting}=false",
                    next="`meltline doctor` says what it keeps and how to override it",
                )

    def _held_of(self, members: Iterable[str]) -> Iterator[TableName]:
        for state in (state for uuid in members for state in self._states.get(uuid, {}).values()):
            listing = self._listings.get(state.name.catalog)
            if listing is not None and self._inputs.tables.observed(state, listing).held:
                yield state.name

    def _add_vetoed(self) -> None:
        """Adds files of purge vetoes that were requested since the purge was planned."""
        rows = [w for w in self._inputs.vetoes.all() if w.id not in self._wanted]
        vetoed = wanted_files(self._inputs.store, self._inputs.manifests, rows)
        if vetoed.blind:
            raise PlanStale(
                "files that somebody wants back cannot be named",
                object="purge",
                expected="manifest lists and manifests that can be read",
                found="; ".join(vetoed.blind.values()),
                next="run again: the files wait in failsafe",
            )
        self._named.update(dict.fromkeys(vetoed.keys, "a snapshot that somebody wants back"))
        self._wanted |= {row.id for row in rows}

    def _entries(self) -> list[CatalogEntry]:
        self._listings, self._held = self._inputs.tables.listings(), {}
        return [pointer for listing in self._listings.values() for pointer in listing.entries]

    def _refuse_blind(self, reason: str) -> None:
        if reason:
            raise PlanStale(
                f"nothing may be purged: {reason}",
                object="purge",
                expected="every catalog listed, every table read once",
                found=reason,
                next="mend what cannot be read; the files wait in failsafe",
            )

    def _look_at(self, pointer: CatalogEntry, state: TableMetadata | MeltlineError) -> None:
        try:
            if isinstance(state, MeltlineError):
                raise state
            self._remember(state)
            self._read_new(state)
        except (MeltlineError, FileNotFoundError) as error:
            raise PlanStale(
                f"{pointer.name} moved during the purge and cannot be read",
                object=str(pointer.name),
                expected="metadata, manifest lists and manifests that can be read",
                found=str(error),
                next="run again: the files wait in failsafe",
            ) from error

    def _remember(self, state: TableMetadata) -> None:
        self._states.setdefault(state.uuid, {})[state.name] = state

    def _read_new(self, state: TableMetadata) -> None:
        """Notes paths before it reads them, so that a missing, unreadable file counts too."""
        store, manifests = self._inputs.store, self._inputs.manifests
        self._note_new(*_side_files(state))
        for snapshot in state.snapshots.values():
            key = snapshot.as_written
            by = f"{state.name}: snapshot {snapshot.snapshot_id}"
            if key in self._known_lists:
                continue
            self._note_new([snapshot.manifest_list], by)
            if not snapshot.manifest_list:
                raise PlanStale(
                    f"{state.name}: a snapshot with inline manifests appeared during the purge",
                    object=str(state.name),
                    next="run again: it is observed first",
                )
            listed = manifests.read_list(snapshot.manifest_list, store.read(snapshot.manifest_list))
            new = [manifest for manifest in listed if manifest.path not in self._known_manifests]
            self._note_new([manifest.path for manifest in new], by)
            for manifest in new:
                self._note_new(manifests.live_paths(manifest, store.read(manifest.path)), by)
                self._known_manifests.add(manifest.path)
            self._known_lists.add(key)

    def _note_new(self, paths: Iterable[str], by: str) -> None:
        """Notes paths that were not referenced at the first read, and where they lie."""
        paths = list(paths)
        self._note(paths, by)
        self._places |= places_in(paths, self._inputs.store.links_among)

    def _note(self, paths: Iterable[str], by: str) -> None:
        for path in paths:
            self._named.setdefault(location_key(path), by)


def _half_seen(
    context: RunContext, listings: Mapping[str, CatalogListing], states: Sequence[TableMetadata]
) -> HalfSeenPlaces:
    control = context.control
    places = half_seen_now(context.config, control.registrations, listings, states)
    return HalfSeenPlaces([*places, *control.places.half_seen()])


def _side_files(state: TableMetadata) -> tuple[list[str], str]:
    """Returns the files that a metadata file references directly, and what references them."""
    return [file.path for file in side_files_of(state)], f"{state.name}: {state.metadata_location}"
