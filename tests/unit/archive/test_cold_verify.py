"""`cold verify`: what of an archive is not what was verified once, and who else wrote to it."""

import json
from typing import Any

from meltline.app.archive.cold_status import cold_list
from meltline.app.archive.cold_verify import Verified, cold_verify
from meltline.app.archive.copy_proofs import ContentCheck
from meltline.app.doctor.doctor import examine
from meltline.domain.archive.cold_proofs import CopyProof
from meltline.domain.archive.seals import SEAL, foreign_to
from meltline.domain.iceberg.names import TableName
from tests.doubles.store import MemoryStore
from tests.lake.lake import COLD_WAREHOUSE, Lake
from tests.unit.archive.test_cold_commands import NAME, archived
from tests.unit.archive.test_cold_past import services as in_earnest
from tests.unit.archive.test_copy_proofs import flip, last_copy
from tests.unit.archive.test_handoff import daily

ICE = TableName("ice", ("air",), "t")


def verify(lake: Lake, *, content: bool = False) -> list[Verified]:
    return cold_verify(lake.services(), NAME, content=content)


def problems(lake: Lake, *, content: bool = False) -> list[str]:
    return [odd for one in verify(lake, content=content) for odd in one.problems]


def foreign(lake: Lake) -> list[str]:
    found = [f for f in examine(lake.services()) if f.code == "cold_foreign_commit"]
    return [f"{f.message} {f.fix}" for f in found]


def test_one_flipped_bit_is_found_in_files_manifests_and_lists() -> None:
    for ending in (".parquet", "-m0.avro", "-1-m.avro"):
        lake, _ = archived()
        _, copy = last_copy(lake, ending)
        flip(lake, copy)
        assert any(copy in odd for odd in problems(lake)), ending


def test_what_a_store_shows_unchanged_is_read_only_where_all_content_is_asked_for() -> None:
    lake, store, path = Lake(), MemoryStore({"s3://cold/a": b"abc"}), "s3://cold/a"
    shown = store.measure(path)
    assert shown is not None and shown.etag
    other = "0" * 64
    lake.control.copies.save([CopyProof(path, 3, other, shown.modified_at, shown.etag)])
    for content, odd in ((False, set()), (True, {path})):
        check = ContentCheck(lake.control, store, content)
        check.look([shown])
        assert check.problems.keys() == odd
    store.write(path, b"abd")  # another version: its digest is taken although nobody asked
    (changed,) = store.list("s3://cold")
    check = ContentCheck(lake.control, store, content=False)
    check.look([changed])
    assert check.problems.keys() == {path}


def test_files_without_a_digest_are_counted_and_read_when_all_content_is_asked_for() -> None:
    lake, _ = archived()
    everything = [path for path in lake.paths(COLD_WAREHOUSE) if lake.control.copies.of([path])]
    lake.control.copies.forget(everything)
    first = verify(lake)
    assert not any(one.problems for one in first)
    assert [one.unread for one in first] == [one.files for one in first]
    read = verify(lake, content=True)
    assert [(one.unread, one.alone) for one in read] == [(0, one.files) for one in read]
    assert not any(known.from_source for known in lake.control.copies.of(everything).values())
    assert [(one.unread, one.alone) for one in verify(lake)] == [(0, 0)] * len(read)


def test_a_whole_copy_is_noted_as_verified_and_a_damaged_one_is_not() -> None:
    lake, _ = archived()
    _, copy = last_copy(lake)
    flip(lake, copy)
    before = {c.snapshot_id: c.verified_at for c in cold_list(lake.services(), NAME)}
    lake.on(15)
    broken = {one.snapshot_id for one in verify(lake) if one.problems}
    after = {c.snapshot_id: c.verified_at for c in cold_list(lake.services(), NAME)}
    assert broken and {sid for sid in after if after[sid] == before[sid]} == broken


# --- somebody else's commits ---------------------------------------------------------------------


def commit(lake: Lake, change: Any) -> None:
    """What an engine would commit to the archived table."""
    base = lake.cold.location(ICE)
    document = lake.document(base)
    change(document)
    assert lake.cold.commit(ICE, base, document)


def a_snapshot(document: dict[str, Any]) -> None:
    document["snapshots"].append({**document["snapshots"][-1], "snapshot-id": 4711})


def a_property(document: dict[str, Any]) -> None:
    document["properties"]["owner"] = "somebody"


def test_the_archive_as_meltline_left_it_is_nobody_elses() -> None:
    lake, _ = archived()
    assert not foreign(lake) and not problems(lake)
    assert SEAL in lake.document(lake.cold.location(ICE))["properties"]


def test_a_foreign_snapshot_is_noticed_by_verify_and_doctor_with_a_way_back() -> None:
    # AR-34
    lake, _ = archived()
    ours = lake.cold.location(ICE)
    commit(lake, a_snapshot)
    assert any("snapshot 4711 was committed" in odd for odd in problems(lake))
    (told,) = foreign(lake)
    assert "snapshot 4711" in told and ours in told


def test_a_foreign_commit_without_a_snapshot_is_noticed_too() -> None:
    lake, _ = archived()
    commit(lake, a_property)
    assert any("changed by somebody else" in odd for odd in problems(lake))
    assert foreign(lake)


def test_what_meltline_commits_on_top_does_not_hide_it() -> None:
    for change in (a_snapshot, a_property):
        lake = Lake(has_cold=True)
        table = daily(lake, 12)
        lake.on(12).run(services=in_earnest(lake))
        for day in (12, 13):
            lake.on(day)
            table.overwrite(f"more{day}")
        commit(lake, change)
        before = lake.cold.location(ICE)
        assert lake.on(22).run(services=in_earnest(lake)).exit_code == 0
        assert lake.cold.location(ICE) != before
        assert foreign_to(lake.document(lake.cold.location(ICE)))


def test_the_real_archive_seals_each_commit() -> None:
    lake = Lake(has_cold=True)
    table = daily(lake, 12)
    for day in (12, 20):
        lake.on(day).run(services=in_earnest(lake))
        table.overwrite(f"more{day}")
        document = lake.document(lake.cold.location(ICE))
        assert SEAL in document["properties"] and not foreign_to(json.loads(json.dumps(document)))
