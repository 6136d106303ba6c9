"""Bulk deletes from executors, each at its share of the configured rate."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from pyspark.sql import SparkSession

from meltline.ports import DeleteOutcome, ObjectStore

_FEW = 250  # keys: below, a Spark job takes longer to start than deleting them here
_MOST_AT_ONCE = 2_500  # keys; a store sends them as several requests, some at a time
_SHARE_OF_A_SECOND = 8  # at a set rate, how many portions a second's keys are sent in

Answer = tuple[int, list[tuple[str, str]]]
"""For how many files a store answered; which of them failed, and why."""


class SparkDeleter:
    """The port `Deleter` on Spark's executors."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self._spark = spark
        self._store = store

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        """Deletes the paths and returns an outcome for each."""
        if len(paths) <= _FEW:
            return DirectDeleter(self._store).delete(paths, keys_per_second)
        context = self._spark.sparkContext
        slices = max(1, min(context.defaultParallelism, len(paths) // _FEW))
        rate = max(1, keys_per_second // slices)
        job = context.parallelize(list(paths), slices).mapPartitions(_sent(self._store, rate))
        return _outcomes(paths, job.collect())


class DirectDeleter:
    """The port `Deleter` in this process, for small warehouses and tests."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        """Deletes the paths and returns an outcome for each."""
        return _outcomes(paths, list(_sent(self._store, keys_per_second)(paths)))


def _outcomes(paths: Sequence[str], answers: Sequence[Answer]) -> list[DeleteOutcome]:
    """Where the store has answered for fewer or more than were sent, nothing counts as deleted."""
    if sum(count for count, _ in answers) != len(paths):
        return [DeleteOutcome(path, "the store did not answer for each file") for path in paths]
    errors = dict(error for _, failed in answers for error in failed)
    return [DeleteOutcome(path, errors.get(path, "")) for path in paths]


def _sent(store: ObjectStore, keys_per_second: int) -> Callable[[Iterable[str]], Iterator[Answer]]:
    """Deletes an executor's share at its share of the rate: how many, and which failed, and why."""
    portion = max(1, min(_MOST_AT_ONCE, keys_per_second // _SHARE_OF_A_SECOND))

    def delete(paths: Iterable[str]) -> Iterator[Answer]:
        start, sent = time.monotonic(), 0
        failed: list[tuple[str, str]] = []
        keys = list(paths)
        for at in range(0, len(keys), portion):
            ahead = sent / keys_per_second - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)
            outcomes = store.delete(keys[at : at + portion])
            failed += [(outcome.path, outcome.error) for outcome in outcomes if outcome.error]
            sent += len(outcomes)
        yield sent, failed

    return delete
