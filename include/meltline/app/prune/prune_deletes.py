"""The deletes of a prune: after its snapshots have left the table, and only on a fresh proof."""

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
    """What a prune came to, or would come to.

    Attributes:
        table: The hot table's name.
        cold: The cold table.
        snapshots: Those that leave, or have left.
        tags: Tags that go with them.
        files: How many files nothing else refers to; `bytes` their sizes.
        deleted: Of these, how many are gone.
        kept: Files that something came to need meanwhile.
        errors: Files that could not be deleted, and why: the next prune tries again.
        digest: The plan's; empty where there is nothing to do.
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
    """What deletes the files of one table's prunes.

    Attributes:
        cold: The cold table's name.
        uuid: The hot table's UUID.
        locks: What the prune holds.
        gate: Knows whether a plan has a verdict that lets it go on.
        batch: How many files go at once.
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
        """Plans of earlier prunes whose files are not all gone."""
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
        """Deletes what is left of a prune whose snapshots have left the table.

        One of them may have been handed over anew since: it stays, with all that it needs.
        """
        standing = self._state().snapshots
        removed = [id for id in plan.snapshots if id not in standing]
        self.context.control.archived.forget(self.uuid, removed)
        self.delete(plan, pruned)

    def delete(self, plan: PrunePlan, pruned: Pruned) -> None:
        """Batch by batch, none on a proof older than five minutes; what is needed stays."""
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
        """Deletes what lies in cold, and forgets what was known of it."""
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
        """Refuses without a passed verdict on the plan, once all is stopped, or a lock is lost."""
        require_go(self.context.control.switch)
        self.gate.require_passed(plan)
        for lock in self.locks:
            self.context.control.locks.check(lock)
