"""A whole life with ledger, catalog and archive on Postgres and S3, with a kill in each step."""

from collections.abc import Iterator

import pytest

from tests.contract.ledger.postgres import PostgresServer
from tests.stacks.postgres.lake_on_postgres import UNCLOSED, PostgresStack, postgres_stack
from tests.stacks.s3.moto import Moto
from tests.stacks.whole_chain import lives_through_kills, obeys_every_command

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings(UNCLOSED)]


@pytest.fixture(scope="module")
def lake(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, moto: Moto
) -> Iterator[PostgresStack]:
    with postgres_stack(tmp_path_factory.mktemp("whole"), postgres, moto) as whole:
        yield whole


@pytest.mark.slow("a chain with a kill in each step")
def test_a_table_on_postgres_is_expired_and_purged_though_each_step_is_killed_once(
    lake: PostgresStack,
) -> None:
    for step in ("archive.", "copies.", "control.archived"):
        assert lake.dies(40, step), step
    lives_through_kills(lake)
    assert lake.command("cold", "verify", "lake.n.t", days=81) == 0


def test_every_command_that_edits_a_table_works_on_postgres(lake: PostgresStack) -> None:
    obeys_every_command(lake)
