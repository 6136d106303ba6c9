"""One Postgres and one lake for the Airflows of all executors."""

from collections.abc import Iterator

import pytest

from tests.contract.ledger.postgres import PostgresServer, throwaway_postgres
from tests.stacks.airflow.databases import Database
from tests.stacks.airflow.kept_lake import KeptLake


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with throwaway_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def lake(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> KeptLake:
    return KeptLake.build(tmp_path_factory.mktemp("lakes"), Database.create(postgres, "ledger"))
