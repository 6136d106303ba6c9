"""The object-store port: one suite over the store in memory, local files, and an S3 server."""

import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.errors import StoreRefused
from meltline.ports import Prefix
from tests.contract.object_store.s3proxy import S3Server, find_jar, running_s3proxy
from tests.doubles.store import MemoryStore

ODD_NAMES = (
    "t[1]",
    "it's",
    "a%20b",
    "a b",
    "x#y",
    "x#1",
    "q?z",
    "p+q",
    "a&b",
    "back\\slash",
    "e:f",
    "pipe|",
    "*star",
    '"quoted"',
    "{brace}",
    "trailing ",
    "ключ",
    "día",
    "c%5Bd",
    ".hidden",
    "_under",
    "...",
)


Store = ObjectStores | MemoryStore  # each reads, writes, removes and resolves


@dataclass(frozen=True)
class Place:
    """A store and an empty folder in it, and which odd names it knows apart."""

    store: Store
    root: str
    odd_names: tuple[str, ...] = ODD_NAMES


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server


@pytest.fixture(params=["memory", "local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return Place(MemoryStore(), "s3://lake/root")
    if request.param == "local":
        return Place(ObjectStores({}), f"file://{tmp_path}/root")
    server: S3Server = request.getfixturevalue("s3_server")
    return Place(ObjectStores(server.properties), f"s3://{server.bucket}/{tmp_path.name}")


def listed(store: Store, prefix: str) -> list[str]:
    return sorted(found.path for found in store.list(prefix))


# --- the contract ----------------------------------------------------------------------------


def test_what_was_written_is_read_measured_and_listed(place: Place) -> None:
    path = f"{place.root}/data/part-0.parquet"
    before = datetime.now(UTC)
    written = place.store.write(path, b"rows")
    assert abs(written - before) < timedelta(seconds=10)
    assert place.store.read(path) == b"rows"
    assert place.store.size(path) == 4
    (found,) = place.store.list(place.root)
    assert (found.path, found.bytes) == (path, 4)
    assert abs(found.modified_at - written) < timedelta(seconds=1)
    assert found.modified_at.tzinfo is not None


def test_a_second_write_replaces_the_first_and_leaves_nothing_beside_it(place: Place) -> None:
    path = f"{place.root}/x"
    place.store.write(path, b"long content")
    place.store.write(path, b"")
    assert (place.store.read(path), place.store.size(path)) == (b"", 0)
    assert listed(place.store, place.root) == [path]


def test_an_object_is_swapped_only_if_it_holds_what_is_expected(place: Place) -> None:
    path = f"{place.root}/.mark"
    assert not place.store.swap(path, b"none", b"something")
    assert place.store.size(path) is None
    assert place.store.swap(path, b"one", None)
    assert not place.store.swap(path, b"two", None)
    assert not place.store.swap(path, b"two", b"zero")
    assert place.store.read(path) == b"one"
    assert place.store.swap(path, b"two", b"one")
    assert place.store.read(path) == b"two"


def test_of_many_who_swap_one_local_file_at_once_one_succeeds(tmp_path: Path) -> None:
    """The S3 server of these tests compares and writes in two steps: it cannot show that."""
    store, path = ObjectStores({}), f"{tmp_path}/.mark"
    store.write(path, b"0")

    def swap(number: int) -> bool:
        return store.swap(path, str(number).encode(), b"0")

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, done in enumerate(pool.map(swap, range(1, 9)), 1) if done]
    assert len(won) == 1
    assert store.read(path) == str(won[0]).encode()


def test_what_is_not_there_cannot_be_read_has_no_size_and_lists_as_empty(place: Place) -> None:
    place.store.write(f"{place.root}/file", b"x")
    for missing in (f"{place.root}/none", f"{place.root}/a/b/none", f"{place.root}/file/none"):
        with pytest.raises(FileNotFoundError):
            place.store.read(missing)
        assert place.store.size(missing) is None
        assert listed(place.store, missing) == []
        assert [outcome.error for outcome in place.store.delete([missing])] == [""]
    assert listed(place.store, place.root) == [f"{place.root}/file"]


def test_a_folder_lists_all_depths_but_never_its_siblings(place: Place) -> None:
    inside = [f"{place.root}/tbl/{name}" for name in ("a", "data/b", "data/.c.crc", "m/_d/e")]
    for path in (*inside, f"{place.root}/tbl_backup/f", f"{place.root}/tbl2", f"{place.root}/tb"):
        place.store.write(path, b"x")
    assert listed(place.store, f"{place.root}/tbl") == sorted(inside)
    assert listed(place.store, f"{place.root}/tbl/") == sorted(inside)


def test_odd_names_are_spelled_as_they_are_and_each_is_its_own_object(place: Place) -> None:
    paths = [f"{place.root}/{name}/{name}" for name in place.odd_names]
    for number, path in enumerate(paths):
        place.store.write(path, str(number).encode())
    assert listed(place.store, place.root) == sorted(paths)
    for number, path in enumerate(paths):
        assert place.store.read(path) == str(number).encode()
        assert place.store.size(path) == len(str(number))
        assert listed(place.store, path.rpartition("/")[0]) == [path]
    gone, kept = paths[::2], paths[1::2]
    outcomes = place.store.delete(gone)
    assert [(outcome.path, outcome.error) for outcome in outcomes] == [(path, "") for path in gone]
    assert listed(place.store, place.root) == sorted(kept)


def test_deleting_a_name_never_reaches_what_a_careless_reader_takes_it_for(place: Place) -> None:
    lookalikes = {"x#y": "x", "q?z": "q", "a%20b": "a b", "t[1]": "t1", "c%2Fd": "c/d"}
    for name in [*lookalikes, *lookalikes.values()]:
        place.store.write(f"{place.root}/{name}", name.encode())
    place.store.delete([f"{place.root}/{name}" for name in lookalikes])
    assert listed(place.store, place.root) == sorted(
        f"{place.root}/{name}" for name in lookalikes.values()
    )


def test_thousands_are_deleted_with_an_outcome_each_in_order_and_gone_ones_are_done(
    place: Place,
) -> None:
    paths = [f"{place.root}/many/{number:05}" for number in range(2500)]
    there = [path for number, path in enumerate(paths) if number % 5]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: place.store.write(path, b""), there))
    stays = f"{place.root}/many_more"
    place.store.write(stays, b"")
    assert len(listed(place.store, f"{place.root}/many")) == 2000
    outcomes = place.store.delete(paths)
    assert [outcome.path for outcome in outcomes] == paths
    assert {outcome.error for outcome in outcomes} == {""}
    assert listed(place.store, place.root) == [stays]


