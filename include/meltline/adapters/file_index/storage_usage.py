"""Columnar storage usage by owner and stage, without an object for each of millions of files.

Each row of the index becomes three numbers: the hash of its location, its bytes, and a code. The
code says who references its manifest and who owns its folder. There are few codes, so their
consequences are computed once each; then the rows are grouped by location. `index_reader.py` calls
it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from meltline.adapters.file_index.lifetime_references import LineUses
from meltline.adapters.index_tables.lifetimes import spans_of
from meltline.adapters.index_tables.rows import newest_rows
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.locations import OwnerIndex
from meltline.ports import UsageQuery, UsageTotals, UsedFile

_TIME = pa.timestamp("us", tz="UTC")
ENTRY_COLUMNS = ("manifest_id", "path", "bytes", "key_hash")
MANIFEST_COLUMNS = ("manifest_id", "path", "bytes")
CHANGE_COLUMNS = (
    "table_uuid",
    "snapshot_id",
    "path",
    "key_hash",
    "part",
    "bytes",
    "since",
    "until",
)
RECORDED_COLUMNS = ("table_uuid", "snapshot_id")
DEPARTURES = pa.schema(
    [
        ("key_hash", pa.int64()),
        ("bytes", pa.int64()),
        ("owner", pa.string()),
        ("state", pa.string()),
        ("departed_at", _TIME),
        ("recorded_at", _TIME),
        ("written_ns", pa.int64()),
    ]
)
DUE = pa.field("due_at", _TIME)
"""The column of departures that is needed for due dates."""
_EPOCH = date(1970, 1, 1)
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
_STAGES = list(Stage)
_AT_ONCE = 1_000_000  # rows; some hundreds of bytes each while they are grouped
# A code is the number of a set of uses times this, plus the number of a set of owners: two numbers
# in one int64, to be grouped as one. There must be fewer sets of owners than this, and are.
_SHIFT = 1 << 24
_FILES = pa.schema([("key", pa.int64()), ("bytes", pa.int64()), ("code", pa.int64())])
_USED = ["key_hash", "bytes", "owners", "uses"]
_USES = pa.schema(
    [
        ("code", pa.int64()),
        ("user", pa.int64()),
        ("standing", pa.int64()),
        ("until", _TIME),
        ("is_now", pa.bool_()),
    ]
)


def weigh(
    weighing: UsageQuery,
    entries: Iterable[pa.RecordBatch],
    manifests: pa.Table,
    departed: pa.Table,
    batch: int = _AT_ONCE,
    *,
    changes: Iterable[pa.RecordBatch] = (),
    recorded: pa.Table | None = None,
) -> UsageTotals:
    """Computes the usage of the index; see the port `LedgerReader`.

    Args:
        weighing: The query.
        entries: Live rows of the index: `ENTRY_COLUMNS`.
        manifests: The manifests themselves: `MANIFEST_COLUMNS`.
        departed: Every row of the departures: the columns of `DEPARTURES`; and `DUE`, if due dates
            are requested.
        batch: About how many rows are grouped at a time.
        changes: The changes of snapshots that are known by them: `CHANGE_COLUMNS`.
        recorded: Every such snapshot: `RECORDED_COLUMNS`.
    """
    codes = _Codes(weighing)
    themselves = manifests.append_column("key_hash", manifests["manifest_id"])
    parts = [codes.held(batch) for batch in chain(entries, themselves.to_batches())]
    if recorded is not None and any(weighing.lines.values()):
        parts.append(codes.on_lines(LineUses(weighing.lines), changes, recorded))
    files = pa.concat_tables([*parts, codes.side_files(weighing.side_files)])
    names, uses = codes.uses()
    owners, departures = _departed(departed, weighing.at, weighing.due_by)
    hashes = {path: key_hash(path) for path in weighing.paths}
    total = _Sum(names, owners, hashes)
    parts = 1 << (max(files.num_rows, departures.num_rows) // batch).bit_length()
    for used, gone in zip(_parted(files, parts), _parted(departures, parts), strict=True):
        total.add(used.join(uses, "code"), gone)
    return total.holdings()


def _parted(rows: pa.Table, parts: int) -> Iterator[pa.Table]:
    """Splits the rows by location: only one part at a time is joined and grouped.

    `parts` is a power of two, and a hash's low bits select the part. All rows of one location are
    in one part, so that grouping part by part equals grouping them all.
    """
    if parts == 1:
        yield rows
        return
    share = pc.bit_wise_and(rows["key"], parts - 1).to_numpy().astype(np.uint16)
    order = np.argsort(share, kind="stable")  # linear time for numbers this short
    for numbers in np.split(order, np.cumsum(np.bincount(share, minlength=parts))[:-1]):
        yield rows.take(numbers)


class _Codes:
    """Numbers for facts that many files share: who references them, and who owns them."""

    def __init__(self, weighing: UsageQuery) -> None:
        self._owner_index: OwnerIndex = weighing.owners
        self._use_sets: dict[frozenset[FileReference], int] = {}
        self._owner_sets: dict[tuple[str, ...], int] = {}
        self._codes: set[int] = set()
        self._manifests = pa.array(weighing.manifests.keys(), pa.int64())
        numbers = [self._number(self._use_sets, frozenset(u)) for u in weighing.manifests.values()]
        self._of_manifests = pa.array(numbers, pa.int64())

    def held(self, rows: pa.RecordBatch) -> pa.Table:
        """Codes the files whose manifest is referenced."""
        rows = rows.filter(pc.is_valid(rows["key_hash"]))
        at = pc.index_in(rows["manifest_id"], value_set=self._manifests)
        rows, at = rows.filter(pc.is_valid(at)), at.drop_null()
        uses = self._of_manifests.take(at)
        return self._coded(rows["key_hash"], rows["bytes"], self._owners_of(rows["path"]), uses)

    def on_lines(
        self, lines: LineUses, changes: Iterable[pa.RecordBatch], recorded: pa.Table
    ) -> pa.Table:
        """Codes the files that snapshots known by their changes reference."""
        parts = [pa.Table.from_batches([self._owned(lines.numbered(rows))]) for rows in changes]
        if not parts:
            return _FILES.empty_table()
        spans = spans_of(pa.concat_tables(parts), lines.numbered(recorded))
        at, sets = lines.of(spans)
        numbers = [self._number(self._use_sets, uses) if uses else None for uses in sets]
        uses = pa.array(numbers, pa.int64()).take(at)
        used = pa.table([*spans.select(["key_hash", "bytes", "owners"]), uses], _USED)
        used = used.filter(pc.is_valid(used["uses"]))
        return self._coded(*used)

    def _owned(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Replaces paths by the number of their owners: there are millions of paths."""
        rows = rows.filter(pc.is_valid(rows["key_hash"]))
        owners = self._owners_of(rows["path"])
        return rows.drop_columns(["path"]).append_column("owners", owners)

    def _owners_of(self, paths: pa.Array) -> pa.Array:
        folders = pc.replace_substring_regex(paths, "[^/]*$", "").dictionary_encode()
        owners = [self._owners_in(folder) for folder in folders.dictionary.to_pylist()]
        return pa.array(owners, pa.int64()).take(folders.indices)

    def _coded(self, key: pa.Array, size: pa.Array, owners: pa.Array, uses: pa.Array) -> pa.Table:
        code = pc.add(pc.multiply(uses, _SHIFT), owners)
        self._codes.update(pc.unique(code).to_pylist())
        return pa.table([key, size, code], _FILES)

    def side_files(self, files: Iterable[UsedFile]) -> pa.Table:
        """Codes files that are in no manifest."""
        rows: list[tuple[int, int, int]] = []
        for file in files:
            use = self._number(self._use_sets, frozenset({file.use}))
            owners = self._owners_in(file.path.rpartition("/")[0] + "/")
            rows.append((key_hash(file.path), file.bytes, use * _SHIFT + owners))
        self._codes.update(code for _, _, code in rows)
        return pa.table(_columns(rows, _FILES), _FILES)

    def uses(self) -> tuple[list[str], pa.Table]:
        """Returns tables by their numbers, and a row for each use behind a code.

        Each row has one number for a stage and an owner; the lowest of a file's is its own.
        """
        sets = [(code, divmod(code, _SHIFT)) for code in sorted(self._codes)]
        use_sets, owner_sets = list(self._use_sets), list(self._owner_sets)
        owned_uses = [(code, use, owner_sets[o]) for code, (u, o) in sets for use in use_sets[u]]
        uuids = {uuid for _, use, owners in owned_uses for uuid in (use.table_uuid, *owners)}
        names = sorted(uuids | {""})  # the empty name is first: owner 0 means no owner
        numbers = {uuid: number for number, uuid in enumerate(names)}
        rows = []
        for code, use, owners in owned_uses:
            stage, owner = use.stage_of(owners)
            # Stages go from left to right, so the lowest number of a file is its stage: a file that
            # one table's head references is active, whatever its stage for others.
            standing = _STAGES.index(stage) * len(names) + numbers[owner]
            rows.append((code, numbers[use.table_uuid], standing, use.until, use.is_now))
        return names, pa.table(_columns(rows, _USES), _USES)

    def _owners_in(self, folder: str) -> int:
        return self._number(self._owner_sets, self._owner_index.owners(f"{folder}-"))

    @staticmethod
    def _number(of: dict[Any, int], key: object) -> int:
        return of.setdefault(key, len(of))


