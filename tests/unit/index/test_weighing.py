"""Weighing in columns comes to what counting file by file comes to."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meltline.adapters.file_index.storage_usage import (
    CHANGE_COLUMNS,
    DEPARTURES,
    DUE,
    ENTRY_COLUMNS,
    MANIFEST_COLUMNS,
    RECORDED_COLUMNS,
    weigh,
)
from meltline.adapters.manifests.path_hash import key_hash
from meltline.domain.deletion.storage import FileReference, Stage
from meltline.domain.iceberg.locations import OwnerIndex, Ownership
from meltline.ports import UsageQuery, UsageTotals, UsedFile
from tests.lake.by_changes import Change, columns, told

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABLES = ("a", "b", "c")
OWNERS = OwnerIndex([Ownership(f"file:///lake/{uuid}/", uuid) for uuid in ("a", "b")])
PATHS = [f"file:///lake/{folder}/{n}.parquet" for folder in ("a", "b", "nobody") for n in range(4)]
DAYS = st.integers(-9, 0).map(lambda day: NOW + timedelta(days=day))
USES = st.builds(
    FileReference,
    st.sampled_from(TABLES),
    st.sampled_from([Stage.ACTIVE, Stage.HISTORICAL]),
    st.none() | DAYS,
    st.booleans(),
)
AROUND = st.integers(-9, 2).map(lambda day: NOW + timedelta(days=day))
GONE = st.tuples(st.sampled_from(["failsafe", "deleted", "cancelled"]), AROUND, AROUND)

Held = dict[int, set[str]]
Gone = dict[str, tuple[str, datetime, datetime]]


@dataclass
class Lines:
    """Tables whose snapshots are known by what they changed.

    Attributes:
        present: What each table's files are in each of its snapshots; these are recorded.
        uses: Of those that refer to their files still.
        changes: What the ledger says of all of them, and of some that were never recorded.
    """

    present: dict[str, dict[int, frozenset[str]]] = field(default_factory=dict)
    uses: dict[str, list[tuple[int, FileReference]]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def of(self, path: str) -> list[FileReference]:
        """Who refers to a file, one snapshot after the other."""
        return [
            use
            for uuid, line in self.uses.items()
            for number, use in line
            if path in self.present[uuid][number]
        ]


@st.composite
def lines(draw: st.DrawFn) -> Lines:
    """Random lines: the snapshots' files first, and what the ledger would say of them then."""
    drawn = Lines()
    for uuid in draw(st.sets(st.sampled_from(TABLES))):
        numbers = sorted(draw(st.sets(st.integers(1, 12), min_size=1)))
        files = {n: draw(st.frozensets(st.sampled_from(PATHS))) for n in numbers}
        drawn.present[uuid] = files
        drawn.changes += told(uuid, files)
        kept = draw(st.lists(st.sampled_from(numbers), unique=True))
        uses = USES.map(
            lambda use, uuid=uuid: FileReference(uuid, use.stage, use.until, use.is_now)
        )
        drawn.uses[uuid] = [(number, draw(uses)) for number in kept]
        # A run that died left rows of a snapshot that is on no line, and some rows twice.
        other = draw(st.lists(st.tuples(st.sampled_from(PATHS), st.none() | st.integers(1, 12))))
        drawn.changes += [(uuid, 99, path, None, 1, until) for path, until in other]
    drawn.changes += draw(st.lists(st.sampled_from(drawn.changes))) if drawn.changes else []
    return drawn


def size(path: str) -> int:
    return 1 << PATHS.index(path)


def weighed(
    weighing: UsageQuery, held: Held, gone: Gone, load_concurrently: int, drawn: Lines | None = None
) -> UsageTotals:
    drawn = drawn or Lines()
    entries = columns(
        [(m, path, size(path), key_hash(path)) for m, paths in held.items() for path in paths],
        ENTRY_COLUMNS,
    )
    departed = [
        {
            "key_hash": key_hash(path),
            "bytes": size(path),
            "owner": "a",
            "state": state,
            "departed_at": departed_at,
            "recorded_at": recorded_at,
            "written_ns": written,
        }
        for path, (newest, departed_at, recorded_at) in gone.items()
        for written, state in enumerate(("failsafe", newest))
    ]
    return weigh(
        weighing,
        entries.to_batches(),
        columns([], MANIFEST_COLUMNS),
        pa.Table.from_pylist(departed, schema=DEPARTURES),
        load_concurrently,
        changes=columns(
            [
                (uuid, snapshot, path, key_hash(path), part, size(path), since, until)
                for uuid, snapshot, path, part, since, until in drawn.changes
            ],
            CHANGE_COLUMNS,
        ).to_batches(max_chunksize=5),
        recorded=columns(
            [(uuid, number) for uuid, files in drawn.present.items() for number in files],
            RECORDED_COLUMNS,
        ),
    )


