"""The proof before each delete batch, at the cost of what changed since the last look."""

from collections.abc import Sequence

from meltline.app.metadata import load_state
from meltline.app.observe import observe, side_files_of
from meltline.app.services import Services
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.locations import location_key
from meltline.domain.table import TableState
from meltline.ports import CatalogEntry, SnapshotKey


class Reproof:
    """Keeps, while a purge runs, what every table referred to when it was last looked at.

    The first look observes everything, so the index covers it. Later looks list the catalogs and
    read only tables whose metadata moved: their unseen manifest lists and manifests.
    """

    def __init__(self, services: Services, paths: Sequence[str]) -> None:
        self._services = services
        observation = observe(services)
        self._refuse_blind(observation.purge_blocked)
        self._seen: dict[CatalogEntry, None] = {}
        self._known_lists: set[SnapshotKey] = set(observation.live)
        self._known_manifests: set[str] = set()
        # What the planned files were needed for at the first look, and at every later one.
        self._needed = {
            location_key(path) for path in services.files.referenced_now(paths, observation.dead)
        }
        self._named = {
            location_key(file.path)
            for table in observation.tables
            for file in side_files_of(table.state)
        }
        for table in observation.tables:
            self._seen[CatalogEntry(table.state.name, table.state.metadata_location)] = None
        # Tables that could not be read block their own group; they are looked at once they move.
        for entry in self._entries():
            if entry.name in observation.skipped:
                self._seen[entry] = None

    def still_needed(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that something refers to now.

        Raises:
            CatalogUnlistable: A catalog cannot be listed: nothing is deleted.
            PlanStale: A table that moved cannot be read: what it needs is unknown.
        """
        for entry in self._entries():
            if entry not in self._seen:
                self._look_at(entry)
                self._seen[entry] = None
        return {path for path in paths if location_key(path) in self._needed | self._named}

    def _entries(self) -> list[CatalogEntry]:
        catalogs = self._services.catalogs.values()
        return [entry for catalog in catalogs for entry in catalog.listing().entries]

    def _refuse_blind(self, reason: str) -> None:
        if reason:
            raise PlanStale(
                f"nothing may be purged: {reason}",
                object="purge",
                expected="every catalog listed, every table read once",
                found=reason,
                next="mend what cannot be read; the files wait in failsafe",
            )

    def _look_at(self, entry: CatalogEntry) -> None:
        if self._is_ledger(entry):
            return
        try:
            state = load_state(self._services.store, entry.name, entry.metadata_location)
            self._add(state)
        except (MeltlineError, FileNotFoundError) as odd:
            raise PlanStale(
                f"{entry.name} moved during the purge and cannot be read",
                object=str(entry.name),
                expected="metadata, manifest lists and manifests that can be read",
                found=str(odd),
                next="run again: the files wait in failsafe",
            ) from odd

    def _is_ledger(self, entry: CatalogEntry) -> bool:
        config = self._services.config
        return entry.name.catalog == config.hot and entry.name.namespace == (
            config.ledger_namespace,
        )

    def _add(self, state: TableState) -> None:
        store, manifests = self._services.store, self._services.manifests
        self._named |= {location_key(file.path) for file in side_files_of(state)}
        for snapshot in state.snapshots.values():
            key = SnapshotKey(state.uuid, snapshot.snapshot_id)
            if key in self._known_lists:
                continue
            self._needed.add(location_key(snapshot.manifest_list))
            if not snapshot.manifest_list:
                raise PlanStale(
                    f"{state.name}: a snapshot with inline manifests appeared during the purge",
                    object=str(state.name),
                    next="run again: it is observed first",
                )
            for manifest in manifests.read_list(
                snapshot.manifest_list, store.read(snapshot.manifest_list)
            ):
                if manifest.path in self._known_manifests:
                    continue
                live = manifests.live_paths(manifest, store.read(manifest.path))
                self._needed.add(location_key(manifest.path))
                self._needed.update(location_key(path) for path in live)
                self._known_manifests.add(manifest.path)
            self._known_lists.add(key)
