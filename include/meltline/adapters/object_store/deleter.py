"""Bulk deletes by this process, at the configured rate (decision 021)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from meltline.adapters.object_store.pace import Pace
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.withheld import Why
from meltline.ports import DeleteOutcome, ObjectStat

_LOOKED_AT = 1_000  # keys of one look, whose deletes follow: what a page of a listing shows
_SHARE_OF_A_SECOND = 8  # at a set rate, how many portions a second's keys are sent in
_NO_ANSWER = "the store did not answer for each file"

_LookedAt = dict[str, DeleteOutcome | None]  # by path; None is what is to be deleted


class PurgedStore(Protocol):
    """What is looked at and deleted from: see `ObjectReader` and `ObjectRemover`."""

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]: ...

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]: ...


class StoreDeleter:
    """The port `Deleter` over the object-store port: it looks, and deletes right after."""

    def __init__(
        self,
        store: PurgedStore,
        refused: Callable[[Sequence[str]], Mapping[str, str]],
        seconds: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Takes the store, what tells which paths may not go and why, a clock, and a wait.

        What tells that need not look for links: none is deleted here. The clock only goes forward;
        what waits does so for some seconds.
        """
        self._store = store
        self._refused = refused
        self._seconds = seconds
        self._wait = wait

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        """Deletes what is still as it departed, and returns an outcome for each.

        While some are deleted, the next ones are looked at; together they are at most as many as
        are deleted within a second: what comes in between is not seen. Where the store has answered
        for fewer or more than were asked for, none of these counts as deleted. What is gone already
        is not asked for again.
        """
        pace = Pace(keys_per_second, self._seconds, self._wait)
        most = max(1, min(_LOOKED_AT, keys_per_second // _SHARE_OF_A_SECOND))
        share = max(1, min(_LOOKED_AT, keys_per_second // 2))
        shares = [files[at : at + share] for at in range(0, len(files), share)]
        looks = map(self._look, shares) if keys_per_second < 2 else _one_ahead(self._look, shares)
        outcomes: list[DeleteOutcome] = []
        for portion, looked_at in zip(shares, looks, strict=True):
            done = self._delete(looked_at, pace, most)
            outcomes += [done[file.path] for file in portion]
        return outcomes

    def _look(self, files: Sequence[DepartedObject]) -> _LookedAt:
        """What came of each file without deleting it; None for those that are to be deleted."""
        paths = [file.path for file in files]
        stats = self._store.stats(paths)
        if [stat.path for stat in stats] != paths:
            return {path: DeleteOutcome(path, _NO_ANSWER) for path in paths}
        outcomes = {s.path: _judged(f, s) for f, s in zip(files, stats, strict=True)}
        refused = self._refused([path for path, outcome in outcomes.items() if outcome is None])
        return outcomes | {p: DeleteOutcome(p, _keep_reason(why)) for p, why in refused.items()}

    def _delete(self, outcomes: _LookedAt, pace: Pace, most: int) -> Mapping[str, DeleteOutcome]:
        """Deletes what is free, `most` of it at a time."""
        free = [path for path, outcome in outcomes.items() if outcome is None]
        for at in range(0, len(free), most):
            portion = free[at : at + most]
            pace.wait(len(portion))
            answers = self._store.delete(portion)
            if [answer.path for answer in answers] != portion:
                answers = [DeleteOutcome(path, _NO_ANSWER) for path in portion]
            outcomes.update({answer.path: answer for answer in answers})
        return {p: outcome or DeleteOutcome(p, _NO_ANSWER) for p, outcome in outcomes.items()}


def _one_ahead(
    look: Callable[[Sequence[DepartedObject]], _LookedAt],
    shares: Sequence[Sequence[DepartedObject]],
) -> Iterator[_LookedAt]:
    """The looks in their order. Each but the first begins as the one before it is handed over."""
    with ThreadPoolExecutor(1) as elsewhere:
        ahead: Future[_LookedAt] | None = None
        for share in shares:
            looked_at = ahead.result() if ahead else None
            ahead = elsewhere.submit(look, share)
            if looked_at is not None:
                yield looked_at
        if ahead:
            yield ahead.result()


def _judged(file: DepartedObject, stat: ObjectStat) -> DeleteOutcome | None:
    """What is known of a file without deleting it; None where it is to be deleted."""
    if stat.error:
        return DeleteOutcome(file.path, stat.error)
    if stat.is_link:
        return DeleteOutcome(file.path, _keep_reason(Why.LINK))
    if stat.file is None:
        return DeleteOutcome(file.path, was_gone=True)
    replaced = file.unlike(stat.file.bytes, stat.file.modified_at)
    return DeleteOutcome(file.path, replaced=replaced) if replaced else None


def _keep_reason(why: str) -> str:
    return f"it is not deleted: {why}"
