"""Expiration commits on REST catalogs, whose servers write the metadata.

A commit asserts every ref that was known. One that came since goes with its snapshot, in silence.
So after each commit the metadata file that the server started from is read, and what was lost is
put back in one commit more. A run that died before that leaves its mark in the table: the next one
finds the same file by it (decision 048).

No requirement of the protocol says "no ref but these" (decision 048). A tag that comes while an
expiration is made goes with its snapshot; but the metadata file that the server started from is
kept, and says which one.
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
"""A table's property: the id of the last plan that expired snapshots of it over REST."""

_FENCE_STANDS = timedelta(days=1)  # longer than any gateway keeps a request to send it again
_FURTHEST = 500  # metadata files that are read to find a commit
_RESTORE_ATTEMPTS = 20  # a busy table commits each second, and a lost ref must come back


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
        """Removes what was planned, and puts back what went with it. See the port."""
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
            return self._concluded(plan, done, base.metadata)  # nothing came: nothing is read
        # Iceberg's own server looks again before it answers: what it tells may be a later commit.
        first = self._first_marked(plan, done)
        if first is None:
            raise _unproven(plan, "the catalog answers that it is done, and no file has its mark")
        return self._concluded(plan, first)

    def _remove(self, protocol: Documents, plan: Plan, base: LoadedTable) -> LoadedTable:
        """One commit: all of it or nothing."""
        try:
            return protocol.commit(plan.table, *removal(plan, base))
        except CommitRejected:  # servers before Iceberg 1.9 take one id in an update
            return protocol.commit(plan.table, *removal(plan, base, together=1))

    def _require_log(self, protocol: Documents, plan: Plan, base: LoadedTable) -> None:
        """A commit that removes nothing, on a table whose metadata names no file before it.

        A new table and a clone have none. A server that never names one is found out so before
        anything can be lost.

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
        """Finds the commit by its mark, and puts back what went with it. See the port."""
        if not plan.snapshots and not plan.refs:  # nothing that could have been lost
            return CommitOutcome(plan.committed_base, "")
        first = self._first_marked(plan, self._load(plan, self._own_uuid(plan)))
        return None if first is None else self._concluded(plan, first)

    def withdraw(self, plan: Plan) -> bool:
        """Has the commit fail, should it come yet: it asserts that there is no such fence."""
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
            # It was made: what is there is back for refs, or it came late. Refs come first.
            self.confirm(plan)
        return True

    def _load(self, plan: Plan, uuid: str = "") -> LoadedTable:
        """What has the name of the plan's table now; with a UUID, if it is that table."""
        try:
            table = self.protocols[plan.table.catalog].load(plan.table)
        except TableNotFound as missing:
            raise _unproven(plan, "no table of that name: give it its name again") from missing
        if uuid and table.metadata["table-uuid"] != uuid:
            raise _unproven(plan, f"another table of that name, {table.metadata['table-uuid']}")
        return table

    def _own_uuid(self, plan: Plan) -> str:
        """The table's own; the plan's tells registrations apart, of which two may share a UUID."""
        with suppress(CommitUnproven):
            return str(self._read(plan, plan.committed_base)["table-uuid"])
        return plan.table_uuid  # its base is gone: what has that UUID is it all the same

    # --- what was lost, and is put back -----------------------------------------------------

    def _concluded(
        self, plan: Plan, done: LoadedTable, before: Json | None = None
    ) -> CommitOutcome:
        """Gives refs that the commit lost their snapshots again.

        Args:
            plan: The plan.
            done: The table right after its commit.
            before: The table right before it, where that is known.
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
        """Refs that are as they were planned: one that was set anew since is to stay longer.

        What a ref is on can be asserted in a commit, how long it stays cannot.
        """
        planned = refs_of(self._read(plan, plan.committed_base)) if plan.refs else {}
        return [name for name in plan.refs if refs_of(before).get(name) == planned.get(name)]

    def _restore(self, plan: Plan, before: Json, lost: Mapping[str, Json]) -> None:
        """One commit; of a name that somebody has used again since, that one decides."""
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
        """A tag on a snapshot that stands for a day.

        Requests are sent again, by gateways too, and a commit of ours that came a second time
        would take again what was put back. Each asserts that its fence is not there.
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

    # --- what a run that died has left ------------------------------------------------------

    def _first_marked(self, plan: Plan, table: LoadedTable) -> LoadedTable | None:
        """The table right after the commit: the first one in its line with the plan's mark.

        From the newest back to the plan's base, and no further: what went before that is another
        story. None where no file has the mark.
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
        """The table's metadata files, the newest first, past the end of each one's own log."""
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
    """Whether a plan's commit, and no later one of ours, stands in metadata."""
    return bool((metadata.get("properties") or {}).get(EXPIRED_BY) == plan.id)