def test_the_stats_of_many_are_those_of_a_listing_in_the_order_asked_for(place: Place) -> None:
    paths = [f"{place.root}/wide/{number:04}" for number in range(60)]
    few = [f"{place.root}/few/{number}" for number in range(3)]
    deep = [f"{place.root}/wide/0030.d/x", f"{place.root}/wide/0030/x"]
    gone = [*paths[::7], f"{place.root}/none/x"]
    for number, path in enumerate(path for path in (*paths, *few, deep[0]) if path not in gone):
        place.store.write(path, b"x" * number)
    asked = [*reversed(paths), *few, *gone, *deep]
    stats = place.store.stats(asked)
    assert [stat.path for stat in stats] == asked
    assert not any(stat.error for stat in stats)
    listed = {found.path: found for found in place.store.list(place.root)}
    assert {stat.path: stat.file for stat in stats if stat.file} == listed
    assert {stat.path for stat in stats if stat.file is None} == {*gone, deep[1]}
    assert list(place.store.stats([])) == []


def test_a_few_keys_of_a_large_folder_and_many_are_told_alike(place: Place) -> None:
    paths = [f"{place.root}/large/{number:05}" for number in range(2600)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: place.store.write(path, b"xy"), paths))
    for asked in (paths[2500:2510], paths[::50], paths[1000:1040], paths):
        stats = place.store.stats(asked)
        assert [(s.path, s.file and s.file.bytes, s.error) for s in stats] == [
            (path, 2, "") for path in asked
        ]


def test_the_stats_of_odd_names_are_their_own(place: Place) -> None:
    paths = [f"{place.root}/odd/{name}" for name in place.odd_names]
    paths += [f"{place.root}/odd/plain-{number}" for number in range(30)]
    for size, path in enumerate(paths):
        place.store.write(path, b"x" * size)
    found = [stat.file for stat in place.store.stats(paths)]
    assert [one and one.bytes for one in found] == list(range(len(paths)))


def test_a_path_that_is_given_twice_has_two_outcomes_and_no_paths_have_none(place: Place) -> None:
    path = f"{place.root}/x"
    place.store.write(path, b"x")
    assert [outcome.error for outcome in place.store.delete([path, path])] == ["", ""]
    assert place.store.size(path) is None
    assert list(place.store.delete([])) == []