def counted(
    weighing: UsageQuery, held: Held, gone: Gone, drawn: Lines | None = None
) -> UsageTotals:
    """The same, one file after the other."""
    drawn = drawn or Lines()
    owned, foreign = Counter[tuple[str, Stage]](), Counter[str]()
    together, lent = set[tuple[str, str]](), set[tuple[str, str]]()
    known = set[str]()
    left = {p: at for p, (state, at, _) in gone.items() if state != "cancelled" and at <= NOW}
    for path in PATHS:
        uses = [u for m, paths in held.items() if path in paths for u in weighing.manifests[m]]
        uses += [other.use for other in weighing.side_files if other.path == path]
        uses += drawn.of(path)
        uses = [use for use in uses if use.keeps(left.get(path))]
        owners = OWNERS.owners(path)
        if not uses:
            if path in left:
                state, _, recorded_at = gone[path]
                is_gone = state == "deleted" and recorded_at <= NOW
                owned["a", Stage.DELETED if is_gone else Stage.FAILSAFE] += size(path)
                known.add(path)
            continue
        known.add(path)
        stage, owner = min((use.stage_of(owners) for use in uses), key=lambda s: (s[0].rank, s[1]))
        if owner:
            owned[owner, stage] += size(path)
        else:
            foreign[min(use.table_uuid for use in uses)] += size(path)
        users = sorted({use.table_uuid for use in uses if use.is_now})
        together |= {(x, y) for x in users for y in users if x < y and users[0] in (x,)}
        together |= {(x, users[-1]) for x in users if x != users[-1]}
        lent |= {(owner, user) for user in users if owner not in ("", user)}
    return UsageTotals(owned, foreign, frozenset(together), frozenset(lent), frozenset(known))


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(1, 6), st.sets(st.sampled_from(PATHS)), max_size=6),
    st.data(),
    st.dictionaries(st.sampled_from(PATHS), GONE),
    st.sampled_from([1, 2, 5, 1_000_000]),
    lines(),
)
def test_columns_come_to_what_single_files_come_to(
    held: Held, data: st.DataObject, gone: Gone, load_concurrently: int, drawn: Lines
) -> None:
    manifests = {m: data.draw(st.sets(USES, min_size=1, max_size=3)) for m in held}
    loose = data.draw(st.lists(st.tuples(st.sampled_from(PATHS), USES), max_size=3))
    others = [UsedFile(path, size(path), use) for path, use in loose]
    weighing = UsageQuery(NOW, OWNERS, manifests, others, PATHS, drawn.uses)
    found = weighed(weighing, held, gone, load_concurrently, drawn)
    assert found == counted(weighing, held, gone, drawn)


def test_what_nobody_refers_to_weighs_nothing() -> None:
    weighing = UsageQuery(NOW, OWNERS, {}, [], ["file:///lake/a/0.parquet"])
    assert weighed(weighing, {1: {PATHS[0]}}, {}, 10) == UsageTotals()


# --- snapshots that are known by what they changed -----------------------------------------------

OLD, HEAD = (
    FileReference("a", Stage.HISTORICAL, None, True),
    FileReference("a", Stage.ACTIVE, None, True),
)
X, Y, Z = PATHS[:3]


def owned(
    files: dict[int, frozenset[str]], uses: list[tuple[int, FileReference]], *more: Change
) -> Counter:
    """Bytes of table a by stage."""
    drawn = Lines({"a": files}, {"a": uses}, [*told("a", files), *more])
    found = weighed(UsageQuery(NOW, OWNERS, {}, [], (), drawn.uses), {}, {}, 10, drawn)
    return Counter({stage: count for (_, stage), count in found.owned.items()})


THREE = {1: frozenset({X}), 2: frozenset({X, Y}), 3: frozenset({Y, Z})}


def test_a_file_is_as_active_as_the_youngest_snapshot_that_its_span_reaches() -> None:
    found = owned(THREE, [(1, OLD), (2, OLD), (3, HEAD)])
    assert found == {Stage.HISTORICAL: size(X), Stage.ACTIVE: size(Y) + size(Z)}


