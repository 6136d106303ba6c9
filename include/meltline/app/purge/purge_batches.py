"""Batches of a purge: what is claimed, proved and deleted together.

A plan's batches never change, so that a run that goes on finds them as they were. Small ones, of
many plans, go in one wave: one look at the catalogs proves them all, and one call deletes them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from meltline.app.ground.preconditions import require_go
from meltline.app.purge.look_back import LookBack
from meltline.app.purge.purge_progress import PlanInHand
from meltline.app.purge.recheck import Reproof
from meltline.app.safety.departed_objects import DepartedObjects
from meltline.app.services import RunContext
from meltline.domain.errors import MeltlineError, PlanStale
from meltline.domain.iceberg.files import PlannedFile
from meltline.ports import Claim

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


def in_waves(services: RunContext, batches: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
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


def _at_once(services: RunContext) -> int:
    """So many files are deleted within the minute after their proof, at the configured rate."""
    return max(1, services.config.limits.delete_keys_per_second * _SECONDS_PER_PROOF)


@dataclass
class Waves:
    """Deletes claimed batches, each file within minutes of its proof.

    Attributes:
        departed: The objects that may be purged.
    """

    services: RunContext
    reproof: Reproof
    look_back: LookBack
    departed: DepartedObjects

    def delete(self, claimed: Sequence[Batch]) -> None:
        """Deletes what nothing refers to, and settles the claims.

        What stops all of them, such as a catalog that cannot be listed, is the error of each.
        """
        items = [(batch, file) for batch in claimed for file in batch.files]
        failed_before = [len(batch.of.failed) for batch in claimed]
        self._report_progress(claimed, len(items))
        load_concurrently = _at_once(self.services)
        try:
            for start in range(0, len(items), load_concurrently):
                if start:
                    require_go(self.services.control.switch)
                self._delete_part(items[start : start + load_concurrently])
        except MeltlineError as stop:
            for batch in claimed:
                batch.of.error = batch.of.error or stop
        self._settle(
            [
                batch
                for batch, before in zip(claimed, failed_before, strict=True)
                if len(batch.of.failed) == before and batch.of.error is None
            ],
            claimed,
        )

    def _report_progress(self, claimed: Sequence[Batch], files: int) -> None:
        first = claimed[0]
        if len(claimed) > 1:
            text = f"{len(claimed)} tables, {files} files"
        else:
            text = f"{first.of.plan.table}: {first.number * BATCH} of {len(first.of.files)} files"
        self.services.progress(f"purge: {text}")

    def _delete_part(self, items: Sequence[Item]) -> None:
        services = self.services
        needed = self._prove([file.path for _, file in items])
        proved_at = services.clock.now()
        self._require_free(list({id(batch): batch for batch, _ in items}.values()))
        free: dict[str, list[Item]] = {}
        for batch, file in items:
            batch.of.error = batch.of.error or self.look_back.stopped.get(batch.of.group)
            if batch.of.error is not None:
                continue
            if file.path in self.reproof.elsewhere:
                continue
            if file.path in needed:
                batch.of.cancelled.append(file)
            else:
                free.setdefault(file.path, []).append((batch, file))
        if services.clock.now() - proved_at > _PROOF_LASTS:
            raise _too_late([batch for batch, _ in items])
        rate = services.config.limits.delete_keys_per_second
        for outcome in services.deleter.delete(
            [self.departed.at(path) for path in sorted(free)], rate
        ):
            for batch, file in free[outcome.path]:
                if outcome.error:
                    batch.of.failed.append(outcome)
                elif outcome.replaced:
                    batch.of.replaced[file] = outcome.replaced
                else:
                    batch.of.deleted.append(file)
                    self.look_back.add(file.path, batch.of)

    def _prove(self, paths: Sequence[str]) -> set[str]:
        """What is needed of some files now. The same look is the one after the deletes before."""
        try:
            needed = self.reproof.still_needed(paths)
        except MeltlineError as blind:
            self.look_back.judge(blind)
            raise
        self.look_back.judge()
        return needed

    def _require_free(self, batches: Sequence[Batch]) -> None:
        """Notes what stops a plan alone: a hold that came, or a lock that went."""
        lost = self.services.control.locks.lost([claim_of(batch).lock for batch in batches])
        for job in (batch.of for batch in batches):
            try:
                self.reproof.require_no_hold(job.plan.table_uuid)
                if job.lock is not None and job.lock in lost:
                    raise lost[job.lock]
            except MeltlineError as stop:
                job.error = job.error or stop

    def _settle(self, whole: Sequence[Batch], claimed: Sequence[Batch]) -> None:
        """Finishes batches that were deleted whole; the others' claims are dropped, to go on."""
        control, finished = self.services.control, set(map(id, whole))
        try:
            answers = control.claims.finish([claim_of(batch) for batch in whole])
            control.claims.drop([claim_of(b) for b in claimed if id(b) not in finished])
        except MeltlineError as stop:
            for batch in claimed:
                batch.of.error = batch.of.error or stop
            return
        for batch, lost in zip(whole, answers, strict=True):
            batch.of.error = batch.of.error or lost


def _too_late(batches: Sequence[Batch]) -> PlanStale:
    plans = ", ".join(dict.fromkeys(batch.of.plan.id for batch in batches))
    return PlanStale(
        f"the proof for a batch of plan {plans} is too old",
        object=plans,
        expected="deletes within five minutes of their proof",
        found="a pause in between",
        next="run again: the batch is proved anew",
    )
