"""Bulk deletes: an outcome for each file, and no more in a second than is allowed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meltline.adapters.object_store import ObjectStores
from meltline.adapters.store_deleter import StoreDeleter
from meltline.ports import DeleteOutcome


@dataclass
class Watch:
    """A clock that stands still but for what is waited, and for what each request takes."""

    now: float = 100.0
    waited: list[float] = field(default_factory=list)

    def seconds(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


@dataclass
class Sent:
    """A store that notes when it was asked to delete what."""

    watch: Watch
    takes: float = 0.0
    fails: frozenset[str] = frozenset()
    forgets: int = 0
    at: list[tuple[float, int]] = field(default_factory=list)

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        self.at.append((self.watch.now, len(paths)))
        self.watch.now += self.takes
        answered = paths[: len(paths) - self.forgets]
        return [DeleteOutcome(one, "denied" if one in self.fails else "") for one in answered]


def names(count: int) -> list[str]:
    return [f"file:///lake/{number}" for number in range(count)]


def deleter(sent: Sent) -> StoreDeleter:
    return StoreDeleter(sent, sent.watch.seconds, sent.watch.wait)  # type: ignore[arg-type]


def test_files_are_deleted_and_one_that_is_gone_already_counts_as_done(tmp_path: Path) -> None:
    there = [tmp_path / f"{number}.parquet" for number in range(5)]
    for file in there:
        file.write_text("x")
    paths = [f"file://{file}" for file in (*there, tmp_path / "gone.parquet")]
    outcomes = StoreDeleter(ObjectStores({})).delete(paths, 1000)
    assert [outcome.path for outcome in outcomes] == paths
    assert not any(outcome.error for outcome in outcomes)
    assert list(tmp_path.iterdir()) == []


def test_what_a_store_refuses_is_told_of_that_file_alone() -> None:
    sent = Sent(Watch(), fails=frozenset({"file:///lake/7"}))
    outcomes = deleter(sent).delete(names(10), 10_000)
    assert {one.path: one.error for one in outcomes if one.error} == {"file:///lake/7": "denied"}
    assert len(outcomes) == 10


@pytest.mark.parametrize(("keys", "rate"), [(1000, 100), (30_000, 3000), (17, 1), (10_000, 9999)])
def test_at_no_moment_have_more_been_sent_than_the_rate_and_one_portion_allow(
    keys: int, rate: int
) -> None:
    sent = Sent(Watch())
    deleter(sent).delete(names(keys), rate)
    done = 0
    for at, count in sent.at:
        done += count
        assert done <= rate * (at - 100.0) + max(1, rate // 8) + 1e-6 * rate
    assert done == keys
    assert sent.at[-1][0] - 100.0 == pytest.approx((keys - sent.at[-1][1]) / rate)


def test_a_store_that_is_slower_than_the_rate_is_not_waited_for() -> None:
    sent = Sent(Watch(), takes=1.0)
    deleter(sent).delete(names(1000), 800)
    assert sent.watch.waited == []


def test_nothing_counts_as_deleted_where_a_store_does_not_answer_for_each_file() -> None:
    outcomes = deleter(Sent(Watch(), forgets=1)).delete(names(3), 1000)
    assert len(outcomes) == 3
    assert all("did not answer" in outcome.error for outcome in outcomes)


def test_deleting_nothing_asks_nobody() -> None:
    sent = Sent(Watch())
    assert deleter(sent).delete([], 1000) == []
    assert sent.at == []