def _columns(rows: Collection[tuple[Any, ...]], schema: pa.Schema) -> list[pa.Array]:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]


def _departed(rows: pa.Table, at: datetime, due_by: datetime | None) -> tuple[list[str], pa.Table]:
    """Returns files that had departed by then, each once, and their owners by number.

    Each row has the file's `key`, `bytes`, number of the `owner`, when it `departed_at`, and
    whether it was `deleted` by then; also the `due` day, if that is requested. Texts become
    numbers: they would take most of the memory.
    """
    owners = rows["owner"].cast(pa.string()).dictionary_encode()  # all parts by one dictionary
    numbers = pa.chunked_array([part.indices for part in owners.chunks], pa.int32())
    states = rows["state"].cast(pa.string())
    deleted = pc.and_(
        pc.equal(states, str(DepartureState.DELETED)),
        pc.less_equal(rows["recorded_at"], pa.scalar(at, _TIME)),
    )
    standing = pc.and_(
        pc.not_equal(states, str(DepartureState.CANCELLED)),
        pc.less_equal(rows["departed_at"], pa.scalar(at, _TIME)),
    )
    numbered = rows.select(["key_hash", "bytes", "departed_at", "written_ns"])
    for name, column in (("owner", numbers), ("deleted", deleted), ("standing", standing)):
        numbered = numbered.append_column(name, column)
    if due_by is not None:
        numbered = numbered.append_column("due", _due_days(rows["due_at"], at, due_by))
    newest = newest_rows(numbered).rename_columns({"key_hash": "key"})
    names = owners.chunk(0).dictionary.to_pylist() if owners.num_chunks else []
    return names, newest.filter(newest["standing"]).drop_columns(["written_ns", "standing"])


