"""Batches of a purge: what is claimed, proved and deleted together.

A plan's batches never change, so that a run that goes on finds them as they were. Small ones, of
many plans, go in one wave: one look at the catalogs proves them all, and one call deletes them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from meltline.app.permission import require_go
from meltline.app.reproof import Reproof
from meltline.app.services import Services
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.files import PlannedFile
from meltline.domain.plan import Plan
from meltline.ports import DeleteOutcome, Lock

BATCH = 20_000  # never by configuration: a run that goes on must find the batches as they were
_SECONDS_PER_PROOF = 60
_PROOF_LASTS = timedelta(minutes=5)


@dataclass
class PlanInHand:
    """A plan while it is purged.

    Attributes:
        group: The key of its table's group.
        begun: The plan as it was begun; None before, and where another run has finished it.
        lock: The group's lock, from when it was begun.
        error: What stopped it.
    """

    plan: Plan
    files: Sequence[PlannedFile]
    group: str
    begun: Plan | None = None
    lock: Lock | None = None
    error: MeltlineError | None = None
    deleted: list[PlannedFile] = field(default_factory=list)
    cancelled: list[PlannedFile] = field(default_factory=list)
    failed: list[DeleteOutcome] = field(default_factory=list)


@dataclass
class Batch:
    """One of a plan's batches: what the control ledger has claimed at once."""

    of: PlanInHand
    number: int
    files: Sequence[PlannedFile]


Item = tuple[Batch, PlannedFile]


def batches_of(one: PlanInHand) -> Iterator[Batch]:
    """A plan's batches, always the same.

    One at least: a plan whose items are lost has to be begun too, for that is where it is refused.
    """
    for number, start in enumerate(range(0, max(1, len(one.files)), BATCH)):
        yield Batch(one, number, one.files[start : start + BATCH])


def in_waves(services: Services, batches: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
    """Batches in their order, as many at a time as one proof may serve."""
    most = min(BATCH, _at_once(services))
    wave: list[Batch] = []
    files = 0
    for batch in batches:
        if wave and files + len(batch.files) > most:
            yield wave
            wave, files = [], 0
        wave.append(batch)
        files += len(batch.files)
    if wave:
        yield wave


def _at_once(services: Services) -> int:
    """So many files are deleted within the minute after their proof, at the configured rate."""
    return max(1, services.config.limits.delete_keys_per_second * _SECONDS_PER_PROOF)


@dataclass
class Waves:
    """Deletes claimed batches, each file within minutes of its proof."""

    services: Services
    reproof: Reproof

    def delete(self, claimed: Sequence[Batch]) -> None:
        """Deletes what nothing refers to, and settles the claims.

        What stops all of them, such as a catalog that cannot be listed, is the error of each.
        """
        items = [(batch, file) for batch in claimed for file in batch.files]
        failed_before = [len(batch.of.failed) for batch in claimed]
        self._tell(claimed, len(items))
        at_once = _at_once(self.services)
        try:
            for start in range(0, len(items), at_once):
                if start:
                    require_go(self.services)
                self._delete_part(items[start : start + at_once])
        except MeltlineError as stop:
            for batch in claimed:
                batch.of.error = batch.of.error or stop
        for batch, before in zip(claimed, failed_before, strict=True):
            self._settle(batch, whole=len(batch.of.failed) == before)

    def _tell(self, claimed: Sequence[Batch], files: int) -> None:
        first = claimed[0]
        if len(claimed) > 1:
            what = f"{len(claimed)} tables, {files} files"
        else:
            what = f"{first.of.plan.table}: {first.number * BATCH} of {len(first.of.files)} files"
        self.services.progress(f"purge: {what}")

    def _delete_part(self, items: Sequence[Item]) -> None:
        services = self.services
        needed = self.reproof.still_needed([file.path for _, file in items])
        proved_at = services.clock.now()
        for batch in {id(batch): batch for batch, _ in items}.values():
            self._require_free(batch)
        free: dict[str, list[Item]] = {}
        for batch, file in items:
            if batch.of.error is not None:
                continue
            if file.path in needed:
                batch.of.cancelled.append(file)
            else:
                free.setdefault(file.path, []).append((batch, file))
        if services.clock.now() - proved_at > _PROOF_LASTS:
            raise _too_late([batch for batch, _ in items])
        rate = services.config.limits.delete_keys_per_second
        for outcome in services.deleter.delete(sorted(free), rate):
            for batch, file in free[outcome.path]:
                if outcome.error:
                    batch.of.failed.append(outcome)
                else:
                    batch.of.deleted.append(file)

    def _require_free(self, batch: Batch) -> None:
        """Notes what stops a plan alone: a hold that came, or a lock that went."""
        assert batch.of.lock is not None  # it was claimed under it
        try:
            self.reproof.require_no_hold(batch.of.plan.table_uuid)
            self.services.control.check_lock(batch.of.lock)
        except MeltlineError as stop:
            batch.of.error = batch.of.error or stop

    def _settle(self, batch: Batch, *, whole: bool) -> None:
        """Finishes a batch that was deleted whole; else its claim is dropped, for the next run."""
        one, control = batch.of, self.services.control
        assert one.lock is not None  # it was claimed under it
        try:
            if whole and one.error is None:
                control.finish_batch(one.plan.id, batch.number, one.lock)
            else:
                control.drop_claim(one.plan.id, batch.number, one.lock)
        except MeltlineError as stop:
            one.error = one.error or stop


def _too_late(batches: Sequence[Batch]) -> PlanStale:
    plans = ", ".join(dict.fromkeys(batch.of.plan.id for batch in batches))
    return PlanStale(
        f"the proof for a batch of plan {plans} is too old",
        object=plans,
        expected="deletes within five minutes of their proof",
        found="a pause in between",
        next="run again: the batch is proved anew",
    )