def test_the_front_of_an_object_comes_with_its_size(place: Place) -> None:
    path = f"{place.root}/x"
    place.store.write(path, b"0123456789")
    assert place.store.read_prefix(path, 4) == Prefix(b"0123", 10)
    for length in (10, 11, 10_000):
        assert place.store.read_prefix(path, length) == Prefix(b"0123456789", 10)
    assert [place.store.read_prefix(path, n).is_whole for n in (9, 10)] == [False, True]
    with pytest.raises(FileNotFoundError):
        place.store.read_prefix(f"{place.root}/none", 4)


def test_a_part_of_an_object_is_what_stands_there(place: Place) -> None:
    path = f"{place.root}/x"
    place.store.write(path, b"0123456789")
    assert [place.store.read_range(path, *at) for at in ((0, 3), (4, 1), (7, 3))] == [
        b"012", b"4", b"789",
    ]  # fmt: skip
    with pytest.raises(FileNotFoundError):
        place.store.read_range(f"{place.root}/none", 2, 4)


def test_a_stream_gives_the_same_bytes_in_parts_and_none_of_a_missing_object(place: Place) -> None:
    whole = os.urandom(20 * 1024 * 1024)
    for name, content in (("large", whole), ("small", b"x"), ("empty", b"")):
        place.store.write(f"{place.root}/{name}", content)
        assert b"".join(place.store.stream(f"{place.root}/{name}")) == content
    assert max(map(len, place.store.stream(f"{place.root}/large"))) < 12 * 1024 * 1024
    with pytest.raises(FileNotFoundError):
        list(place.store.stream(f"{place.root}/none"))


@pytest.mark.parametrize("parts", [[], [b""], [b"x"], [b"a" * 6_000_000, b"b" * 6_000_000, b"c"]])
def test_parts_become_one_object(place: Place, parts: list[bytes]) -> None:
    path = f"{place.root}/folder/x"
    place.store.write_stream(path, iter(parts))
    assert place.store.read(path) == b"".join(parts)
    assert listed(place.store, place.root) == [path]


class Died(BaseException):
    """What was sending the parts is no more."""


@pytest.mark.parametrize("odd", [Died(), StoreRefused("gone")], ids=type)
def test_parts_that_end_too_early_leave_what_was_there(place: Place, odd: BaseException) -> None:
    def parts() -> Iterator[bytes]:
        yield b"a" * 9_000_000
        yield b"b" * 9_000_000
        raise odd

    place.store.write(f"{place.root}/old", b"old")
    for name in ("old", "new"):
        with pytest.raises(type(odd)):
            place.store.write_stream(f"{place.root}/{name}", parts())
    assert place.store.read(f"{place.root}/old") == b"old"
    assert listed(place.store, place.root) == [f"{place.root}/old"]


def test_a_disk_that_keeps_other_bytes_than_it_was_given_is_found_out(
    tmp_path: Path,
) -> None:
    def parts() -> Iterator[bytes]:
        yield b"a" * 1_000_000
        yield b"b"
        (unfinished,) = tmp_path.iterdir()
        with unfinished.open("r+b") as disk:
            disk.write(b"c")

    with pytest.raises(StoreRefused, match="flipped"):
        ObjectStores({}).write_stream(f"{tmp_path}/flipped", parts())
    assert list(tmp_path.iterdir()) == []


def test_a_store_can_be_sent_to_another_process_after_use(place: Place) -> None:
    path = f"{place.root}/x"
    place.store.write(path, b"x")
    sent: Store = pickle.loads(pickle.dumps(place.store))
    assert sent.read(path) == b"x"


# --- faults: in memory -----------------------------------------------------------------------


def test_a_failing_path_is_refused_and_the_others_are_not() -> None:
    store = MemoryStore({"/t/a": b"a", "/t/b": b"b"}, failing=frozenset({"file:///t/a"}))
    with pytest.raises(StoreRefused, match="/t/a"):
        store.read("/t/a")
    first, second = store.delete(["/t/a", "/t/b"])
    assert first.error
    assert not second.error
    assert listed(store, "/t") == ["/t/a"]


# --- S3 --------------------------------------------------------------------------------------


def test_the_three_s3_schemes_are_one_store_listed_as_asked(s3_server: S3Server) -> None:
    store = ObjectStores(s3_server.properties)
    store.write(f"s3://{s3_server.bucket}/schemes/x", b"1")
    for scheme in ("s3", "s3a", "s3n"):
        base = f"{scheme}://{s3_server.bucket}/schemes"
        assert store.read(f"{base}/x") == b"1"
        assert listed(store, base) == [f"{base}/x"]
    store.delete([f"s3a://{s3_server.bucket}/schemes/x"])
    assert store.size(f"s3n://{s3_server.bucket}/schemes/x") is None


