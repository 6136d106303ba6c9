"""Bulk deletes from executors, each at its share of the configured rate."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from pyspark.sql import SparkSession

from meltline.ports import DeleteOutcome, ObjectStore

_KEYS_PER_REQUEST = 250  # large requests throttle themselves: each key counts as one write


class SparkDeleter:
    """The port `Deleter` on Spark's executors."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self._spark = spark
        self._store = store

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        """Deletes the paths and returns an outcome for each."""
        if not paths:
            return ()
        context = self._spark.sparkContext
        slices = max(1, min(context.defaultParallelism, len(paths) // _KEYS_PER_REQUEST))
        rate = max(1, keys_per_second // slices)
        job = context.parallelize(list(paths), slices).mapPartitions(_paced(self._store, rate))
        return [DeleteOutcome(path, error) for path, error in job.collect()]


class DirectDeleter:
    """The port `Deleter` in this process, for small warehouses and tests."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def delete(self, paths: Sequence[str], keys_per_second: int) -> Sequence[DeleteOutcome]:
        """Deletes the paths and returns an outcome for each."""
        return [DeleteOutcome(*found) for found in _paced(self._store, keys_per_second)(paths)]


def _paced(
    store: ObjectStore, keys_per_second: int
) -> Callable[[Iterable[str]], Iterator[tuple[str, str]]]:
    def delete(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        start, sent = time.monotonic(), 0
        waiting: list[str] = []

        def send() -> Iterator[tuple[str, str]]:
            nonlocal sent
            ahead = sent / keys_per_second - (time.monotonic() - start)
            if ahead > 0:
                time.sleep(ahead)
            sent += len(waiting)
            for outcome in store.delete(list(waiting)):
                yield outcome.path, outcome.error
            waiting.clear()

        for path in paths:
            waiting.append(path)
            if len(waiting) >= min(_KEYS_PER_REQUEST, keys_per_second):
                yield from send()
        if waiting:
            yield from send()

    return delete