def test_a_file_that_only_departed_snapshots_had_weighs_nothing() -> None:
    assert owned(THREE, [(3, HEAD)]) == {Stage.ACTIVE: size(Y) + size(Z)}


def test_what_a_snapshot_that_was_never_recorded_says_does_not_count() -> None:
    left = ("a", 77, Y, None, 2, 3)
    lost = ("a", 77, PATHS[3], None, 1, None)
    found = owned(THREE, [(3, HEAD)], left, lost)
    assert found == {Stage.ACTIVE: size(Y) + size(Z)}


def test_a_puffin_file_is_there_while_one_of_its_parts_is_and_counts_once() -> None:
    parts = [("a", 1, Z, part, 1, None) for part in (4, 50)]
    found = owned({1: frozenset(), 2: frozenset()}, [(2, HEAD)], *parts, ("a", 2, Z, 4, 1, 2))
    assert found == {Stage.ACTIVE: size(Z)}


@pytest.mark.parametrize("longest", [1, 2, 20, 34, 39])
def test_the_snapshot_that_ends_last_decides_wherever_it_stands_on_a_long_line(
    longest: int,
) -> None:
    """Snapshots that others expired, each with its own end, and a file that all of them had."""
    numbers = range(1, 40)
    ends = [NOW - timedelta(hours=abs(longest - number)) for number in numbers]
    uses = [
        (n, FileReference("a", Stage.HISTORICAL, end)) for n, end in zip(numbers, ends, strict=True)
    ]
    drawn = Lines({"a": dict.fromkeys(numbers, frozenset({X}))}, {"a": uses})
    drawn.changes = told("a", drawn.present["a"])
    weighing = UsageQuery(NOW, OWNERS, {}, [], (), drawn.uses)
    for minutes, stage in ((1, Stage.HISTORICAL), (0, Stage.FAILSAFE)):
        left = {X: ("failsafe", NOW - timedelta(minutes=minutes), NOW)}
        found = weighed(weighing, {}, left, 10, drawn)
        assert found.owned == {("a", stage): size(X)}


# --- what comes due ------------------------------------------------------------------------------


def test_what_waits_is_told_by_the_day_on_which_it_is_due() -> None:
    def row(path: str, state: str, due_in: float, written: int = 1, owner: str = "a") -> object:
        due = NOW + timedelta(days=due_in)
        times = {"departed_at": NOW - timedelta(days=3), "recorded_at": NOW, "due_at": due}
        file = {"key_hash": key_hash(path), "bytes": size(path), "owner": owner}
        return {**file, **times, "state": state, "written_ns": written}

    rows = [
        row(PATHS[0], "failsafe", 0.5),
        row(PATHS[1], "failsafe", -2),  # overdue: it stands under the day before
        row(PATHS[2], "failsafe", 4, owner="b"),
        row(PATHS[3], "failsafe", 4),
        row(PATHS[4], "failsafe", 4),
        row(PATHS[5], "failsafe", 20),  # later than is asked for
        row(PATHS[6], "failsafe", 1),
        row(PATHS[6], "cancelled", 1, written=2),
        row(PATHS[7], "deleted", 1),
        row(PATHS[8], "failsafe", 1),  # and yet somebody refers to it
    ]
    departed = pa.Table.from_pylist(rows, schema=DEPARTURES.append(DUE))
    used = [UsedFile(PATHS[8], size(PATHS[8]), OLD)]
    due_by = NOW + timedelta(days=14)
    for at_once in (2, 1_000_000):
        weighing = UsageQuery(NOW, OWNERS, {}, used, due_by=due_by)
        entries, manifests = columns([], ENTRY_COLUMNS), columns([], MANIFEST_COLUMNS)
        totals = weigh(weighing, entries.to_batches(), manifests, departed, at_once)
        before, first, later = date(2026, 2, 28), date(2026, 3, 1), date(2026, 3, 5)
        assert totals.due == {
            ("a", before): size(PATHS[1]),
            ("a", first): size(PATHS[0]),
            ("b", later): size(PATHS[2]),
            ("a", later): size(PATHS[3]) + size(PATHS[4]),
        }
        weighing = replace(weighing, due_by=None)
        assert weigh(weighing, entries.to_batches(), manifests, departed, at_once).due == {}