def _due_days(due: pa.ChunkedArray, at: datetime, due_by: datetime) -> pa.ChunkedArray:
    """Days since 1970 on which files are due; the day before `at` if overdue, null if later."""
    first, last = (pa.scalar(moment, _TIME).cast(pa.int64()) for moment in (at, due_by))
    before = pa.scalar(at - _DAY, _TIME).cast(pa.int64())
    micros = due.cast(pa.int64())
    is_overdue = pc.less_equal(micros, first)
    days = pc.divide(pc.if_else(is_overdue, before, micros), _DAY // _MICROSECOND)
    return pc.if_else(
        pc.less_equal(micros, last), days.cast(pa.int32()), pa.scalar(None, pa.int32())
    )


def _in_use(used: pa.Table, departures: pa.Table) -> pa.Table:
    """Leaves out files that departed after a table's metadata stopped referencing them."""
    open_ones = used.filter(pc.is_null(used["until"]))
    ended = used.filter(pc.is_valid(used["until"]))
    if not ended.num_rows:
        return open_ones
    ended = ended.join(departures.select(["key", "departed_at"]), "key", join_type="left outer")
    stays = pc.fill_null(pc.less(ended["departed_at"], ended["until"]), fill_value=True)
    return pa.concat_tables([open_ones, ended.filter(stays).select(open_ones.column_names)])


class _Sum:
    """Sums over all parts. No file is in two of them."""

    def __init__(self, names: list[str], owners: Sequence[str], hashes: Mapping[str, int]) -> None:
        """Takes the names of tables, the owners of departures, and the requested paths' hashes."""
        self._names = names
        self._departed_from = owners
        self._asked = hashes
        self._owned: Counter[tuple[str, Stage]] = Counter()
        self._foreign: Counter[str] = Counter()
        self._together: set[tuple[str, str]] = set()
        self._lent: set[tuple[str, str]] = set()
        self._known: set[str] = set()
        self._due: Counter[tuple[str, date]] = Counter()

    def holdings(self) -> UsageTotals:
        """Returns the totals."""
        return UsageTotals(
            self._owned,
            self._foreign,
            frozenset(self._together),
            frozenset(self._lent),
            frozenset(self._known),
            self._due,
        )

    def add(self, used: pa.Table, departures: pa.Table) -> None:
        """Adds uses of files, a row for each, and departures."""
        used = _in_use(used, departures)
        # Two files with equal hashes count as one with the larger's bytes. Only sums are off:
        # no deletion depends on this module (decision 028).
        each = used.group_by("key").aggregate(
            [("standing", "min"), ("bytes", "max"), ("user", "min")]
        )
        departures = departures.join(each.select(["key"]), "key", join_type="left anti")
        self._add_kept(each)
        self._add_departed(departures)
        self._add_links(used, each)
        keys = pa.chunked_array([*each["key"].chunks, *departures["key"].chunks], pa.int64())
        hashes = pa.array(self._asked.values(), pa.int64())
        flags = pc.is_in(hashes, value_set=keys).to_pylist()
        self._known.update(path for path, flag in zip(self._asked, flags, strict=True) if flag)

    def _add_kept(self, each: pa.Table) -> None:
        """Adds bytes by owner and stage; unowned files by the first table that references them."""
        sums = each.group_by(["standing_min", "user_min"]).aggregate([("bytes_max", "sum")])
        for row in sums.to_pylist():
            stage, owner = divmod(row["standing_min"], len(self._names))
            if owner:
                self._owned[self._names[owner], _STAGES[stage]] += row["bytes_max_sum"]
            else:
                self._foreign[self._names[row["user_min"]]] += row["bytes_max_sum"]

    def _add_departed(self, departures: pa.Table) -> None:
        """Adds bytes of files that had departed by then, deleted by then or not."""
        rows = departures.group_by(["owner", "deleted"])
        for row in rows.aggregate([("bytes", "sum")]).to_pylist():
            stage = Stage.DELETED if row["deleted"] else Stage.FAILSAFE
            self._owned[self._departed_from[row["owner"]], stage] += row["bytes_sum"]
        if "due" in departures.column_names:
            self._add_due(departures.filter(pc.invert(departures["deleted"])))

    def _add_due(self, waiting: pa.Table) -> None:
        """Adds bytes of waiting files, by the day on which they are due."""
        waiting = waiting.filter(pc.is_valid(waiting["due"]))
        rows = waiting.group_by(["owner", "due"]).aggregate([("bytes", "sum")])
        for row in rows.to_pylist():
            day = _EPOCH + row["due"] * _DAY
            self._due[self._departed_from[row["owner"]], day] += row["bytes_sum"]

    def _add_links(self, used: pa.Table, each: pa.Table) -> None:
        """Adds tables that share a file now, and owners with the tables that use their files."""
        # The first and the last of a file's users represent all: a table together with either one
        # is in one group with the rest. All pairs would be the square of the users.
        now = used.filter(used["is_now"]).select(["key", "user"])
        ends = now.group_by("key").aggregate([("user", "min"), ("user", "max")])
        ends = ends.join(each.select(["key", "standing_min"]), "key", join_type="inner")
        count = len(self._names)
        whole = pc.multiply(pc.divide(ends["standing_min"], count), count)
        ends = ends.append_column("owner", pc.subtract(ends["standing_min"], whole))
        single = pc.equal(ends["user_min"], ends["user_max"])
        shared = ends.filter(pc.invert(pc.and_(single, pc.equal(ends["user_min"], ends["owner"]))))
        pairs = now.join(shared, "key", join_type="inner")
        distinct = pairs.group_by(["user", "user_min", "user_max", "owner"]).aggregate([])
        for row in distinct.to_pylist():
            user, owner = self._names[row["user"]], self._names[row["owner"]]
            first, last = self._names[row["user_min"]], self._names[row["user_max"]]
            self._together.update(p for p in ((first, user), (user, last)) if p[0] != p[1])
            if owner not in ("", user):
                self._lent.add((owner, user))
