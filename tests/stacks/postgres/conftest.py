"""One Postgres and one moto for all tests of the stack."""

from collections.abc import Iterator

import pytest

from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres
from tests.stacks.s3.moto import Moto, running_moto


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moto]:
    with running_moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with throwaway_postgres() as server:
        yield server
