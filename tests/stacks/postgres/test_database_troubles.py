"""Postgres is restarted, is away, or ends every connection, at each point of a run that matters.

It has the control ledger, the catalog and the archive's catalog. Whatever comes of that run: no
file that a snapshot names is gone, and the next run finishes the work.
"""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres
from tests.stacks.postgres.lake_on_postgres import (
    UNCLOSED,
    PostgresStack,
    Trouble,
    postgres_stack,
)
from tests.stacks.s3.moto import Moto

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings(UNCLOSED)]

_DAYS = count(40, 40)  # each run is later than the one before: by then all has been due for long


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with throwaway_postgres() as own:  # nobody else is to be without it
        yield own


@pytest.fixture(scope="module")
def lake(
    tmp_path_factory: pytest.TempPathFactory, server: PostgresServer, moto: Moto
) -> Iterator[PostgresStack]:
    with postgres_stack(tmp_path_factory.mktemp("troubled"), server, moto) as whole:
        yield whole


def restarted(server: PostgresServer) -> None:
    server.kill()
    server.start()


EXPIRING = [
    ("before plans are stored", "control.plans.add", False),
    ("after the archive has its copies", "control.archived", False),
    ("after the gate", "gate.judge", True),
    ("before the commit", "committer.expire", False),
    ("between the commit and applied", "committer.expire", True),
]
PURGING = [
    ("before claims", "control.claims.take", False),
    ("after claims", "control.claims.take", True),
    ("before deletes", "deleter.", False),
    ("between deletes and their record", "deleter.", True),
    ("before claims are finished", "control.claims.finish", False),
]
POINTS = list(zip(EXPIRING, PURGING, strict=True))
DEEDS: dict[str, Callable[[PostgresServer], object]] = {
    "restarted": restarted,
    "away until the run has ended": PostgresServer.kill,
    "ends every connection": PostgresServer.disconnect,
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
@pytest.mark.parametrize(
    ("expiring", "purging"),
    POINTS,
    ids=[f"{expiring[0]}, {purging[0]}" for expiring, purging in POINTS],
)
def test_nothing_is_lost_and_the_next_run_finishes(
    lake: PostgresStack,
    server: PostgresServer,
    deed: Callable[[PostgresServer], object],
    expiring: tuple[str, str, bool],
    purging: tuple[str, str, bool],
) -> None:
    lake.churn()
    for _, about, after in (expiring, purging):
        days = next(_DAYS)
        trouble = Trouble(lambda: deed(server), about, after=after)
        lake.run(days, trouble)
        if server.process is None:
            server.start()
        assert trouble.is_struck, about
        lake.opens_anew()
        named, present = lake.data_files()
        assert named <= present and lake.count() == 4
        summary = lake.run(days)
        assert summary is not None and summary.exit_code == 0, summary and summary.as_json()
    named, present = lake.data_files()
    assert named == present and len(lake.metadata()["snapshots"]) == 1
