"""Every copy in cold is proved byte for byte before its original may go."""

import gzip
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.archive.copy_cache import ArchiveBook
from meltline.app.archive.cold_status import remember_copies
from meltline.app.archive.copy_repair import MEND
from meltline.app.run.gated_plans import judge
from meltline.app.run.lifecycle import Run
from meltline.app.run.summary import Summary
from meltline.domain.archive.cold_paths import mirrored
from meltline.domain.archive.cold_proofs import CopyProof, proofs_folder, read_proofs
from meltline.domain.deletion.plan import PlanKind
from meltline.domain.errors import StoreRefused
from tests.doubles.store import MemoryStore
from tests.lake.lake import COLD_WAREHOUSE, T0, Lake, Table
from tests.unit.archive.test_cold_gate import EXPIRE_DAY, PURGE_DAY, Idle
from tests.unit.archive.test_handoff import daily


def archived() -> tuple[Lake, Table]:
    """A lake whose history is in cold, and waits in failsafe in hot."""
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    assert lake.on(EXPIRE_DAY).run().exit_code == 0
    return lake, table


def last_copy(lake: Lake, ending: str = ".parquet") -> tuple[str, str]:
    """The last file of hot, by name, that waits in failsafe; and its copy."""
    original = max(path for path in lake.waiting() if path.endswith(ending))
    return original, mirrored(original, COLD_WAREHOUSE)


def flip(lake: Lake, path: str) -> bytes:
    """Turns one bit of a file; its length and its time stay what they were. Returns what it was."""
    before = lake.store.read(path)
    middle = len(before) // 2
    changed = before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :]
    shown = lake.store.measure(path)
    assert shown is not None
    at, lake.clock.moment = lake.clock.moment, shown.modified_at
    lake.store.write(path, changed)
    lake.clock.moment = at
    return before


def purge_notes(summary: Summary) -> str:
    return " ".join(p.note for p in summary.plans.values() if p.kind is PlanKind.PURGE)


def not_mending(lake: Lake) -> Summary:
    return lake.on(PURGE_DAY).run(services=lake.services(archive=Idle()))


def at_the_gate(lake: Lake, happens: Callable[[], object]) -> str:
    """What the gate says to a purge where something happens after it was planned."""
    services = lake.on(PURGE_DAY).services()
    plans = [planned.plan for planned in Run(services, lake.request()).plan_purge()]
    happens()
    return " ".join(plan.note for plan in judge(services, plans))


@pytest.mark.parametrize("ending", [".parquet", "-m0.avro", "-1-m.avro"])
def test_one_flipped_bit_of_any_copy_keeps_the_originals(ending: str) -> None:
    lake, _ = archived()
    original, copy = last_copy(lake, ending)
    flip(lake, copy)
    summary = not_mending(lake)
    assert summary.exit_code == 3 and not lake.deleter.deleted
    assert "cold_" in purge_notes(summary) and lake.store.size(original) is not None


def test_the_refusal_names_the_copy_and_what_is_wrong_with_it() -> None:
    lake, _ = archived()
    original, copy = last_copy(lake)
    flip(lake, copy)
    note = purge_notes(not_mending(lake))
    assert f"cold_unproved is 0 (found 1: {copy} does not have the bytes of {original}" in note


def test_a_copy_that_was_never_held_against_its_original_is_not_enough() -> None:
    lake, _ = archived()
    _, copy = last_copy(lake)
    note = at_the_gate(lake, lambda: lake.control.copies.forget([copy]))
    assert f"{copy} was never held against" in note


def test_a_digest_of_the_copy_alone_is_not_enough() -> None:
    lake, _ = archived()
    _, copy = last_copy(lake)
    (known,) = lake.control.copies.of([copy]).values()
    of_copy = replace(known, from_source=False)
    note = at_the_gate(lake, lambda: lake.control.copies.save([of_copy]))
    assert "was never held against" in note


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: replace(proof, modified_at=T0),
        lambda proof: replace(proof, etag="another"),
        lambda proof: replace(proof, bytes=proof.bytes + 1),
    ],
    ids=["time", "version", "size"],
)
def test_a_copy_that_its_store_shows_otherwise_than_it_was_recorded_is_not_enough(
    change: Callable[[CopyProof], CopyProof],
) -> None:
    lake, _ = archived()
    _, copy = last_copy(lake)
    (known,) = lake.control.copies.of([copy]).values()
    note = at_the_gate(lake, lambda: lake.control.copies.save([change(known)]))
    assert f"{copy} has been changed since" in note


