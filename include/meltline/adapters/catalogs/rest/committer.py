"""Commits expirations on REST catalogs, whose servers write the metadata, without losing a ref.

A commit asserts every known ref. No requirement of the protocol says "no ref but these": a tag that
is created during an expiration silently loses its snapshot. But the server keeps the metadata file
that it started from. So after each commit this reads that file, and restores lost refs in one more
commit.

A run that died before that leaves its mark in the table, by which the next run finds the same file
(decision 048).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from meltline.adapters.catalogs.rest.protocol import (
    CommitRaced,
    CommitRejected,
    Documents,
    Json,
    LoadedTable,
)
from meltline.domain.clock import Clock
from meltline.domain.deletion.plan import Plan
from meltline.domain.deletion.short_logs import deletes_soon
from meltline.domain.errors import CommitUnproven, MeltlineError, TableNotFound
from meltline.domain.iceberg.locations import location_key
from meltline.domain.iceberg.metadata_editor import parse_json
from meltline.domain.iceberg.table_metadata import MAIN, STATISTICS
from meltline.domain.retention.policy import FENCE_TAG
from meltline.domain.safe_text import quote
from meltline.domain.units import from_millis
from meltline.ports import CommitOutcome, ObjectReader
from meltline.retries import until_done

EXPIRED_BY = "meltline.expired-by"
"""Table property with the id of the last plan that expired snapshots of it over REST."""

_FENCE_STANDS = timedelta(days=1)  # longer than any gateway keeps a request to send it again
_FURTHEST = 500  # metadata files that are read to find a commit
_RESTORE_ATTEMPTS = 20  # a busy table commits each second, and a lost ref must be restored


@dataclass(frozen=True)
class RestCommitter:
    """The port `Committer` for REST catalogs.

    Attributes:
        protocols: The catalogs, by name.
        files: Reads metadata files.
        clock: The wall clock: engines refuse metadata whose times lie in the future.
    """

    protocols: Mapping[str, Documents]
    files: ObjectReader
    clock: Clock

    def expire(self, plan: Plan, base_location: str) -> CommitOutcome | None:
        """Removes the planned snapshots, and restores refs that were lost with them.

        See the port.
        """
        protocol = self.protocols[plan.table.catalog]
        base = protocol.load(plan.table)
        if base.metadata_location != base_location:
            return None
        if plan.snapshots and deletes_soon(base.metadata.get("properties") or {}):
            return None  # since it was checked; looked at anew it does not pass
        try:
            if plan.snapshots and not base.replaced:
                self._require_log(protocol, plan, base)
                return None  # it has moved, by that commit
            done = self._remove(protocol, plan, base)
        except CommitRaced:
            return None
        if done.replaced == base.metadata_location and is_marked(done.metadata, plan):
            return self._concluded(plan, done, base.metadata)  # no ref came: read no file
        # Iceberg's own server loads the table again before it answers: the answer may show a later
        # commit.
        first = self._first_marked(plan, done)
        if first is None:
            raise _unproven(plan, "the catalog answers that it is done, and no file has its mark")
        return self._concluded(plan, first)

    def _remove(self, protocol: Documents, plan: Plan, base: LoadedTable) -> LoadedTable:
        """Sends one commit, which is atomic."""
        try:
            return protocol.commit(plan.table, *removal(plan, base))
        except CommitRejected:  # servers before Iceberg 1.9 accept one id in an update
            return protocol.commit(plan.table, *removal(plan, base, together=1))

    def _require_log(self, protocol: Documents, plan: Plan, base: LoadedTable) -> None:
        """Commits without removing anything, on a table whose metadata log is empty.

        New tables and clones have an empty log. This detects a server that never names the previous
        file before anything can be lost.

        Raises:
            CommitRejected: Its answer names none either.
        """
        update = {"action": "set-properties", "updates": {EXPIRED_BY: "nobody"}}
        done = protocol.commit(plan.table, _standing(base.metadata), [update])
        if not done.replaced:
            raise CommitRejected(
                f"the catalog names no metadata file before that of {plan.table}",
                object=str(plan.table),
                expected="a metadata log in the answer to a commit",
                found="none",
                next="nothing was removed: what a commit came to could not be found out; "
                f"`meltline doctor --probe-catalog {quote(plan.table.catalog)}` tries the server",
            )

    def confirm(self, plan: Plan) -> CommitOutcome | None:
        """Finds the commit by its mark, and restores refs that were lost with it. See the port."""
        if not plan.snapshots and not plan.refs:  # nothing that could have been lost
            return CommitOutcome(plan.committed_base, "")
        first = self._first_marked(plan, self._load(plan, self._own_uuid(plan)))
        return None if first is None else self._concluded(plan, first)

    def withdraw(self, plan: Plan) -> bool:
        """Sets the fence tag, so that the plan's commit fails if it arrives later.

        The commit asserts that the tag does not exist.
        """
        protocol, uuid = self.protocols[plan.table.catalog], self._own_uuid(plan)

        def attempt() -> LoadedTable | None:
            table = self._load(plan, uuid)
            if fence_of(plan) in refs_of(table.metadata):
                return table
            snapshot = _fenced(table.metadata)
            with suppress(CommitRaced):
                return protocol.commit(
                    plan.table, _standing(table.metadata), [self._fence(plan, table, snapshot)]
                )
            return None

        table = until_done(attempt)
        if table is None:
            raise _unproven(plan, "the table never stood still")
        if is_marked(table.metadata, plan):
            # The commit succeeded: its restored refs may have set the tag, or it arrived late.
            # Restore first.
            self.confirm(plan)
        return True

    def _load(self, plan: Plan, uuid: str = "") -> LoadedTable:
        """Loads the table under the plan's name; with a UUID, refuses any other table."""
        try:
            table = self.protocols[plan.table.catalog].load(plan.table)
        except TableNotFound as missing:
            raise _unproven(plan, "no table of that name: give it its name again") from missing
        if uuid and table.metadata["table-uuid"] != uuid:
            raise _unproven(plan, f"another table of that name, {table.metadata['table-uuid']}")
        return table

    def _own_uuid(self, plan: Plan) -> str:
        """Returns the table's own UUID.

        The plan's UUID identifies a registration, and two registrations may share a table's.
        """
        with suppress(CommitUnproven):
            return str(self._read(plan, plan.committed_base)["table-uuid"])
        return plan.table_uuid  # its base is gone; the plan's UUID identifies the table as well

    # --- restore lost refs ------------------------------------------------------------------

    def _concluded(
        self, plan: Plan, done: LoadedTable, before: Json | None = None
    ) -> CommitOutcome:
        """Restores refs that the commit lost, with their snapshots.

        Args:
            plan: The plan.
            done: The table right after its commit.
            before: The table right before it, if that is known.
        """
        if not done.replaced:
            raise _unproven(plan, "the catalog names no metadata file before it")
        to_go: Collection[str] = plan.refs
        if before is None:
            before = self._read(plan, done.replaced)
            to_go = self._still_to_go(plan, before)
        surplus = snapshot_ids(before) - snapshot_ids(done.metadata) - set(plan.snapshots)
        if surplus:
            shown = ", ".join(map(str, sorted(surplus)[:3]))
            raise _unproven(plan, f"the catalog removed more than was asked: {shown}")
        lost = lost_refs(before, done.metadata, to_go)
        if lost:
            self._restore(plan, before, lost)
        return CommitOutcome(done.replaced, done.metadata_location, tuple(sorted(lost)))

    def _still_to_go(self, plan: Plan, before: Json) -> Collection[str]:
        """Returns the planned refs that are still as planned; one that was set again stays.

        A commit can assert a ref's snapshot, but not its retention.
        """
        planned = refs_of(self._read(plan, plan.committed_base)) if plan.refs else {}
        return [name for name in plan.refs if refs_of(before).get(name) == planned.get(name)]

    def _restore(self, plan: Plan, before: Json, lost: Mapping[str, Json]) -> None:
        """Restores in one commit; a name that was used again since keeps its new ref."""
        protocol = self.protocols[plan.table.catalog]

        def attempt() -> bool | None:
            now = self._load(plan, before["table-uuid"])
            refs = refs_of(now.metadata)
            back = {name: ref for name, ref in lost.items() if name not in refs}
            if not back:
                return True
            absent = [_absent(name) for name in back]
            updates = restoring_updates(before, now.metadata, back)
            if fence_of(plan) not in refs:
                absent.append(_absent(fence_of(plan)))
                snapshot = by_id(before, next(iter(back.values()))["snapshot-id"])
                updates.append(self._fence(plan, now, snapshot))
            with suppress(CommitRaced, CommitRejected):
                protocol.commit(plan.table, [*_standing(now.metadata), *absent], updates)
                return True
            return None

        if not until_done(attempt, attempts=_RESTORE_ATTEMPTS):
            raise _unproven(plan, f"the table never stood still for {', '.join(lost)}")

    def _fence(self, plan: Plan, table: LoadedTable, snapshot: Json) -> Json:
        """Returns the update that sets the plan's fence: a tag on a snapshot, for a day.

        Clients and gateways may send a request again. If a commit of ours arrived a second time, it
        would remove what was restored. Each commit asserts that its fence does not exist.
        """
        at = from_millis(snapshot["timestamp-ms"])
        now = max(self.clock.now(), from_millis(table.metadata["last-updated-ms"]))
        age = now + _FENCE_STANDS - at  # Iceberg counts a ref's age from its snapshot (F-3)
        return {
            "action": "set-snapshot-ref",
            "ref-name": fence_of(plan),
            "type": "tag",
            "snapshot-id": snapshot["snapshot-id"],
            "max-ref-age-ms": age // timedelta(milliseconds=1),
        }

    # --- recover after a killed run ---------------------------------------------------------

    def _first_marked(self, plan: Plan, table: LoadedTable) -> LoadedTable | None:
        """Returns the table right after the commit: its first metadata file with the plan's mark.

        Reads from the newest file back to the plan's base, and no further. None if no file has the
        mark.
        """
        first: LoadedTable | None = None
        for number, (location, document) in enumerate(self._line(plan, table)):
            if is_marked(document, plan):
                first = LoadedTable(location, document, {})
            elif first is not None or location_key(location) == location_key(plan.committed_base):
                return first
            if number == _FURTHEST:
                break
        raise _unproven(plan, f"{_FURTHEST} commits later its base is out of sight")

    def _line(self, plan: Plan, table: LoadedTable) -> Iterator[tuple[str, Json]]:
        """Yields the table's metadata files, newest first, past the end of each file's own log."""
        location, document = table.metadata_location, table.metadata
        yield location, document
        while log := document.get("metadata-log"):
            for entry in reversed(log):
                location = entry["metadata-file"]
                document = self._read(plan, location)
                yield location, document
        raise _unproven(plan, "the metadata log ends before its base")

    def _read(self, plan: Plan, location: str) -> dict[str, Any]:
        try:
            document = parse_json(plan.table, location, self.files.read(location))
        except (MeltlineError, OSError) as error:
            raise _unproven(plan, f"{location}: {type(error).__name__}") from error
        if not isinstance(document, dict):
            raise _unproven(plan, f"{location}: no metadata file")
        return document


