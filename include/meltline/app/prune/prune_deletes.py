"""Deletes the files of a prune, after its snapshots have left the table, on a recent proof only.

`cold_prune.py` calls it, also to finish earlier prunes. It is apart from the plan and the commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meltline.app.catalog.metadata import load_state
from meltline.app.ownership.confinement import Confinement
from meltline.app.ownership.half_seen import remembered_places
from meltline.app.prune.prune_evidence import PROOF_LASTS, needed
from meltline.app.prune.prune_gate import PruneGate
from meltline.app.safety.preconditions import require_go
from meltline.app.services import ColdTier, ReadContext
from meltline.domain.archive.pruning import PRUNING, PrunePlan, read_plan
from meltline.domain.archive.seals import sealing
from meltline.domain.errors import PlanAltered
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.ports import Lock

_BATCH = 1000  # files


@dataclass
class Pruned:
    """Result of a prune, or what a dry run expects.

    Attributes:
        table: The hot table's name.
        cold: The cold table.
        snapshots: The snapshots that are removed, or will be.
        tags: Tags that are removed with them.
        files: How many files nothing else references; `bytes` their sizes.
        deleted: How many of the files are deleted.
        kept: Files that were referenced again meanwhile.
        errors: Files that could not be deleted, and why: the next prune tries again.
        digest: The plan's; empty if there is nothing to do.
        done: Whether it was carried out.
    """

    table: TableName
    cold: TableName
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    deleted: int = 0
    kept: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    digest: str = ""
    done: bool = False


@dataclass(frozen=True)
class PruneDeletes:
    """Deletes the files of one table's prunes.

    Attributes:
        cold: The cold table's name.
        uuid: The hot table's UUID.
        locks: The locks that the prune has taken.
        gate: Checks that a plan has a valid verdict.
        batch: How many files are deleted at once.
    """

    context: ReadContext
    tier: ColdTier
    cold: TableName
    uuid: str
    locks: Sequence[Lock]
    gate: PruneGate
    batch: int = _BATCH

    def _state(self) -> TableMetadata:
        return load_state(self.tier.store, self.cold, self.tier.catalog.location(self.cold))

    def unfinished(self) -> list[PrunePlan]:
        """Returns the plans of earlier prunes whose files are not all deleted."""
        state = self._state()
        return [
            self._read(place, key)
            for key, place in state.properties.items()
            if key.startswith(PRUNING)
        ]

    def _read(self, place: str, key: str) -> PrunePlan:
        content = "no such file"
        try:
            plan = read_plan(self.tier.store.read(place))
            if plan.key == key and plan.table_uuid == self.uuid:
                return plan
            content = plan.digest
        except FileNotFoundError:
            pass
        except ValueError as error:
            content = str(error)
        raise PlanAltered(
            f"the plan of a prune of {self.cold} that was begun is not what it was",
            object=place,
            expected=key,
            found=content,
            next="nothing more is deleted; bring the file back from a copy",
        )

    def finish(self, plan: PrunePlan, pruned: Pruned) -> None:
        """Deletes the remaining files of a prune whose snapshots have left the table.

        A snapshot may have been archived again since: it stays, with all files that it needs.
        """
        standing = self._state().snapshots
        removed = [id for id in plan.snapshots if id not in standing]
        self.context.control.archived.forget(self.uuid, removed)
        self.delete(plan, pruned)

    def delete(self, plan: PrunePlan, pruned: Pruned) -> None:
        """Deletes in batches, on a proof of at most five minutes; files that are needed stay."""
        clock, proved, spared = self.context.clock, None, set[str]()
        for start in range(0, len(plan.files), self.batch):
            if proved is None or clock.now() - proved >= PROOF_LASTS:
                proved, spared = clock.now(), needed(self.context, self.tier, plan, removed=True)
            self.require_still_allowed(plan)
            batch = plan.files[start : start + self.batch]
            self._delete_batch([path for path in batch if path not in spared], pruned)
        pruned.kept += sorted(spared)
        if not pruned.errors and not spared:
            self._forget(plan)

    def _delete_batch(self, paths: Sequence[str], pruned: Pruned) -> None:
        """Deletes files that lie in cold, and removes their records from the ledger."""
        outside = self._confinement().refused(paths)
        pruned.errors += [f"{path}: not deleted: {why}" for path, why in outside.items()]
        outcomes = self.tier.remover.delete([path for path in paths if path not in outside])
        pruned.errors += [f"{o.path}: {o.error}" for o in outcomes if o.error]
        deleted = [outcome.path for outcome in outcomes if not outcome.error]
        self.context.control.copies.forget(deleted)
        pruned.deleted += len(deleted)

    def _confinement(self) -> Confinement:
        half_seen = remembered_places(self.context.control.places)
        return Confinement([self.tier.warehouse], self.tier.resolver, half_seen)

    def _forget(self, plan: PrunePlan) -> None:
        place = self._state().properties[plan.key]
        self.tier.editor.edit_table(
            self.cold, sealing(lambda document: document.set_properties({}, [plan.key]))
        )
        self.tier.remover.delete([place])

    def require_still_allowed(self, plan: PrunePlan) -> None:
        """Refuses without a passed verdict on the plan, after a stop, or if a lock is lost."""
        require_go(self.context.control.switch)
        self.gate.require_passed(plan)
        for lock in self.locks:
            self.context.control.locks.check(lock)