def test_a_bucket_that_is_not_there_is_no_missing_file_to_who_writes(s3_server: S3Server) -> None:
    store, path = ObjectStores(s3_server.properties), "s3://no-such-bucket/x"
    for parts in ([b"x"], [b"a" * 9_000_000, b"b"]):
        with pytest.raises(StoreRefused, match="cannot write"):
            store.write_stream(path, parts)
    with pytest.raises(StoreRefused, match="cannot write"):
        store.write(path, b"x")


def test_a_key_that_cannot_be_spelled_is_refused_and_its_neighbour_stays(
    s3_server: S3Server,
) -> None:
    store, root = ObjectStores(s3_server.properties), f"s3://{s3_server.bucket}/slashes"
    for key in ("t/x", "t//x", "other/y"):
        assert s3_server.request("PUT", f"/{s3_server.bucket}/slashes/{key}") == 200
    for odd in (f"{root}/t//x", f"{root}/t/./x", f"{root}/other/../t/x"):
        for asked in (store.read, store.size):
            with pytest.raises(StoreRefused, match="spell"):
                asked(odd)
        with pytest.raises(StoreRefused, match="spell"):
            store.write(odd, b"new")
        refused, done = store.delete([odd, f"{root}/other/y"])
        assert "spell" in refused.error
        assert not done.error
    assert store.size(f"{root}/t/x") == 0
    assert s3_server.request("HEAD", f"/{s3_server.bucket}/slashes/t//x") == 200


def test_a_listing_with_a_key_that_cannot_be_spelled_is_refused_not_cut_short(
    s3_server: S3Server,
) -> None:
    store, root = ObjectStores(s3_server.properties), f"s3://{s3_server.bucket}/cut"
    for key in ("a", "b//x", "c"):
        assert s3_server.request("PUT", f"/{s3_server.bucket}/cut/{key}") == 200
    with pytest.raises(StoreRefused, match=root):
        listed(store, root)


def test_wrong_credentials_are_refused_by_path_and_repeat_no_secret(s3_server: S3Server) -> None:
    good = ObjectStores(s3_server.properties)
    wrong = ObjectStores({**s3_server.properties, "s3.secret-access-key": "hush-hush"})
    path = f"s3://{s3_server.bucket}/denied/x"
    good.write(path, b"x")
    for request in (
        lambda: wrong.read(path),
        lambda: wrong.size(path),
        lambda: wrong.write(path, b"y"),
        lambda: listed(wrong, f"s3://{s3_server.bucket}/denied"),
    ):
        with pytest.raises(StoreRefused, match="denied") as caught:
            request()
        assert "hush-hush" not in str(caught.value.as_json())
    assert all(outcome.error for outcome in wrong.delete([path, f"{path}2"]))
    assert good.read(path) == b"x"
    assert "hush-hush" not in repr(wrong)


def test_where_a_bulk_delete_fails_each_key_is_deleted_on_its_own(tmp_path: Path) -> None:
    # Large enough for one key and too small for forty: a real refusal of the bulk delete alone.
    with running_s3proxy(tmp_path, largest_request=300) as server:
        store, root = ObjectStores(server.properties), f"s3://{server.bucket}/t"
        paths = [f"{root}/{number} x#y[1]" for number in range(40)]
        for path in paths[::2]:  # the others are missing
            store.write(path, b"x")
        store.write(f"{root}/stays", b"x")
        outcomes = store.delete(paths)
        assert [(outcome.path, outcome.error) for outcome in outcomes] == [(p, "") for p in paths]
        assert listed(store, root) == [f"{root}/stays"]


@pytest.mark.parametrize("key", ["s3.remote-signing-enabled", "s3.profile-name", "s3.signer"])
def test_a_way_to_sign_that_is_not_known_is_refused_by_name(key: str) -> None:
    with pytest.raises(StoreRefused, match=key):
        ObjectStores({key: "x"}).read("s3://lake/x")


# --- the server's jar ------------------------------------------------------------------------


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="s3proxy"):
        find_jar({"MELTLINE_JARS": str(tmp_path)})
    with pytest.raises(pytest.skip.Exception, match="s3proxy"):
        find_jar({"XDG_CACHE_HOME": str(tmp_path)})
    jar = tmp_path / "meltline" / "jars" / "s3proxy-1.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    assert find_jar({"XDG_CACHE_HOME": str(tmp_path)}) == jar
