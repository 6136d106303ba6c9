"""Batches of a purge: files that are claimed, proved and deleted together.

A plan's batches never change, so that a resumed run finds the same ones. Small batches of many
plans form one wave: one check of the catalogs proves them all, and one call deletes them.
`apply_purges` calls it. The checks before a claim are in `purge_claims.py`, the proof is in
`recheck.py`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.ownership.departed_objects import DepartedObjects
from meltline.app.purge.post_delete_check import LookBack
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.safety.preconditions import require_go
from meltline.domain.clock import Clock
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import Claim, DeleteOutcome, Deleter, LockTable, SwitchLedger
from meltline.progress import Counted

BATCH = 20_000  # never by configuration: a resumed run must find the same batches
_SECONDS_PER_PROOF = 60
_PROOF_LASTS = timedelta(minutes=5)


@dataclass(eq=False)
class DeleteBatch:
    """One of a plan's batches: the files of one claim in the control ledger."""

    of: PlanInHand
    number: int
    files: Sequence[PlannedFile]


FileInHand = tuple[PlanInHand, PlannedFile]


def claim_of(batch: DeleteBatch, paths: Sequence[str] = ()) -> Claim:
    """Returns the claim on a batch, under the lock of its plan's group."""
    assert batch.of.lock is not None  # its plan was begun under it
    return Claim(batch.of.plan.id, batch.number, batch.of.lock, paths)


def batches_of(job: PlanInHand) -> Iterator[DeleteBatch]:
    """Splits a plan into its batches, always the same ones.

    It yields at least one: a plan whose items are lost must be begun too, because only then it is
    refused.
    """
    for number, start in enumerate(range(0, max(1, len(job.files)), BATCH)):
        yield DeleteBatch(job, number, job.files[start : start + BATCH])


def stop_all(batches: Iterable[DeleteBatch], error: MeltlineError) -> None:
    """Stops the plans of some batches."""
    for batch in batches:
        batch.of.stop(error)


def in_waves(batches: Iterable[DeleteBatch], at_once: int) -> Iterator[Sequence[DeleteBatch]]:
    """Groups batches in their order, as many at a time as one proof may serve."""
    most = min(BATCH, at_once)
    wave: list[DeleteBatch] = []
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
    """Deletes departed objects, and nothing else, at the configured rate.

    Attributes:
        departed: The objects that may be purged.
    """

    deleter: Deleter
    departed: DepartedObjects
    keys_per_second: int

    @property
    def at_once(self) -> int:
        """The number of files that are deleted within the minute after their proof."""
        return max(1, self.keys_per_second * _SECONDS_PER_PROOF)

    def delete(self, paths: Collection[str]) -> Sequence[DeleteOutcome]:
        """Deletes the objects that departed from some paths."""
        objects = [self.departed.at(path) for path in sorted(paths)]
        return self.deleter.delete(objects, self.keys_per_second)


@dataclass(frozen=True)
class Waves:
    """Deletes claimed batches, each file within minutes of its proof.

    Attributes:
        locks: The locks under which the batches were claimed.
    """

    look_back: LookBack
    deleter: PacedDeleter
    locks: LockTable
    switch: SwitchLedger
    clock: Clock

    def delete(self, claimed: Sequence[DeleteBatch]) -> list[DeleteBatch]:
        """Deletes the unreferenced files; returns the batches in which nothing is left to delete.

        An error that stops all of them, such as a catalog that cannot be listed, becomes the error
        of each.
        """
        items = [(batch.of, file) for batch in claimed for file in batch.files]
        failed_before = [len(batch.of.failed) for batch in claimed]
        at_once = self.deleter.at_once
        try:
            for start in range(0, len(items), at_once):
                if start:
                    require_go(self.switch)
                self._delete_part(items[start : start + at_once])
        except MeltlineError as stop:
            stop_all(claimed, stop)
        return [
            batch
            for batch, before in zip(claimed, failed_before, strict=True)
            if len(batch.of.failed) == before and batch.of.error is None
        ]

    def _delete_part(self, items: Sequence[FileInHand]) -> None:
        needed = self.look_back.still_needed([file.path for _, file in items])
        proved_at = self.clock.now()
        self._stop_unfree(dict.fromkeys(job for job, _ in items))
        free = self._free(items, needed)
        if self.clock.now() - proved_at > _PROOF_LASTS:
            raise _too_late(items)
        for outcome in self.deleter.delete(free):
            for job, file in free[outcome.path]:
                self._note(outcome, job, file)

    def _free(
        self, items: Sequence[FileInHand], needed: Collection[str]
    ) -> dict[str, list[FileInHand]]:
        """Returns the deletable files by path; a file needed by its own path is cancelled."""
        free: dict[str, list[FileInHand]] = {}
        for job, file in items:
            if job.error is not None:
                continue
            if file.path in self.look_back.recheck.elsewhere:
                continue
            if file.path in needed:
                job.cancelled.append(file)
            else:
                free.setdefault(file.path, []).append((job, file))
        return free

    def _note(self, outcome: DeleteOutcome, job: PlanInHand, file: PlannedFile) -> None:
        """Records the result for one file of a plan."""
        if outcome.error:
            job.failed.append(outcome)
        elif outcome.replaced:
            job.replaced[file] = outcome.replaced
        else:
            job.deleted.append(file)
            if outcome.was_gone and not job.is_resumed:
                job.gone.append(file)
            self.look_back.add(file.path, job)

    def _stop_unfree(self, jobs: Collection[PlanInHand]) -> None:
        """Stops single plans: by a new hold, a lost lock, or an incident in their group."""
        lost = self.locks.lost([job.lock for job in jobs if job.lock is not None])
        for job in jobs:
            try:
                self.look_back.recheck.require_no_hold(job.plan.table_uuid)
                if job.lock is not None and job.lock in lost:
                    raise lost[job.lock]
            except MeltlineError as stop:
                job.stop(stop)
            job.stop(self.look_back.stopped.get(job.group))


@dataclass
class FilesGone:
    """Reports how many of a purge's files are deleted, and which come next."""

    progress: Callable[[str], None]
    total: int
    done: int = 0

    def next(self, claimed: Sequence[DeleteBatch]) -> None:
        """Reports the batches that are deleted now."""
        self.progress(Counted(f"purge: {_shown(claimed)}", self.done, self.total))
        self.done += sum(len(batch.files) for batch in claimed)


def _shown(claimed: Sequence[DeleteBatch]) -> str:
    """Describes the next deletes for an operator."""
    first = claimed[0]
    if len(claimed) > 1:
        return f"{len(claimed)} tables, {sum(len(batch.files) for batch in claimed)} files"
    return f"{first.of.plan.table}: {first.number * BATCH} of {len(first.of.files)} files"


def _too_late(items: Sequence[FileInHand]) -> PlanStale:
    plans = ", ".join(dict.fromkeys(job.plan.id for job, _ in items))
    return PlanStale(
        f"the proof for a batch of plan {plans} is too old",
        object=plans,
        expected="deletes within five minutes of their proof",
        found="a pause in between",
        next="run again: the batch is proved anew",
    )
