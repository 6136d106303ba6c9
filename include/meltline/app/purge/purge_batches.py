"""Batches of a purge: what is claimed, proved and deleted together.

A plan's batches never change, so that a run that goes on finds them as they were. Small ones, of
many plans, go in one wave: one look at the catalogs proves them all, and one call deletes them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.ground.preconditions import require_go
from meltline.app.purge.look_back import LookBack
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.safety.departed_objects import DepartedObjects
from meltline.domain.clock import Clock
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import Claim, DeleteOutcome, Deleter, LockTable, SwitchLedger

BATCH = 20_000  # never by configuration: a run that goes on must find the batches as they were
_SECONDS_PER_PROOF = 60
_PROOF_LASTS = timedelta(minutes=5)


@dataclass
class Batch:
    """One of a plan's batches: what the control ledger has claimed at once."""

    of: PlanInHand
    number: int
    files: Sequence[PlannedFile]


Item = tuple[Batch, PlannedFile]


def claim_of(batch: Batch, paths: Sequence[str] = ()) -> Claim:
    """The claim on a batch, under the lock of its plan's group."""
    assert batch.of.lock is not None  # its plan was begun under it
    return Claim(batch.of.plan.id, batch.number, batch.of.lock, paths)


def batches_of(job: PlanInHand) -> Iterator[Batch]:
    """A plan's batches, always the same.

    One at least: a plan whose items are lost has to be begun too, for that is where it is refused.
    """
    for number, start in enumerate(range(0, max(1, len(job.files)), BATCH)):
        yield Batch(job, number, job.files[start : start + BATCH])


def in_waves(batches: Sequence[Batch], at_once: int) -> Iterator[Sequence[Batch]]:
    """Batches in their order, as many at a time as one proof may serve."""
    most = min(BATCH, at_once)
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


@dataclass(frozen=True)
class PacedDeleter:
    """Deletes what departed, and nothing else, at the configured rate.

    Attributes:
        departed: The objects that may be purged.
    """

    deleter: Deleter
    departed: DepartedObjects
    keys_per_second: int

    @property
    def at_once(self) -> int:
        """So many files are deleted within the minute after their proof."""
        return max(1, self.keys_per_second * _SECONDS_PER_PROOF)

    def delete(self, paths: Collection[str]) -> Sequence[DeleteOutcome]:
        """Deletes the objects that departed from some paths."""
        objects = [self.departed.at(path) for path in sorted(paths)]
        return self.deleter.delete(objects, self.keys_per_second)


@dataclass(frozen=True)
class Waves:
    """Deletes claimed batches, each file within minutes of its proof.

    Attributes:
        locks: Under which the batches were claimed.
    """

    look_back: LookBack
    deleter: PacedDeleter
    locks: LockTable
    switch: SwitchLedger
    clock: Clock

    def delete(self, claimed: Sequence[Batch]) -> list[Batch]:
        """Deletes what nothing refers to; returns the batches of which nothing is left to do.

        What stops all of them, such as a catalog that cannot be listed, is the error of each.
        """
        items = [(batch, file) for batch in claimed for file in batch.files]
        failed_before = [len(batch.of.failed) for batch in claimed]
        at_once = self.deleter.at_once
        try:
            for start in range(0, len(items), at_once):
                if start:
                    require_go(self.switch)
                self._delete_part(items[start : start + at_once])
        except MeltlineError as stop:
            for batch in claimed:
                batch.of.error = batch.of.error or stop
        return [
            batch
            for batch, before in zip(claimed, failed_before, strict=True)
            if len(batch.of.failed) == before and batch.of.error is None
        ]

    def _delete_part(self, items: Sequence[Item]) -> None:
        needed = self.look_back.still_needed([file.path for _, file in items])
        proved_at = self.clock.now()
        self._require_free(list({id(batch): batch for batch, _ in items}.values()))
        free: dict[str, list[Item]] = {}
        for batch, file in items:
            batch.of.error = batch.of.error or self.look_back.stopped.get(batch.of.group)
            if batch.of.error is not None:
                continue
            if file.path in self.look_back.recheck.elsewhere:
                continue
            if file.path in needed:
                batch.of.cancelled.append(file)
            else:
                free.setdefault(file.path, []).append((batch, file))
        if self.clock.now() - proved_at > _PROOF_LASTS:
            raise _too_late([batch for batch, _ in items])
        for outcome in self.deleter.delete(free):
            for batch, file in free[outcome.path]:
                if outcome.error:
                    batch.of.failed.append(outcome)
                elif outcome.replaced:
                    batch.of.replaced[file] = outcome.replaced
                else:
                    batch.of.deleted.append(file)
                    self.look_back.add(file.path, batch.of)

    def _require_free(self, batches: Sequence[Batch]) -> None:
        """Notes what stops a plan alone: a hold that came, or a lock that went."""
        lost = self.locks.lost([claim_of(batch).lock for batch in batches])
        for job in (batch.of for batch in batches):
            try:
                self.look_back.recheck.require_no_hold(job.plan.table_uuid)
                if job.lock is not None and job.lock in lost:
                    raise lost[job.lock]
            except MeltlineError as stop:
                job.error = job.error or stop


def shown(claimed: Sequence[Batch]) -> str:
    """What is deleted next, for a person."""
    first = claimed[0]
    if len(claimed) > 1:
        return f"{len(claimed)} tables, {sum(len(batch.files) for batch in claimed)} files"
    return f"{first.of.plan.table}: {first.number * BATCH} of {len(first.of.files)} files"


def _too_late(batches: Sequence[Batch]) -> PlanStale:
    plans = ", ".join(dict.fromkeys(batch.of.plan.id for batch in batches))
    return PlanStale(
        f"the proof for a batch of plan {plans} is too old",
        object=plans,
        expected="deletes within five minutes of their proof",
        found="a pause in between",
        next="run again: the batch is proved anew",
    )
