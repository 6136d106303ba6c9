"""The benchmark purge: how fast files are deleted, and whether the configured rate is kept."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.commits import Commits, write_files
from benchmarks.results import Figure, Outcome
from benchmarks.sides import BARE, PROCEDURE
from meltline.adapters.object_store.deleter import StoreDeleter
from meltline.adapters.object_store.stores import ObjectStores
from meltline.app.ownership.confinement import Confinement
from meltline.domain.deletion.departed import DepartedObject
from meltline.jars.jar_paths import jar_paths
from meltline.ports import DeleteOutcome, ObjectStat

_UNLIMITED = 1_000_000_000
_LIMIT, _SECONDS, _TOLERANCE = 1000, 10, 0.1
_ROUNDS = 3
_THREADS = 8


@dataclass(frozen=True)
class Store:
    """A place with an object store before it, and what Iceberg deletes there with.

    Attributes:
        name: For people.
        root: The folder or bucket that all of it lies in.
        count: How many files a round deletes.
        io: Iceberg's FileIO.
        properties: How to reach the store, in PyIceberg's words.
        fill: Puts so many files there and names them.
        left: How many of these are still there.
    """

    name: str
    root: str
    count: int
    io: Any
    properties: Mapping[str, str]
    fill: Callable[[], list[str]]
    left: Callable[[Sequence[str]], int]


def run_purge(bench: Bench) -> list[Outcome]:
    """Bulk deletes side by side, on local files and on an S3 server."""
    outcomes = [_compare(bench, _local(bench)), _limit(bench)]
    if not any("iceberg-aws-bundle" in jar for jar in jar_paths(os.environ)):
        bench.say("purge: no iceberg-aws-bundle jar: S3 is left out")
        return outcomes
    with _s3(bench) as store:
        outcomes.append(_compare(bench, store))
    return outcomes


def _compare(bench: Bench, store: Store) -> Outcome:
    stores = ObjectStores(store.properties)
    watched = _Watched(stores)
    deleter = StoreDeleter(watched, Confinement([store.root], stores).misplaced)
    took: dict[str, list[float]] = {PROCEDURE: [], BARE: []}
    for number in range(_ROUNDS):
        bench.say(f"purge: {store.count:,} files on {store.name}, round {number + 1}")
        for side in took if number % 2 == 0 else reversed(took):
            paths = store.fill()
            names = _in_java(bench, paths) if side == PROCEDURE else _departed(paths)
            start = time.perf_counter()
            if side == PROCEDURE:
                store.io.deleteFiles(names)
            else:
                outcomes = deleter.delete(names, _UNLIMITED)
            took[side].append(time.perf_counter() - start)
            if side == BARE:
                assert not any(o.error or o.replaced for o in outcomes), "some were not deleted"
            assert store.left(paths) == 0, f"{side} left files behind"
    theirs, ours = min(took[PROCEDURE]), min(took[BARE])
    figures = (
        Figure(f"purge on {store.name}, rate against Iceberg's", theirs / ours, 1.0),
        Figure(f"purge on {store.name}, Meltline", store.count / ours, None, "/s"),
        Figure(f"purge on {store.name}, Iceberg", store.count / theirs, None, "/s"),
        Figure(f"purge on {store.name}, longest from look to delete", watched.window, None, "s"),
        Figure(f"purge on {store.name}, looks, against deletes", watched.price, None, "x"),
    )
    size = f"{store.count:,} files on {store.name}, the best of {_ROUNDS} rounds each"
    return Outcome("purge", bench.scale, size, figures)


class _Watched:
    """A store that notes how long looks and deletes take, and what lies between them.

    Attributes:
        window: The longest time from the beginning of a look to the end of a delete that it was
            for, in seconds.
    """

    def __init__(self, store: ObjectStores) -> None:
        self._store = store
        self._looks = self._deletes = self.window = 0.0
        self._looked_at: dict[str, float] = {}

    @property
    def price(self) -> float:
        """Time in looks, as a multiple of that in deletes; the next look overlaps a delete."""
        return self._looks / self._deletes

    def stats(self, paths: Sequence[str]) -> Sequence[ObjectStat]:
        start = time.perf_counter()
        self._looked_at |= dict.fromkeys(paths, start)
        stats = self._store.stats(paths)
        self._looks += time.perf_counter() - start
        return stats

    def delete(self, paths: Sequence[str]) -> Sequence[DeleteOutcome]:
        start = time.perf_counter()
        outcomes = self._store.delete(paths)
        end = time.perf_counter()
        self._deletes += end - start
        self.window = max(self.window, end - min(self._looked_at.pop(path) for path in paths))
        return outcomes


def _departed(paths: Sequence[str]) -> list[DepartedObject]:
    """The files as if they had departed just now; their sizes are not what is measured."""
    return [DepartedObject(path, 0, datetime.now(UTC) + timedelta(minutes=1)) for path in paths]


def _in_java(bench: Bench, paths: Sequence[str]) -> Any:
    """The names as a list in the JVM, handed over in a file: one by one would take longer."""
    jvm: Any = bench.spark._jvm
    listed = bench.folder / "paths"
    listed.write_text("\n".join(paths), encoding="utf-8")
    return jvm.java.nio.file.Files.readAllLines(jvm.java.io.File(str(listed)).toPath())


def _limit(bench: Bench) -> Outcome:
    """The rate is kept: neither more keys a second than allowed, nor much fewer."""
    store = _local(bench, _LIMIT * _SECONDS)
    stores = ObjectStores({})
    deleter = StoreDeleter(stores, Confinement([store.root], stores).misplaced)
    paths = store.fill()
    bench.say(f"purge: {len(paths):,} files at {_LIMIT:,} a second")
    start = time.perf_counter()
    deleter.delete(_departed(paths), _LIMIT)
    rate = len(paths) / (time.perf_counter() - start)
    off = abs(rate / _LIMIT - 1)
    figures = (Figure("purge, off the configured rate by", off, _TOLERANCE, "", at_most=True),)
    return Outcome(
        "purge", bench.scale, f"{len(paths):,} files at {_LIMIT:,} keys a second", figures
    )


# --- the stores --------------------------------------------------------------------------------


def _local(bench: Bench, count: int = 0) -> Store:
    files = count or max(1000, round(100_000 * bench.scale))
    place = bench.place("purge")
    jvm: Any = bench.spark._jvm

    def fill() -> list[str]:
        write_files(place, Commits(1, files, files))
        return [f"file://{path}" for path in sorted(place.glob("*/*.parquet"))]

    def left(paths: Sequence[str]) -> int:
        return sum(Path(path.removeprefix("file://")).exists() for path in paths)

    hadoop = bench.spark.sparkContext._jsc.hadoopConfiguration()
    io = jvm.org.apache.iceberg.hadoop.HadoopFileIO(hadoop)
    return Store("local files", f"file://{place}", files, io, {}, fill, left)


@contextmanager
def _s3(bench: Bench) -> Iterator[Store]:
    import obstore
    from obstore.store import S3Store

    from tests.contract.object_store.s3proxy import running_s3proxy

    count = max(1000, round(20_000 * bench.scale))
    with running_s3proxy(bench.place("s3")) as server:
        keys = server.properties
        client = S3Store(
            server.bucket, endpoint=keys["s3.endpoint"], access_key_id=keys["s3.access-key-id"],
            secret_access_key=keys["s3.secret-access-key"], region=keys["s3.region"],
            virtual_hosted_style_request=False, client_options={"allow_http": True},
        )  # fmt: skip

        def fill() -> list[str]:
            names = [f"files/{number:07d}.parquet" for number in range(count)]
            with ThreadPoolExecutor(_THREADS) as pool:
                list(pool.map(lambda key: obstore.put(client, key, b"PAR1"), names))
            return [f"s3://{server.bucket}/{key}" for key in names]

        def left(_: Sequence[str]) -> int:
            return sum(len(page) for page in obstore.list(client))

        io: Any = bench.spark._jvm.org.apache.iceberg.aws.s3.S3FileIO()  # type: ignore[union-attr]
        io.initialize({**keys, "client.region": keys["s3.region"]})
        yield Store("s3proxy", f"s3://{server.bucket}", count, io, keys, fill, left)
        io.close()
