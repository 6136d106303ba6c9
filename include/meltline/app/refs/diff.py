"""Diff: the difference between two snapshots of a table, from the summaries of the commits between.

The cost grows with the number of commits, not with the size of the table. A commit that both adds
and removes a file counts in both; the net is the difference of the totals. The CLI and SQL call it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meltline.app.catalog.resolve import load_table
from meltline.app.services import ReadContext
from meltline.domain.errors import MeltlineError, SnapshotNotFound
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import Snapshot, TableMetadata
from meltline.domain.iceberg.timeline import require_snapshot
from meltline.domain.safe_text import quote

_ADDED = ("added-data-files", "added-delete-files"), "added-records", "added-files-size"
_REMOVED = ("deleted-data-files", "removed-delete-files"), "deleted-records", "removed-files-size"
_TOTAL = ("total-data-files", "total-delete-files"), "total-records", "total-files-size"


@dataclass(frozen=True)
class Amount:
    """Files (data and delete files), rows and bytes; None if unknown."""

    files: int | None
    rows: int | None
    bytes: int | None

    def plus(self, amount: "Amount") -> "Amount":
        """The sum; unknown if either is."""
        return Amount(
            _add(self.files, amount.files),
            _add(self.rows, amount.rows),
            _add(self.bytes, amount.bytes),
        )

    def minus(self, amount: "Amount") -> "Amount":
        """The difference; unknown if either is."""
        return self.plus(Amount(_minus(amount.files), _minus(amount.rows), _minus(amount.bytes)))


@dataclass(frozen=True)
class Diff:
    """The changes from one snapshot to another.

    Attributes:
        commits: Number of commits undone and made between them; None if the history between is
            broken, so that only the net is known.
        added: Amount that these commits add; `removed` is the amount that they remove.
        net: Difference of the totals.
    """

    table: TableName
    a: int
    b: int
    commits: int | None
    added: Amount
    removed: Amount
    net: Amount


def diff(context: ReadContext, table: TableName, a: str, b: str) -> Diff:
    """Compares two states of a table, each a branch, tag or snapshot id.

    Raises:
        SnapshotNotFound: The table has no such snapshot, branch or tag.
        TableNotFound: There is no such table.
    """
    state = load_table(context, table)
    start, end = _snapshot(state, a), _snapshot(state, b)
    unknown = Amount(None, None, None)
    net = _total(end).minus(_total(start))
    way = _path_between(state, start, end)
    if way is None:
        ids = start.snapshot_id, end.snapshot_id
        return Diff(table, *ids, None, unknown, unknown, net)
    undone, commits = way
    added = removed = Amount(0, 0, 0)
    for snapshots, forward in ((undone, False), (commits, True)):
        for snapshot in snapshots:
            plus, minus = _changes(context, state, snapshot)
            added = added.plus(plus if forward else minus)
            removed = removed.plus(minus if forward else plus)
    return Diff(
        table, start.snapshot_id, end.snapshot_id, len(undone) + len(commits), added, removed, net
    )


def _snapshot(state: TableMetadata, word: str) -> Snapshot:
    ref = state.refs.get(word)
    if ref is not None:
        return state.snapshots[ref.snapshot_id]
    number = int(word) if word.lstrip("-").isdecimal() else None
    if number is not None:
        return state.snapshots[require_snapshot(state, number)]
    raise SnapshotNotFound(
        f"{state.name} has no branch, tag or snapshot {word}",
        object=str(state.name),
        expected=", ".join(sorted(state.refs)[:8]) or "a snapshot id",
        found=word,
        next=f"`meltline tags {quote(state.name)}` and `meltline explain {quote(state.name)}` "
        "list them",
    )


def _path_between(
    state: TableMetadata, start: Snapshot, end: Snapshot
) -> tuple[list[Snapshot], list[Snapshot]] | None:
    """Commits to undo from the start, and to make to the end; None without a common ancestor."""
    back = list(state.ancestry(start.snapshot_id))
    seen = {snapshot.snapshot_id: position for position, snapshot in enumerate(back)}
    commits: list[Snapshot] = []
    for snapshot in state.ancestry(end.snapshot_id):
        if snapshot.snapshot_id in seen:
            return back[: seen[snapshot.snapshot_id]], commits
        commits.append(snapshot)
    whole = _is_root(back[-1]) and (not commits or _is_root(commits[-1]))
    return (back, commits) if whole else None


def _is_root(snapshot: Snapshot) -> bool:
    return snapshot.parent_id is None


def _changes(
    context: ReadContext, state: TableMetadata, snapshot: Snapshot
) -> tuple[Amount, Amount]:
    """Changes of one commit, by its summary if that fits the totals, otherwise by its manifests."""
    added, removed = _amount(snapshot, _ADDED), _amount(snapshot, _REMOVED)
    parent = None if snapshot.parent_id is None else state.snapshots.get(snapshot.parent_id)
    before = Amount(0, 0, 0) if snapshot.parent_id is None else _total(parent) if parent else None
    total = _total(snapshot)
    if before and total.files is not None and before.plus(added).minus(removed) == total:
        return added, removed
    return _by_manifests(context, snapshot)


def _by_manifests(context: ReadContext, snapshot: Snapshot) -> tuple[Amount, Amount]:
    try:
        content = context.store.read(snapshot.manifest_list)
        refs = context.manifests.read_list(snapshot.manifest_list, content)
    except (MeltlineError, FileNotFoundError):
        return Amount(None, None, None), Amount(None, None, None)
    own = [ref for ref in refs if ref.added_snapshot_id == snapshot.snapshot_id]
    return _counted(ref.added_files for ref in own), _counted(ref.deleted_files for ref in own)


def _counted(numbers: Iterable[int | None]) -> Amount:
    counts = list(numbers)
    stated = [count for count in counts if count is not None]
    return Amount(sum(stated) if len(stated) == len(counts) else None, None, None)


def _amount(snapshot: Snapshot, keys: tuple[tuple[str, str], str, str]) -> Amount:
    """Reads amounts from a summary; a key that is left out counts as zero."""
    files, rows, size = keys
    numbers = [_number(snapshot.summary, key) for key in files]
    total = sum(n for n in numbers if n is not None) if None not in numbers else None
    return Amount(total, _number(snapshot.summary, rows), _number(snapshot.summary, size))


def _total(snapshot: Snapshot) -> Amount:
    """A snapshot's totals; unlike in a commit's changes, a key that is left out is unknown."""
    files, rows, size = _TOTAL
    unknown = dict.fromkeys((*files, rows, size), "unknown")
    return _amount(replace(snapshot, summary={**unknown, **snapshot.summary}), _TOTAL)


def _number(summary: Mapping[str, str], key: str) -> int | None:
    raw = summary.get(key, "0")
    return int(raw) if raw.isdecimal() else None


def _add(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _minus(number: int | None) -> int | None:
    return None if number is None else -number
