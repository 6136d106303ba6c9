"""Bulk deletes: an outcome for each file, and no more in a second than is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.adapters.object_store.stores import ObjectStores
from meltline.domain.deletion.departed import DepartedObject
from meltline.ports import DeleteOutcome, ObjectStat, StoredObject

SIZE = 7
BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
DEPARTED = BEFORE + timedelta(days=3)


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
    holds: dict[str, StoredObject] = field(default_factory=dict)
    blind: frozenset[str] = frozenset()
    at: list[tuple[float, int]] = field(default_factory=list)
    looks: int = 0
    seen: dict[str, float] = field(default_factory=dict)
    most_seen: int = 0
    gaps: list[float] = field(default_factory=list)

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        self.looks += 1
        self.seen |= dict.fromkeys(paths, self.watch.now)
        self.most_seen = max(self.most_seen, len(self.seen))
        return [
            ObjectStat(path, error="no answer")
            if path in self.blind
            else ObjectStat(path, self.holds.get(path, StoredObject(path, SIZE, BEFORE)))
            for path in paths
        ]

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        self.at.append((self.watch.now, len(paths)))
        self.gaps += [self.watch.now - self.seen.pop(path) for path in paths]
        self.watch.now += self.takes
        answered = paths[: len(paths) - self.forgets]
        return [DeleteOutcome(one, "denied" if one in self.fails else "") for one in answered]


def name(number: int) -> str:
    return f"file:///lake/{number}"


def files(count: int) -> list[DepartedObject]:
    return [DepartedObject(name(number), SIZE, DEPARTED) for number in range(count)]


def all_may_go(paths: Sequence[str]) -> Mapping[str, str]:
    return {}


def deleter(sent: Sent) -> StoreDeleter:
    return StoreDeleter(sent, all_may_go, sent.watch.seconds, sent.watch.wait)  # type: ignore[arg-type]


def test_files_are_deleted_and_one_that_is_gone_already_counts_as_done(tmp_path: Path) -> None:
    there = [tmp_path / f"{number}.parquet" for number in range(5)]
    for file in there:
        file.write_text("x")
    paths = [f"file://{file}" for file in (*there, tmp_path / "gone.parquet")]
    departed = [DepartedObject(path, 1, datetime.now(UTC) + timedelta(hours=1)) for path in paths]
    outcomes = StoreDeleter(ObjectStores({}), all_may_go).delete(departed, 1000)
    assert [outcome.path for outcome in outcomes] == paths
    assert not any(outcome.error for outcome in outcomes)
    assert list(tmp_path.iterdir()) == []


def test_what_a_store_refuses_is_told_of_that_file_alone() -> None:
    sent = Sent(Watch(), fails=frozenset({"file:///lake/7"}))
    outcomes = deleter(sent).delete(files(10), 10_000)
    assert {one.path: one.error for one in outcomes if one.error} == {"file:///lake/7": "denied"}
    assert len(outcomes) == 10


@pytest.mark.parametrize(("keys", "rate"), [(1000, 100), (30_000, 3000), (17, 1), (10_000, 9999)])
def test_at_no_moment_have_more_been_sent_than_the_rate_and_one_portion_allow(
    keys: int, rate: int
) -> None:
    sent = Sent(Watch())
    deleter(sent).delete(files(keys), rate)
    done = 0
    for at, count in sent.at:
        done += count
        assert done <= rate * (at - 100.0) + max(1, rate // 8) + 1e-6 * rate
    assert done == keys
    assert sent.at[-1][0] - 100.0 == pytest.approx((keys - sent.at[-1][1]) / rate)


def test_a_store_that_is_slower_than_the_rate_is_not_waited_for() -> None:
    sent = Sent(Watch(), takes=1.0)
    deleter(sent).delete(files(1000), 800)
    assert sent.watch.waited == []


def test_nothing_counts_as_deleted_where_a_store_does_not_answer_for_each_file() -> None:
    outcomes = deleter(Sent(Watch(), forgets=1)).delete(files(3), 1000)
    assert len(outcomes) == 3
    assert all("did not answer" in outcome.error for outcome in outcomes)


def test_deleting_nothing_asks_nobody() -> None:
    sent = Sent(Watch())
    assert deleter(sent).delete([], 1000) == []
    assert sent.at == []


def test_what_is_not_what_departed_is_left_alone_and_the_others_go() -> None:
    larger, later = (
        StoredObject(name(1), 8, BEFORE),
        StoredObject(name(2), SIZE, DEPARTED + timedelta(seconds=1)),
    )
    sent = Sent(Watch(), holds={name(1): larger, name(2): later})
    outcomes = deleter(sent).delete(files(4), 1000)
    assert [bool(outcome.replaced) for outcome in outcomes] == [False, True, True, False]
    assert "8 B" in outcomes[1].replaced and "modified" in outcomes[2].replaced
    assert not any(outcome.error for outcome in outcomes)
    assert [count for _, count in sent.at] == [2]


def test_what_nobody_can_look_at_is_not_deleted_and_the_others_are() -> None:
    sent = Sent(Watch(), blind=frozenset({name(1)}))
    outcomes = deleter(sent).delete(files(3), 1000)
    assert [outcome.error for outcome in outcomes] == ["", "no answer", ""]
    assert [count for _, count in sent.at] == [2]


@pytest.mark.parametrize(
    ("keys", "rate"), [(5, 1), (9, 2), (1000, 100), (10_000, 3000), (30_000, 100_000)]
)
def test_between_a_look_at_a_file_and_its_delete_lies_a_second_at_most(
    keys: int, rate: int
) -> None:
    sent = Sent(Watch())
    deleter(sent).delete(files(keys), rate)
    assert max(sent.gaps) <= 1.0 + 1e-6 and len(sent.gaps) == keys
    assert sent.most_seen <= min(rate, 2000) and sent.looks <= max(keys / 50, keys / rate * 2)


def test_while_one_look_is_answered_the_keys_of_another_are_deleted() -> None:
    deleted = Event()

    @dataclass
    class Slow(Sent):
        """Its second look is answered when something was deleted."""

        def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
            if name(0) not in paths:
                assert deleted.wait(60), "the looks come one after another, before any delete"
            return super().stats(paths)

        def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
            outcomes = super().delete(paths)
            deleted.set()
            return outcomes

    sent = Slow(Watch())
    outcomes = deleter(sent).delete(files(3000), 1_000_000)
    assert [outcome.path for outcome in outcomes] == [name(number) for number in range(3000)]


def test_an_error_of_a_look_stops_what_was_not_looked_at_yet() -> None:
    class Broken(Sent):
        def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
            super().stats(paths)
            raise RuntimeError("broken")

    sent = Broken(Watch())
    with pytest.raises(RuntimeError, match="broken"):
        deleter(sent).delete(files(30_000), 1_000_000)
    assert sent.at == [] and sent.looks == 1
