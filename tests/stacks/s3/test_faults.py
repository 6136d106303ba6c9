"""A purge on an S3 server that fails: nothing needed is lost, and nothing is left for ever."""

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

import pytest

from meltline.domain.errors import StoreRefused
from tests.stacks.fault_proxy import Fault, FaultProxy, Request, fault_proxy
from tests.stacks.s3.lake_on_s3 import BucketLake
from tests.stacks.s3.moto import Moto

FILES = 300  # more than one bulk request takes
MOST_RUNS = 15
SEED = os.environ.get("MELTLINE_SEED", "")  # other chances, by hand
NUMBER = count()
OF_STORES = [f for f in Fault if f not in (Fault.TOO_MANY, Fault.AFTERWARDS)]
SHARES = {Fault.HALF_OPEN: 0.1, Fault.EXPIRED: 0.1}


@pytest.fixture
def proxy(moto: Moto) -> Iterator[FaultProxy]:
    with fault_proxy(moto.port) as running:
        yield running


def departed_lake(moto: Moto) -> BucketLake:
    """A lake on day 9: most of a table's files wait in failsafe, and another one has some."""
    made = BucketLake(moto.bucket(f"faults-{next(NUMBER)}"), moto.properties)
    lake = made.lake
    table = lake.on(0).table("t", location=f"{made.bucket}/t")
    shares = lake.table("u", location=f"{made.bucket}/u")
    names = [f"f{number:03}" for number in range(FILES)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: made.straight.write(table.data(name), b"d" * 100), names))
    table.append(*names)
    schemes = ("s3a", "s3n", "S3")
    shares.append(*(f"{schemes[n % 3]}{table.data(names[n])[2:]}" for n in range(0, 30)))
    lake.run()
    lake.on(1)
    table.overwrite("after")
    lake.on(9).run()
    assert len(lake.waiting()) > FILES - 40
    lake.on(18)
    return made


def behind(proxy: FaultProxy, moto: Moto) -> dict[str, str]:
    """How to reach the server through a proxy, with little patience."""
    return {
        **moto.properties,
        "s3.endpoint": f"http://127.0.0.1:{proxy.port}",
        "s3.request-timeout": "1",
        "s3.connect-timeout": "1",
        "s3.retry.num-retries": "3",
    }


def by_chance(share: Callable[[], Fault | None]) -> Callable[[Request], Fault | None]:
    return lambda request: share()


def purge_to_the_end(made: BucketLake, moto: Moto, proxy: FaultProxy) -> int:
    """Runs until nothing waits; says how many it took."""
    for runs in range(1, MOST_RUNS + 1):
        with suppress(StoreRefused):  # a run does not begin where a root's mark cannot be read
            made.run(behind(proxy, moto))
        gone = not set(made.lake.waiting()) & made.objects()
        if gone and not made.lake.waiting():
            return runs
    pytest.fail(f"{len(made.lake.waiting())} files wait after {MOST_RUNS} runs: {proxy.counts}")


def assert_only_what_is_needed_is_there(made: BucketLake) -> None:
    lake = made.lake
    lake.check_nothing_is_missing()
    there = {lake._real_key(path) for path in made.objects()}
    assert there == lake.needed() & there and len(there) < 80
    assert len([path for path in made.objects() if "/t/data/f" in path]) == 30


@pytest.mark.parametrize("fault", OF_STORES, ids=lambda fault: fault.name)
@pytest.mark.slow("a store that fails by chance")
def test_a_purge_goes_through_a_store_that_fails_by_chance(
    moto: Moto, proxy: FaultProxy, fault: Fault
) -> None:
    made, dice = departed_lake(moto), random.Random(f"{fault.name}{SEED}")
    proxy.chooses = by_chance(
        lambda: fault if not proxy.counts or dice.random() < SHARES.get(fault, 0.3) else None
    )
    runs = purge_to_the_end(made, moto, proxy)
    assert_only_what_is_needed_is_there(made)
    assert proxy.counts[fault.name] or fault is Fault.PARTIAL, "nothing went wrong"
    print(f"{fault.name}: {dict(proxy.counts)}, {runs} runs")


def test_a_purge_goes_through_all_faults_at_once(moto: Moto, proxy: FaultProxy) -> None:
    made, dice = departed_lake(moto), random.Random(f"all{SEED}")
    faults = [fault for fault in OF_STORES if fault is not Fault.HALF_OPEN]
    proxy.chooses = by_chance(lambda: dice.choice(faults) if dice.random() < 0.4 else None)
    runs = purge_to_the_end(made, moto, proxy)
    assert_only_what_is_needed_is_there(made)
    print(f"all: {dict(proxy.counts)}, {runs} runs")


@pytest.mark.slow("a token ends while a run goes on")
def test_a_token_that_ends_while_files_are_deleted_is_named_and_the_next_run_goes_on(
    moto: Moto, proxy: FaultProxy
) -> None:
    made = departed_lake(moto)
    has_ended = True
    proxy.chooses = lambda request: Fault.EXPIRED if has_ended and request.is_bulk_delete else None
    summary = made.run(behind(proxy, moto))
    assert summary.exit_code != 0 and len(made.lake.waiting()) > FILES - 40
    assert "the credentials have ended" in str(summary.as_json())
    has_ended = False
    assert purge_to_the_end(made, moto, proxy) == 1
    assert_only_what_is_needed_is_there(made)


@pytest.mark.slow("many keys are deleted one by one")
def test_an_error_for_every_second_key_of_a_bulk_delete_stops_none_of_them(
    moto: Moto, proxy: FaultProxy
) -> None:
    made = departed_lake(moto)
    proxy.chooses = lambda request: Fault.PARTIAL
    assert purge_to_the_end(made, moto, proxy) == 1
    assert proxy.counts["PARTIAL"] >= 1
    assert_only_what_is_needed_is_there(made)
