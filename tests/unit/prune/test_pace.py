"""`io.store-iops`: no more requests are sent in a second than were given."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from meltline.adapters.archive.copies import Stores
from meltline.adapters.object_store.pace import Pace
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import load_config
from meltline.wiring import Wiring
from tests.doubles.store import MemoryStore

FILES = 20


class Seconds:
    """A clock that goes on only while somebody sleeps, and a sleeper."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, span: float) -> None:
        self.now += span


class Timed:
    """A store that notes when each request reaches it."""

    def __init__(self, inner: MemoryStore, seconds: Seconds, requests: list[float]) -> None:
        self._inner, self._seconds, self._requests = inner, seconds, requests

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._inner, name)
        if name != "proves_writes":  # which asks nobody
            self._requests.append(self._seconds())
        return self._in_parts if name == "stream" else asked

    def _in_parts(self, path: str) -> Iterator[bytes]:
        for number, part in enumerate(self._inner.stream(path)):
            if number:  # the first comes with the request
                self._requests.append(self._seconds())
            yield part


def handed_over(per_second: float) -> list[float]:
    """When requests reached the stores while some files were copied and read again."""
    hot, cold, seconds = MemoryStore(), MemoryStore(), Seconds()
    requests: list[float] = []
    paths = [f"file:///w/t/{number}" for number in range(FILES)]
    for path in paths:
        hot.write(path, b"content")
    timed: list[Any] = [Timed(store, seconds, requests) for store in (hot, cold)]
    stores = Stores(*timed, "file:///ice", pace=Pace(per_second, seconds, seconds.sleep))
    for path in paths:
        known = stores.copy(path, 7).proof
        stores.prove(path, 7, known)
        assert stores.copy_at(stores.target(path)) == stores.read(path)
    return requests


def test_no_second_sees_more_requests_than_were_given() -> None:
    requests = handed_over(per_second=10)
    assert len(requests) == 10 * FILES
    for at in requests:
        assert sum(at <= other < at + 0.999 for other in requests) <= 10
    assert requests[-1] - requests[0] == pytest.approx((len(requests) - 1) / 10)


def test_a_copy_in_doubt_is_set_aside_part_by_part_at_the_same_pace() -> None:
    hot, cold, seconds = MemoryStore(), MemoryStore(), Seconds()
    requests: list[float] = []
    large = b"x" * 100 * 1024
    hot.write("file:///w/t/a", large)
    timed: list[Any] = [Timed(store, seconds, requests) for store in (hot, cold)]
    pace = Pace(10, seconds, seconds.sleep)
    stores = Stores(*timed, "file:///ice", pace=pace, mends=True)
    target = stores.target("file:///w/t/a")
    cold.write(target, large.swapcase())
    assert stores.prove("file:///w/t/a", len(large), None).is_new
    assert [path.path for path in cold.list("file:///ice") if ".before-" in path.path]
    assert len(requests) > 390
    assert max(sum(at <= other < at + 0.999 for other in requests) for at in requests) <= 12


def test_without_a_limit_a_handoff_waits_for_nothing() -> None:
    assert len(set(handed_over(per_second=0))) == 1


@pytest.mark.parametrize(("iops", "given"), [(50, 10), (5500, 1100)])
def test_a_fifth_of_what_the_stores_can_serve_is_what_the_archive_is_given(
    tmp_path: Path, iops: int, given: int
) -> None:
    (tmp_path / "meltline.yaml").write_text(
        "catalogs:\n  lake: {type: sql, uri: 'sqlite:///c.db', warehouse: w}\n"
        "  ice: {type: sql, uri: 'sqlite:///i.db', warehouse: i}\ncold: ice\n"
        f"io: {{store-iops: {iops}}}\n"
    )
    wiring = Wiring(load_config(tmp_path / "meltline.yaml", {}, tmp_path), {})
    pace = wiring._tiers().pace
    assert [round(pace.delay(0.0) * given, 6) for _ in range(4)] == [0, 1, 2, 3]


def test_reading_listing_and_deleting_wait_for_their_turns_too(tmp_path: Path) -> None:
    # AR-37
    seconds, folder = Seconds(), f"file://{tmp_path}"
    stores = ObjectStores({}, Pace(10, seconds, seconds.sleep))
    began = seconds.now
    for number in range(10):
        stores.write(f"{folder}/{number}", b"x")
    assert [stores.read(f"{folder}/{number}") for number in range(10)] == [b"x"] * 10
    assert len(list(stores.list(folder))) == 10
    stores.stats([f"{folder}/{number}" for number in range(10)])
    assert stores.size(f"{folder}/1") == 1 and stores.measure(f"{folder}/1")
    stores.delete([f"{folder}/{number}" for number in range(10)])
    assert seconds.now - began == pytest.approx((10 + 10 + 1 + 10 + 2) / 10)
    same = stores.unpaced()
    before = seconds.now
    for _ in range(100):
        same.size(f"{folder}/1")
    assert seconds.now == before


def test_what_is_sent_to_one_of_several_workers_takes_its_share() -> None:
    pace = Pace(100)
    pace.workers = 4
    sent = pickle.loads(pickle.dumps(ObjectStores({}, pace)))._pace
    assert [round(sent.delay(0.0), 6) for _ in range(3)] == [0, 0.04, 0.08]


def test_every_store_of_a_step_shares_one_pace(tmp_path: Path) -> None:
    (tmp_path / "meltline.yaml").write_text(
        "catalogs:\n  lake: {type: sql, uri: 'sqlite:///c.db', warehouse: w}\n"
        "  ice: {type: sql, uri: 'sqlite:///i.db', warehouse: i}\ncold: ice\n"
        "io: {store-iops: 500}\n"
    )
    wiring = Wiring(load_config(tmp_path / "meltline.yaml", {}, tmp_path), {})
    cold = wiring._cold_store
    assert cold is not None and wiring.store._pace is cold._pace is wiring.pace
    tiers = wiring._tiers()
    assert tiers.pace is wiring.pace
    for store in (tiers.hot, tiers.cold):  # counted once, by the archive
        assert isinstance(store, ObjectStores) and store._pace is not wiring.pace
