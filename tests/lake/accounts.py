"""What a watched lake comes to: each byte in one stage, and what sweeps leave."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from meltline.app.run.summary import Summary
from meltline.app.storage.file_status import FileStatus, standing_now
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.deletion.storage import Stage
from tests.lake.lake import DAY
from tests.lives.strangers import allow_the_gone
from tests.lives.watched_changes import is_forbidden
from tests.lives.watched_lake import WatchedLake

ASKED_TOO_LATE = ("planned_contested is 0", "planned_guarded is 0")
Key = TypeVar("Key", str, tuple[str, Stage])


def check_accounts(lake: WatchedLake) -> None:
    """I-2, I-3: each byte under a managed prefix stands in one stage, and none is made up."""
    lake.check()
    standing = standing_now(lake.services())
    stages = {f.path: f for f in standing.files.values() if f.stage is not Stage.DELETED}
    disk = {path: len(lake.contents[path]) for path in lake.everywhere()}
    unsure = (lake.glimpsed - lake.seen) | (lake.lost - disk.keys())
    known = lake.seen - (lake.replaced() - lake.needs())
    held = {p: b for p, b in disk.items() if p in known and lake.is_ours(p)}
    counted = {p: f.bytes for p, f in stages.items() if lake.is_ours(p) and p not in unsure}
    for path in held.keys() & counted.keys():
        held[path] = counted[path] if counted[path] in lake.sizes.get(path, ()) else held[path]
    assert counted == held, f"I-3: {_difference(counted, held)}"
    _check_totals(lake, standing)
    # What a stranger alone needs may wait: it is no purge that takes it.
    needs = set().union(*map(lake.walk.of_table, lake.locations().values()))
    needs = needs.union(*(name.needs for name in lake.gone))
    waiting = {path for path, file in stages.items() if file.stage is Stage.FAILSAFE}
    assert not waiting & needs, f"I-2: needed and in failsafe: {sorted(waiting & needs)}"
    forbidden = {
        table.uuid
        for table in lake.registered()
        if is_forbidden(table.properties, overridden=table.uuid in lake.overridden)
    }
    forbidding = {path for path in waiting if stages[path].owner in forbidden}
    assert not forbidding, f"in failsafe though the owner forbids it: {sorted(forbidding)}"


def check_owners_were_asked(summary: Summary) -> None:
    """A quiet run plans nothing of what others may own: its gate would refuse the rest with it."""
    notes = [plan.note for plan in summary.plans.values()]
    refused = [note for note in notes if any(fact in note for fact in ASKED_TOO_LATE)]
    assert not refused, f"the gate alone asked who else owns files: {refused}"


def _check_totals(lake: WatchedLake, standing: FileStatus) -> None:
    """I-3: what is summed over the whole index is what single files come to."""
    totals = totals_now(lake.services())
    summed = {key: size for key, size in totals.holdings.owned.items() if size}
    single = Counter[tuple[str, Stage]]()
    for file in standing.files.values():
        single[file.owner, file.stage] += file.bytes
    counted = {key: size for key, size in single.items() if size}
    assert summed == counted, f"I-3: the sums: {_difference(summed, counted)}"
    foreign = Counter[str]()
    for file in standing.foreign.values():
        foreign[min(file.tables)] += file.bytes
    assert totals.holdings.foreign == foreign, "I-3: foreign files"
    rows = {row.table_uuid: row for row in storage_rows(totals)}
    assert all(
        getattr(rows[uuid], f"{stage}_bytes") == size
        for (uuid, stage), size in summed.items()
        if uuid in rows
    )


def check_sweeps(lake: WatchedLake) -> None:
    """On time: two sweeps a week apart take what lies with managed tables and is nobody's."""
    if any(name.held for name in lake.gone) or lake.glimpsed - lake.seen:
        return
    for days in (4, 8, 8, 8):
        lake.clock.moment += days * DAY
        lake.sweep()
        allow_the_gone(lake)  # a person answers what the sweep has found of other owners
        lake.run()
        lake.check()
    needs, there = lake.needs() | lake.needed_places(), lake.everywhere()
    left = {path for path in lake.strays if path in there and lake.is_ours(path)} - needs
    left -= {path for path in left if _lay_with_dropped_tables(lake, path)}
    assert not left, f"never swept: {sorted(left)}"


def _lay_with_dropped_tables(lake: WatchedLake, path: str) -> bool:
    """Where only those lay nothing is swept: whose it is nobody can say any more."""
    let_go = (len(folder) for folder in lake.let_go.values() if path.startswith(folder))
    standing = max((len(f"{table.location}/") for table in lake.owners(path)), default=0)
    # Of what engines dropped unseen a metadata file may lie about that nobody has read: beside it
    # nothing is swept, be it in a standing table's own folder, and the sweep names that file.
    unseen = (len(folder) for folder in lake.unknown if path.startswith(folder))
    deeper = max(let_go, default=0) > standing or max(unseen, default=-1) >= standing
    return deeper or path.startswith(tuple(gone.folder for gone in lake.gone))


def _difference(one: Mapping[Key, int], other: Mapping[Key, int]) -> str:
    keys = [key for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
    return "; ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in sorted(keys)[:5])
