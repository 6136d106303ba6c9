"""Single copies from tier to tier, between local files, an S3 server and memory."""

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.object_store.pace import Pace
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.errors import StoreRefused
from tests.contract.object_store.s3proxy import S3Server, running_s3proxy
from tests.doubles.store import MemoryStore

LARGE = os.urandom(18 * 1024 * 1024)


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running_s3proxy(tmp_path_factory.mktemp("s3proxy")) as server:
        yield server


@pytest.fixture(params=["local-s3", "s3-local", "s3-s3", "local-local", "memory-s3"])
def tiers(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Stores, str]:
    """Two stores, and a folder of hot."""
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = f"s3://{server.bucket}/{tmp_path.name}"
    places = {
        "local": (ObjectStores({}), f"file://{tmp_path}"),
        "s3": (ObjectStores(server.properties), bucket),
        "memory": (MemoryStore(), "s3://elsewhere"),
    }
    hot, cold = (places[name] for name in request.param.split("-"))
    return Stores(hot[0], cold[0], f"{cold[1]}/ice"), f"{hot[1]}/lake"


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_a_copy_is_the_same_and_made_once(tiers: tuple[Stores, str], content: bytes) -> None:
    stores, hot = tiers
    path = f"{hot}/t/day=1 %2F#/a.parquet"
    stores.hot.write(path, content)
    assert stores.copy(path, len(content)).is_new
    assert stores.cold.read(stores.target(path)) == content
    assert not stores.copy(path, len(content)).is_new


def test_a_file_of_another_length_never_becomes_a_copy(tiers: tuple[Stores, str]) -> None:
    stores, hot = tiers
    path = f"{hot}/t/a"
    stores.hot.write(path, LARGE)
    for size in (len(LARGE) - 1, len(LARGE) + 1, 0):
        with pytest.raises(StoreRefused, match="cannot be handed over"):
            stores.copy(path, size)
        assert stores.cold.size(stores.target(path)) is None


def test_a_file_that_is_not_there_is_said(tiers: tuple[Stores, str]) -> None:
    stores, hot = tiers
    with pytest.raises((FileNotFoundError, StoreRefused), match="none"):
        stores.copy(f"{hot}/none", 3)


def test_what_lies_in_the_place_of_a_copy_is_replaced_only_to_mend(
    tiers: tuple[Stores, str],
) -> None:
    stores, hot = tiers
    path = f"{hot}/t/a"
    stores.hot.write(path, b"original")
    stores.cold.write(stores.target(path), b"cut")
    with pytest.raises(StoreRefused, match="3 bytes"):
        stores.copy(path, 8)
    assert stores.cold.read(stores.target(path)) == b"cut"
    mending = replace(stores, mends=True)
    assert mending.copy(path, 8).is_new
    assert stores.cold.read(stores.target(path)) == b"original"


def test_a_damaged_copy_of_the_same_length_is_found_and_made_anew_from_its_original(
    tiers: tuple[Stores, str],
) -> None:
    stores, hot = tiers
    path = f"{hot}/t/a"
    stores.hot.write(path, b"original")
    known = stores.copy(path, 8).proof
    stores.cold.write(stores.target(path), b"originol")
    brought = stores.prove(path, 8, known)
    assert brought.is_new and brought.proof.sha256 == known.sha256
    assert stores.cold.read(stores.target(path)) == b"original"
    stores.hot.write(path, b"another!")
    with pytest.raises(StoreRefused, match="the bytes that were copied once"):
        stores.prove(path, 8, known)


def test_listings_and_single_requests_show_a_copy_as_it_was_recorded(
    tiers: tuple[Stores, str],
) -> None:
    stores, hot = tiers
    for number, content in enumerate((b"small", LARGE)):
        path = f"{hot}/shown/{number}"
        stores.hot.write(path, content)
        known = stores.copy(path, len(content)).proof
        (listed,) = (
            o for o in stores.cold.list(known.path.rpartition("/")[0]) if o.path == known.path
        )
        single = stores.cold.measure(known.path)
        (stat,) = stores.cold.stats([known.path])
        for shown in (listed, single, stat.file):
            assert shown is not None and known.shows(shown.bytes, shown.modified_at, shown.etag)
        assert bool(known.etag) is known.path.startswith("s3:")
        stores.cold.write(known.path, content[::-1])
        again = stores.cold.measure(known.path)
        assert again is not None
        same = known.shows(again.bytes, again.modified_at, again.etag)
        assert not (same and known.etag), "another version under the same name"


def test_a_pace_gives_each_operation_its_turn_and_saves_none_up() -> None:
    pace: Pace = pickle.loads(pickle.dumps(Pace(20).shared(2)))
    assert [round(pace.delay(100.0), 6) for _ in range(4)] == [0.0, 0.1, 0.2, 0.3]
    assert round(pace.delay(100.35), 6) == 0.05
    assert [round(pace.delay(200.0), 6) for _ in range(3)] == [0.0, 0.1, 0.2]


def test_without_a_limit_nobody_waits() -> None:
    assert [Pace().delay(100.0) for _ in range(3)] == [0.0] * 3


@pytest.mark.parametrize(
    ("path", "properties", "proves"),
    [
        ("file:///x", {}, True),
        ("s3://b/x", {}, True),
        ("s3a://b/x", {"s3.endpoint": "http://minio:9000"}, False),
        ("s3://b/x", {"s3.anonymous": "true"}, False),
        ("gs://b/x", {}, False),
        ("abfss://c@a.dfs.core.windows.net/x", {}, False),
    ],
)
def test_what_nobody_has_verified_is_read_back(
    path: str, properties: dict[str, str], proves: bool
) -> None:
    assert ObjectStores(properties).proves_writes(path) is proves