def is_marked(metadata: Json, plan: Plan) -> bool:
    """Returns whether metadata has the plan's mark, which a later expiration replaces."""
    return bool((metadata.get("properties") or {}).get(EXPIRED_BY) == plan.id)


def fence_of(plan: Plan) -> str:
    """Returns the name of the tag whose absence a plan's commit asserts."""
    return f"{FENCE_TAG}{plan.id}"


def removal(
    plan: Plan, base: LoadedTable, together: int | None = None
) -> tuple[list[Json], list[Json]]:
    """Returns the requirements and the updates of a plan's commit.

    Args:
        plan: The plan.
        base: The table that the commit is based on.
        together: How many snapshots one update names; None is all.
    """
    ids = sorted(snapshot_ids(base.metadata) & set(plan.snapshots))
    size = together or max(len(ids), 1)
    updates: list[Json] = [
        {"action": "set-properties", "updates": {EXPIRED_BY: plan.id}},
        *(
            {"action": "remove-snapshot-ref", "ref-name": name}
            for name in plan.refs
            if name in refs_of(base.metadata)
        ),
        *(
            {"action": "remove-snapshots", "snapshot-ids": ids[at : at + size]}
            for at in range(0, len(ids), size)
        ),
    ]
    return [*_standing(base.metadata), _absent(fence_of(plan))], updates