def test_a_recorded_copy_keeps_its_original_whichever_table_lets_go_of_it() -> None:
    lake = Lake(has_cold=True)
    source = lake.on(0).table("source", properties={"meltline.cold": "none"})
    source.append("shared")
    clone = lake.clone(source, "lake.air.copy")
    clone.configure(**{"meltline__cold": "all"})
    lake.on(1)
    clone.overwrite("c1")
    lake.on(2)
    source.overwrite("s1")
    for day in (EXPIRE_DAY, EXPIRE_DAY + 1):
        lake.on(day).run()
    copy = mirrored(source.data("shared"), COLD_WAREHOUSE)
    assert source.data("shared") in lake.waiting() and lake.store.size(copy) is not None
    lake.store.delete([copy])
    lake.on(PURGE_DAY + 1).run(services=lake.services(archive=Idle()))
    assert source.data("shared") not in lake.deleter.deleted


# --- mending -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".parquet", "-m0.avro", "-1-m.avro"])
@pytest.mark.parametrize("is_lost", [True, False])
def test_what_was_lost_or_damaged_is_made_anew_by_the_next_run_while_its_original_waits(
    is_lost: bool, ending: str
) -> None:
    lake, _ = archived()
    _, copy = last_copy(lake, ending)
    before = flip(lake, copy)
    if is_lost:
        lake.store.delete([copy])
    summary = lake.on(PURGE_DAY).run()
    assert summary.exit_code == 0, summary.as_json()
    assert lake.store.read(copy) == before and lake.deleter.deleted
    assert any("made anew" in notice for notice in summary.notices)
    (entry,) = [one for one in lake.control.audit.entries() if one.action == MEND]
    assert mirrored(entry.detail.splitlines()[0], COLD_WAREHOUSE) == copy


def test_a_lost_copy_is_made_anew_before_its_original_is_due() -> None:
    lake, _ = archived()
    _, copy = last_copy(lake)
    before = lake.store.read(copy)
    lake.store.delete([copy])
    lake.on(EXPIRE_DAY + 1).run()
    assert lake.store.read(copy) == before


def test_a_lost_copy_whose_original_is_alive_holds_a_purge_up_for_one_night() -> None:
    lake = Lake(has_cold=True)
    table = lake.on(0).table("t", properties={"meltline.cold": "all"})
    for day in range(12):
        lake.on(day)
        table.append(f"kept{day}")
    assert lake.on(EXPIRE_DAY).run().exit_code == 0
    table.configure(**{"meltline__cold": "none"})  # no handoff comes by any more
    copy = mirrored(table.data("kept0"), COLD_WAREHOUSE)
    before = lake.store.read(copy)
    assert table.data("kept0") not in lake.waiting() and lake.waiting()
    lake.store.delete([copy])
    assert lake.on(PURGE_DAY).run().exit_code == 3 and not lake.deleter.deleted
    assert lake.on(PURGE_DAY + 1).run().exit_code == 0
    assert lake.store.read(copy) == before and lake.deleter.deleted


def test_copies_from_before_are_read_once_beside_their_originals_and_recorded() -> None:
    lake, _ = archived()
    original, copy = last_copy(lake)
    everything = [path for path in lake.paths(COLD_WAREHOUSE) if lake.control.copies.of([path])]
    assert len(everything) > 10
    lake.control.copies.forget(everything)
    assert lake.on(PURGE_DAY).run().exit_code == 0
    (known,) = lake.control.copies.of([copy]).values()
    assert known.from_source and original in lake.deleter.deleted
    assert known.sha256 == sha256(lake.store.read(copy)).hexdigest()


def test_where_copy_and_original_are_both_damaged_the_original_stays_for_ever() -> None:
    lake, _ = archived()
    original, copy = last_copy(lake)
    flip(lake, copy)
    lake.store.write(original, b"?" * len(lake.store.read(original)))

    stores = Stores(lake.store, lake.store, COLD_WAREHOUSE, mends=True)
    (known,) = lake.control.copies.of([copy]).values()
    with pytest.raises(StoreRefused, match="not the bytes that were copied once"):
        stores.prove(original, known.bytes, known)
    assert "cold_unproved" in purge_notes(not_mending(lake))


