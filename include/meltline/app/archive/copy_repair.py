"""Repairs copies in cold while their originals still wait in failsafe.

A run's handoff step calls it. Otherwise a lost or damaged copy would keep its original for
ever. The gate of a purge refuses the original, and hot's metadata has no trace of it, so no handoff
checks it any more.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta

from meltline.app.archive.cold_facts import Side
from meltline.app.archive.cold_files import readable_manifests
from meltline.app.safety.audit import audit
from meltline.app.services import RunContext
from meltline.domain.archive.cold_paths import original_of
from meltline.domain.deletion.plan import PlanKind, PlanState
from meltline.domain.deletion.sharing_groups import Groups
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import Departure, DepartureState, PlannedFile
from meltline.ports import Mended, Original

MEND = "mend copy in cold"
_LATELY = timedelta(days=3)
_LEASE = timedelta(minutes=2)
_SHOWN = 3


def mend_copies(context: RunContext, run_id: str, may_go_on: Callable[[], bool]) -> list[str]:
    """Repairs and records the copies in cold of files that wait in failsafe.

    Each copy's size, time and version are checked. A copy is read if it is lost or changed, or was
    never compared with its original, and is copied again if necessary. In a store without versions,
    each copy is read once its original is due. If a table's purge was refused because of cold, all
    its copies are searched for lost ones: their originals may be live.

    Returns:
        Notices for the operator: the repairs, and the failures.
    """
    archived = {copy.table_uuid for copy in context.control.archived.all()}
    if not archived or context.cold is None or context.archive is None:
        return []
    try:
        originals, uuids = _to_mend(context, Side.of(context), archived)
        if not originals:
            return []
        with ExitStack() as locks:
            holder, wait = f"{context.who} run {run_id}", context.config.limits.lock_wait
            for uuid in sorted(uuids):
                locks.enter_context(
                    context.control.locks.take(f"handoff {uuid}", holder, wait=wait, lease=_LEASE)
                )
            context.progress(f"hand off: {len(originals)} copies in cold are read again")
            return _summary(context, list(context.archive.mend(originals, may_go_on)))
    except MeltlineError as error:
        return [f"copies in cold were not looked at: {error.message}"]


def _to_mend(
    context: RunContext, side: Side, archived: set[str]
) -> tuple[list[Original], set[str]]:
    """Returns files whose copies must be checked, and the tables that these may belong to."""
    groups = Groups(context.control.registrations.sharing())
    waiting = context.files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
    ours = [d for d in waiting if d.is_on_its_way and groups.members(d.owner) & archived]
    doubtful = _doubtful(context, side, ours)
    originals = {d.path: Original(d.path, d.bytes, d.kind) for d in doubtful}
    refused = refused_for_cold(context) & archived
    originals |= {original.path: original for original in _absent(context, side, refused)}
    members = (groups.members(d.owner) & archived for d in doubtful)
    return list(originals.values()), refused.union(*members)


def _doubtful(context: RunContext, side: Side, waiting: Sequence[Departure]) -> list[Departure]:
    """Returns files whose copy is not known to be complete, without those that have none."""
    now = context.clock.now()
    files = [PlannedFile(d.path, d.kind, d.bytes, d.owner) for d in waiting]
    places = {file.path: copy for copy, file in side.places(files).items()}
    proofs = context.control.copies.of(list(places.values()))
    shown = side.shown(list(places.values()))

    def is_doubtful(departure: Departure) -> bool:
        copy = places.get(departure.path, "")
        stored, proof = shown.get(copy), proofs.get(copy)
        if stored is None or proof is None:
            return stored is not None or proof is not None
        if not proof.from_source or not proof.shows(stored.bytes, stored.modified_at, stored.etag):
            return True
        return not proof.etag and departure.due_at <= now

    return [departure for departure in waiting if is_doubtful(departure)]


def refused_for_cold(context: RunContext) -> set[str]:
    """Returns tables whose purge a gate has recently refused because of cold."""
    since = context.clock.now() - _LATELY
    refused = context.control.plans.find(states=[PlanState.REFUSED])
    plans = [p for p in refused if p.kind is PlanKind.PURGE and p.as_of >= since]
    return {plan.table_uuid for plan in plans if "cold_" in plan.note}


def _absent(context: RunContext, side: Side, uuids: set[str]) -> Iterator[Original]:
    """Yields files of tables' copies that cold has lost and hot still has, live or in failsafe."""
    for uuid in sorted(uuids):
        names = {copy.table for copy in context.control.archived.all([uuid])}
        state = side.tables.of(uuid, sorted(names))
        snapshots = state.snapshots.values() if state else ()
        lists = side.copies.lists(
            [snapshot.manifest_list for snapshot in snapshots], of_copies=True
        )
        listed = list(readable_manifests(lists).values())
        for audited in side.copies.audit(listed, side.tier.warehouse):
            for copy, kind in audited.absent:
                path = original_of(copy, side.tier.warehouse)
                if path and (size := context.store.size(path)) is not None:
                    yield Original(path, size, kind)


def _summary(context: RunContext, done: Sequence[Mended]) -> list[str]:
    mended = sorted(copy.path for copy in done if copy.is_new)
    errors = sorted(copy.error for copy in done if copy.error)
    lines = []
    if mended:
        audit(context, MEND, mended[0], detail="\n".join(mended))
        lines.append(f"{len(mended)} copies in cold were lost or damaged, and were made anew")
    if errors:
        shown = "; ".join(errors[:_SHOWN])
        lines.append(
            f"{len(errors)} copies in cold cannot be mended, their originals stay: {shown}"
        )
    return lines