def fence_of(plan: Plan) -> str:
    """The tag whose absence a plan's commit asserts."""
    return f"{FENCE_TAG}{plan.id}"


def removal(
    plan: Plan, base: LoadedTable, together: int | None = None
) -> tuple[list[Json], list[Json]]:
    """What a plan's commit requires, and what it updates.

    Args:
        plan: The plan.
        base: The table that it is made for.
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
    """That it is this table, and that its refs stand where they were seen."""
    refs = [
        {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": ref["snapshot-id"]}
        for name, ref in sorted(refs_of(metadata).items())
    ]
    return [{"type": "assert-table-uuid", "uuid": metadata["table-uuid"]}, *refs]


def _absent(ref: str) -> Json:
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": None}


def _fenced(metadata: Json) -> Json:
    """The snapshot that a fence stands on: main's, else the newest."""
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
_ROW_LINEAGE = 3  # the format from which rows have ids


def snapshot_ids(metadata: Json) -> frozenset[int]:
    """The snapshots that metadata has."""
    return frozenset(int(s["snapshot-id"]) for s in metadata.get("snapshots") or ())


def by_id(metadata: Json, snapshot_id: int) -> Json:
    """A snapshot of metadata, as it is written."""
    return next(s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot_id)


def refs_of(metadata: Json) -> Mapping[str, Json]:
    """The branches and tags, as they are written."""
    refs: Mapping[str, Json] = metadata.get("refs") or {}
    return refs


def lost_refs(before: Json, after: Json, refs_to_go: Collection[str]) -> dict[str, Json]:
    """Refs of a metadata file that its successor has not, or whose snapshots it has not.

    Args:
        before: What the server started from.
        after: What it made of that.
        refs_to_go: Refs that it was rightly asked to remove.
    """
    removed = snapshot_ids(before) - snapshot_ids(after)
    return {
        name: ref
        for name, ref in refs_of(before).items()
        if (ref["snapshot-id"] in removed or name not in refs_of(after)) and name not in refs_to_go
    }


def restoring_updates(before: Json, now: Json, lost: Mapping[str, Json]) -> list[Json]:
    """The updates that give lost refs their snapshots again, and nothing else.

    Args:
        before: What the server started from, which has the snapshots.
        now: The table as it is.
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
    """Snapshots as a server takes them back.

    Their old sequence number is refused: a table's numbers only grow. Data files keep their own,
    which stand in the manifests. A parent that is gone would be refused or lead nowhere.
    """
    last = int(now.get("last-sequence-number") or 0)
    for number, snapshot in enumerate(snapshots, last + 1):
        again: dict[str, Any] = {key: snapshot[key] for key in _KEPT if key in snapshot}
        if now["format-version"] > 1:
            again["sequence-number"] = number
        if now["format-version"] >= _ROW_LINEAGE:  # it adds no rows: theirs have ids already
            again |= {"first-row-id": now.get("next-row-id", 0), "added-rows": 0}
        yield {"action": "add-snapshot", "snapshot": again}


def _statistics(before: Json, ids: frozenset[int]) -> Iterator[Json]:
    for kind in STATISTICS:
        for statistics in before.get(kind) or ():
            if statistics["snapshot-id"] in ids:
                yield {"action": f"set-{kind}", kind: statistics}