def test_nothing_is_read_or_asked_where_nothing_is_archived() -> None:
    lake = Lake(has_cold=True)
    daily(lake, 12, cold="none")
    lake.on(EXPIRE_DAY).run()
    assert lake.on(PURGE_DAY).run(services=lake.services(archive=None)).exit_code == 0
    assert lake.deleter.deleted


# --- the archive's own record --------------------------------------------------------------------


def test_what_is_known_of_copies_outlives_the_ledger() -> None:
    store = MemoryStore()
    book = ArchiveBook(Lake().control.copies, store, COLD_WAREHOUSE)
    old = CopyProof(f"{COLD_WAREHOUSE}/a", 1, "0" * 64, T0, '"1"')
    book.save([old])
    book.save([old])
    new = replace(old, etag='"2"')
    book.save([new])
    documents = list(store.list(proofs_folder(COLD_WAREHOUSE)))
    assert len(documents) == 2  # what is known already is not written again
    told = [list(read_proofs(gzip.decompress(store.read(d.path)).decode())) for d in documents]
    assert sorted(one.etag for (one,) in told) == ['"1"', '"2"']


def test_an_adopted_ledger_learns_the_newest_word_of_the_archive() -> None:
    lake, _ = archived()
    book = ArchiveBook(lake.control.copies, lake.store, COLD_WAREHOUSE)
    _, copy = last_copy(lake)
    (known,) = lake.control.copies.of([copy]).values()
    for day, etag in ((1, "old"), (2, "new")):
        lake.on(EXPIRE_DAY + day)
        book.save([replace(known, etag=etag)])
    lake.control.copies.forget([copy])
    remember_copies(lake.services())
    assert lake.control.copies.of([copy])[copy].etag == "new"


# --- single copies -------------------------------------------------------------------------------


class Corrupting(MemoryStore):
    """A store that writes other bytes than it was sent, of the same number."""

    def write_stream(
        self, path: str, parts: Iterable[bytes], together: object | None = None
    ) -> None:
        super().write_stream(path, [part[::-1] for part in parts])


def test_what_arrived_otherwise_than_it_was_sent_never_becomes_a_copy() -> None:
    hot, cold = MemoryStore({"s3://hot/a": b"abc"}), Corrupting()
    stores = Stores(hot, cold, "s3://cold/ice")
    with pytest.raises(StoreRefused, match="when it was read again"):
        stores.copy("s3://hot/a", 3)
    assert cold.size(stores.target("s3://hot/a")) is None


def test_the_digest_is_that_of_the_original() -> None:
    hot, cold = MemoryStore({"s3://hot/a": b"abc" * 5000}), MemoryStore()
    brought = Stores(hot, cold, "s3://cold/ice").copy("s3://hot/a", 15000)
    assert brought.is_new and brought.proof.sha256 == sha256(b"abc" * 5000).hexdigest()
    assert brought.proof.etag and brought.proof.from_source


def test_a_path_that_was_written_again_never_passes_for_the_copy_of_what_it_held_before() -> None:
    hot, cold = MemoryStore({"s3://hot/a": b"old"}), MemoryStore()
    stores = Stores(hot, cold, "s3://cold/ice")
    known = stores.copy("s3://hot/a", 3).proof
    hot.write("s3://hot/a", b"new")
    for proof in (known, None):
        with pytest.raises(StoreRefused, match="others"):
            stores.prove("s3://hot/a", 3, proof)
    assert cold.read(known.path) == b"old"


def test_what_nobody_can_tell_to_be_damaged_is_kept_beside_what_replaces_it() -> None:
    hot, cold = MemoryStore({"s3://hot/a": b"new"}), MemoryStore()
    stores = Stores(hot, cold, "s3://cold/ice", mends=True)
    cold.write(stores.target("s3://hot/a"), b"old")
    assert stores.prove("s3://hot/a", 3, None).is_new
    held = {one.path: cold.read(one.path) for one in cold.list("s3://cold/ice")}
    assert sorted(held.values()) == [b"new", b"old"]
    assert held[stores.target("s3://hot/a")] == b"new"