def _standing(metadata: Json) -> list[Json]:
    """Returns requirements for the table's UUID and the snapshot of each known ref."""
    refs = [
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": ref["snapshot-id"]}
        for name, ref in sorted(refs_of(metadata).items())
    ]
    return [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}, *refs]


def _absent(ref: str) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": None}


def _fenced(metadata: Json) -> Json:
    """Returns the snapshot for a fence: main's, else the newest."""
    main = refs_of(metadata).get(MAIN)
    snapshots: Sequence[Json] = metadata["snapshots"]
    if main is not None:
        return by_id(metadata, main["snapshot-id"])
    return max(snapshots, key=lambda snapshot: int(snapshot["timestamp-ms"]))


def _unproven(plan: Plan, why: str) -> CommitUnproven:
    return CommitUnproven(
        f"it cannot be told which refs of {plan.table} came while plan {plan.id} was committed",
        object=str(plan.table),
        expected="the metadata file that the catalog started from",
        found=why,
        next="nothing of the table's group departs until that is known: the next run looks again; "
        f"`meltline abandon {plan.id} --reason TEXT` is your word that no ref was lost",
    )


_KEPT = ("snapshot-id", "timestamp-ms", "manifest-list", "summary", "schema-id", "key-id")
_ROW_LINEAGE = 3  # format version from which rows have ids


