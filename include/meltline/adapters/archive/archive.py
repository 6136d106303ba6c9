"""Archives snapshots in the cold tier, in batches, with one compare-and-swap for each commit.

The handoff step calls it. It learns from cold alone which files cold has: from its metadata, the
manifest lists of neighbouring snapshots, and the file names, which follow from those in hot. So a
run that was killed at any time leaves nothing to repair, and the next one continues its work.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from meltline.adapters.archive.batches import (
    BatchLimits,
    CopyBatch,
    ManifestsByPath,
    PendingCopy,
    Ready,
    completed,
    read_pending,
)
from meltline.adapters.archive.cold_tables import ColdCatalog, ColdTables, TablePair
from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_repair import ColdMender
from meltline.adapters.archive.copy_tasks import ManifestDone
from meltline.adapters.archive.rewriting.manifests import ColdManifest
from meltline.adapters.archive.workers import Crew
from meltline.domain.clock import Clock
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.names import TableName
from meltline.domain.redaction import cause
from meltline.ports import (
    ChosenSnapshot,
    CopyCache,
    HandedOver,
    HandoffRequest,
    Mended,
    Original,
)

Outcome = tuple[TableName, HandedOver]
_PORTION = 10_000  # copies that are repaired between two checks whether to continue


class ColdArchive:
    """The port `Archive`, with local or distributed workers.

    Args:
        stores: The hot and the cold store.
        catalog: The cold catalog.
        crew: Creates the workers that rewrite manifests and copy the files in them.
        book: Caches what is known of each copy.
        clock: Dates the verification.
        limits: Of a batch.
    """

    def __init__(
        self,
        stores: Stores,
        catalog: ColdCatalog,
        crew: Callable[[Stores, CopyCache], Crew],
        book: CopyCache,
        clock: Clock,
        limits: BatchLimits | None = None,
    ) -> None:
        self._stores = stores
        self._catalog = catalog
        self._crew = crew
        self._book = book
        self._clock = clock
        self._limits = limits or BatchLimits()

    def hand_off(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Iterator[Outcome]:
        """Copies what cold lacks, verifies it, and registers the snapshots. See the port.

        Snapshots that are registered already come last: they are compared with hot, and repaired.
        """
        new = self._round(self._stores)
        if (yield from new.run(requests, may_go_on)):
            yield from self._round(replace(self._stores, mends=True)).run(new.again, may_go_on)

    def mend(
        self, originals: Sequence[Original], may_go_on: Callable[[], bool]
    ) -> Iterator[Mended]:
        stores = replace(self._stores, mends=True)
        mender = ColdMender(stores, self._crew(stores, self._book), self._book)
        for start in range(0, len(originals), _PORTION):
            if not may_go_on():
                return
            yield from mender.mend(originals[start : start + _PORTION])

    def _round(self, stores: Stores) -> "_Round":
        tables = ColdTables(stores, self._catalog, self._clock)
        return _Round(stores, tables, self._crew(stores, self._book), self._book, self._limits)


class _Round:
    """One pass over all requests.

    Attributes:
        again: Requests for snapshots that are registered already, for the repairing pass.
    """

    def __init__(
        self,
        stores: Stores,
        tables: ColdTables,
        crew: Crew,
        book: CopyCache,
        limits: BatchLimits,
    ) -> None:
        self._stores = stores
        self._tables = tables
        self._crew = crew
        self._book = book
        self._limits = limits
        self._known: ManifestsByPath = {}
        self._near: dict[TableName, tuple[str, ...]] = {}
        self.again: list[HandoffRequest] = []

    def run(
        self, requests: Sequence[HandoffRequest], may_go_on: Callable[[], bool]
    ) -> Generator[Outcome, None, bool]:
        """Yields outcomes as they arrive. Returns False if it was told to stop."""
        batch = CopyBatch()
        for request in requests:
            try:
                table, chosen = self._open(request)
            except Exception as error:  # catalogs raise exceptions of their own
                yield from (_failed(request.hot.name, pick, error) for pick in request.snapshots)
                continue
            for pick in chosen:
                if not batch.snapshots and not may_go_on():
                    return False
                try:
                    batch.add(read_pending(self._stores, table, pick), self._known)
                except (MeltlineError, FileNotFoundError) as error:
                    yield _failed(table.name, pick, error)
                if batch.is_full(self._limits):
                    if not (yield from self._carry_out(batch, may_go_on)):
                        return False
                    batch = CopyBatch()
        return (yield from self._carry_out(batch, may_go_on))

    def _open(self, request: HandoffRequest) -> tuple[TablePair, Sequence[ChosenSnapshot]]:
        """Returns a table and the requested snapshots that belong to this pass."""
        table = self._tables.open(request)
        if self._stores.mends:
            return table, request.snapshots
        near = self._tables.known_manifests(table)
        self._known |= near
        self._near[request.cold] = tuple(near)
        new: list[ChosenSnapshot] = []
        present: list[ChosenSnapshot] = []
        for chosen in request.snapshots:
            (present if chosen.snapshot.snapshot_id in table.archived else new).append(chosen)
        if present:
            self.again.append(replace(request, snapshots=tuple(present)))
        return table, new

    def _carry_out(
        self, batch: CopyBatch, may_go_on: Callable[[], bool]
    ) -> Generator[Outcome, None, bool]:
        """Copies, rewrites and registers a batch; returns False if it was told to stop."""
        if not batch.snapshots:
            return True
        manifests = list(batch.manifests.values())
        fresh = self._crew.rewrite(manifests, may_go_on, self._replaced(batch))
        if fresh is None:
            return False
        for path, done in fresh.items():
            if not done.error:
                self._known[self._stores.target(path)] = ColdManifest(done.bytes, done.totals)
        credit = dict(fresh)
        for _, group in groupby(batch.snapshots, key=lambda pending: id(pending.table)):
            yield from self._registered(list(group), fresh, credit)
        return True

    def _replaced(self, batch: CopyBatch) -> list[str]:
        """Returns neighbouring cold manifests that the batch's last snapshots do not name."""
        newest = {pending.table.request.cold: pending for pending in batch.snapshots}
        targets = {path for pending in newest.values() for path in pending.targets.values()}
        near = (path for cold in newest for path in self._near.get(cold, ()))
        return [path for path in dict.fromkeys(near) if path not in targets]

    def _registered(
        self,
        group: Sequence[PendingCopy],
        fresh: Mapping[str, ManifestDone],
        credit: dict[str, ManifestDone],
    ) -> Iterator[Outcome]:
        """Registers the snapshots of one table that cold has completely."""
        table = group[0].table
        ready: list[Ready] = []
        beside: tuple[str, ...] = ()
        for pending in group:
            try:
                pending.require_whole(fresh)
                ready.append(completed(self._stores, self._crew, pending, self._known, credit))
                beside = tuple(pending.targets.values())
            except (MeltlineError, FileNotFoundError) as error:
                yield _failed(table.name, pending.chosen, error)
        if not ready:
            return
        self._book.save([whole.proof for whole in ready if whole.proof])
        try:
            location = self._tables.register(table, [whole.registration for whole in ready])
        except Exception as error:  # an error of one table must not stop the others here either
            yield from (_failed(table.name, whole.chosen, error) for whole in ready)
            return
        if not self._stores.mends:
            self._near[table.request.cold] = beside  # the next batch repeats their entries
        for whole in ready:
            yield table.name, replace(whole.done, cold_location=location)


def _failed(table: TableName, chosen: ChosenSnapshot, error: Exception) -> Outcome:
    return table, HandedOver(chosen.snapshot.snapshot_id, error=_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error} is not there"
    return str(error) if isinstance(error, MeltlineError) else cause(error)
