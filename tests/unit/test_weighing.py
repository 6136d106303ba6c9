"""Weighing in columns comes to what counting file by file comes to."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from meltline.adapters.hashing import key_hash
from meltline.adapters.weighing import DEPARTURES, ENTRY_COLUMNS, MANIFEST_COLUMNS, weigh
from meltline.domain.locations import OwnerIndex, Ownership
from meltline.domain.storage import Stage, Use
from meltline.ports import Holdings, UsedFile, Weighing

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TABLES = ("a", "b", "c")
OWNERS = OwnerIndex([Ownership(f"file:///lake/{uuid}/", uuid) for uuid in ("a", "b")])
PATHS = [f"file:///lake/{folder}/{n}.parquet" for folder in ("a", "b", "nobody") for n in range(4)]
DAYS = st.integers(-9, 0).map(lambda day: NOW + timedelta(days=day))
USES = st.builds(
    Use,
    st.sampled_from(TABLES),
    st.sampled_from([Stage.ACTIVE, Stage.HISTORICAL]),
    st.none() | DAYS,
    st.booleans(),
)
AROUND = st.integers(-9, 2).map(lambda day: NOW + timedelta(days=day))
GONE = st.tuples(st.sampled_from(["failsafe", "deleted", "cancelled"]), AROUND, AROUND)

Held = dict[int, set[str]]
Gone = dict[str, tuple[str, datetime, datetime]]


def columns(rows: list[tuple[object, ...]], names: tuple[str, ...]) -> pa.Table:
    kinds = {"path": pa.string()}
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table(
        [pa.array(c, kinds.get(n, pa.int64())) for c, n in zip(cells, names, strict=True)],
        list(names),
    )


def size(path: str) -> int:
    return 1 << PATHS.index(path)


def weighed(weighing: Weighing, held: Held, gone: Gone, at_once: int) -> Holdings:
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
        at_once,
    )


def counted(weighing: Weighing, held: Held, gone: Gone) -> Holdings:
    """The same, one file after the other."""
    owned, foreign = Counter[tuple[str, Stage]](), Counter[str]()
    together, lent = set[tuple[str, str]](), set[tuple[str, str]]()
    known = set[str]()
    left = {p: at for p, (state, at, _) in gone.items() if state != "cancelled" and at <= NOW}
    for path in PATHS:
        uses = [u for m, paths in held.items() if path in paths for u in weighing.manifests[m]]
        uses += [other.use for other in weighing.others if other.path == path]
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
    return Holdings(owned, foreign, frozenset(together), frozenset(lent), frozenset(known))


@given(
    st.dictionaries(st.integers(1, 6), st.sets(st.sampled_from(PATHS)), max_size=6),
    st.data(),
    st.dictionaries(st.sampled_from(PATHS), GONE),
    st.sampled_from([1, 2, 5, 1_000_000]),
)
def test_columns_come_to_what_single_files_come_to(
    held: Held, data: st.DataObject, gone: Gone, at_once: int
) -> None:
    manifests = {m: data.draw(st.sets(USES, min_size=1, max_size=3)) for m in held}
    loose = data.draw(st.lists(st.tuples(st.sampled_from(PATHS), USES), max_size=3))
    others = [UsedFile(path, size(path), use) for path, use in loose]
    weighing = Weighing(NOW, OWNERS, manifests, others, PATHS)
    assert weighed(weighing, held, gone, at_once) == counted(weighing, held, gone)


def test_what_nobody_refers_to_weighs_nothing() -> None:
    weighing = Weighing(NOW, OWNERS, {}, [], ["file:///lake/a/0.parquet"])
    assert weighed(weighing, {1: {PATHS[0]}}, {}, 10) == Holdings()