def snapshot_ids(metadata: Json) -> frozenset[int]:
    """Returns the ids of the snapshots in metadata."""
    return frozenset(int(s["snapshot-id"]) for s in metadata.get("snapshots") or ())


def by_id(metadata: Json, snapshot_id: int) -> Json:
    """Returns a snapshot of metadata, as written."""
    return next(s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot_id)


def refs_of(metadata: Json) -> Mapping[str, Json]:
    """Returns the branches and tags, as written."""
    refs: Mapping[str, Json] = metadata.get("refs") or {}
    return refs


def lost_refs(before: Json, after: Json, refs_to_go: Collection[str]) -> dict[str, Json]:
    """Returns refs of a metadata file that its successor lacks, or whose snapshots it lacks.

    Args:
        before: The metadata that the server started from.
        after: The metadata that the server wrote.
        refs_to_go: Refs that it was asked to remove.
    """
    removed = snapshot_ids(before) - snapshot_ids(after)
    return {
        name: ref
        for name, ref in refs_of(before).items()
        if (ref["snapshot-id"] in removed or name not in refs_of(after)) and name not in refs_to_go
    }


def restoring_updates(before: Json, now: Json, lost: Mapping[str, Json]) -> list[Json]:
    """Returns the updates that restore lost refs with their snapshots, and nothing else.

    Args:
        before: The metadata that the server started from, which has the snapshots.
        now: The current metadata.
        lost: The refs.
    """
    ids = {int(ref["snapshot-id"]) for ref in lost.values()}
    missing = sorted(ids - snapshot_ids(now))
    return [
        *_snapshots([by_id(before, id) for id in missing], now),
        *({"action": "set-snapshot-ref", "ref-name": name, **ref} for name, ref in lost.items()),
        *_statistics(before, frozenset(missing)),
    ]


def _snapshots(snapshots: Sequence[Json], now: Json) -> Iterator[Json]:
    """Returns snapshots in the form in which a server accepts them again.

    Servers refuse the old sequence number: a table's numbers only grow. Data files keep their own
    numbers, which are in the manifests. A parent that is gone would be refused or lead nowhere.
    """
    last = int(now.get("last-sequence-number") or 0)
    for number, snapshot in enumerate(snapshots, last + 1):
        again: dict[str, Any] = {key: snapshot[key] for key in _KEPT if key in snapshot}
        if now["format-version"] > 1:
            again["sequence-number"] = number
        if now["format-version"] >= _ROW_LINEAGE:  # it adds no rows without ids
            again |= {"first-row-id": now.get("next-row-id", 0), "added-rows": 0}
        yield {"action": "add-snapshot", "snapshot": again}


def _statistics(before: Json, ids: frozenset[int]) -> Iterator[Json]:
    for kind in STATISTICS:
        for statistics in before.get(kind) or ():
            if statistics["snapshot-id"] in ids:
                yield {"action": f"set-{kind}", kind: statistics}
