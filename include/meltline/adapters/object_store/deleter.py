"""Bulk deletes by this process, at the configured rate (decision 021).

A purge calls it. Each file is compared with its recorded departure right before its delete, so
that a new object at the same path is kept.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from meltline.adapters.object_store.pace import Pace
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.deletion.withheld import Why
from meltline.ports import DeleteOutcome, ObjectStat

_LOOKED_AT = 1_000  # keys of one check before deletes: a page of a listing
_SHARE_OF_A_SECOND = 8  # portions per second at a limited rate
_NO_ANSWER = "the store did not answer for each file"

_LookedAt = dict[str, DeleteOutcome | None]  # by path; None is a file to delete


class PurgedStore(Protocol):
    """The part of a store that it needs: see `ObjectReader` and `ObjectRemover`."""

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]: ...

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]: ...


class StoreDeleter:
    """Implements `Deleter` over the object store: checks each file, and deletes right after."""

    def __init__(
        self,
        store: PurgedStore,
        refused: Callable[[Sequence[str]], Mapping[str, str]],
        seconds: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Takes the store, a function that returns refused paths with reasons, a clock, and a wait.

        The function need not check for links: none is deleted here. The clock is monotonic, and
        the wait takes seconds.
        """
        self._store = store
        self._refused = refused
        self._seconds = seconds
        self._wait = wait

    def delete(
        self, files: Sequence[DepartedObject], keys_per_second: int
    ) -> Sequence[DeleteOutcome]:
        """Deletes the files that are unchanged since their departure; returns a result for each.

        While some files are deleted, the next ones are checked. Both portions together are at most
        the deletes of one second, because a change between check and delete is not seen. If the
        store answers for fewer or more files than were asked for, none of them counts as deleted.
        A file that is already gone is not deleted again.
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
        """Returns the result of each file that must not be deleted; None for the others."""
        paths = [file.path for file in files]
        stats = self._store.stats(paths)
        if [stat.path for stat in stats] != paths:
            return {path: DeleteOutcome(path, _NO_ANSWER) for path in paths}
        outcomes = {s.path: _judged(f, s) for f, s in zip(files, stats, strict=True)}
        refused = self._refused([path for path, outcome in outcomes.items() if outcome is None])
        return outcomes | {p: DeleteOutcome(p, _keep_reason(why)) for p, why in refused.items()}

    def _delete(self, outcomes: _LookedAt, pace: Pace, most: int) -> Mapping[str, DeleteOutcome]:
        """Deletes the files that passed the check, `most` at a time."""
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
    """Yields the checks in order. Each but the first starts when the one before is yielded."""
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
    """Returns why a file must not be deleted; None if it may be."""
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
