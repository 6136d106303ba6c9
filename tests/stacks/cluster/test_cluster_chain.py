"""A whole life of a table in S3, with Spark on a cluster and the control ledger in Postgres."""

import gc
from collections.abc import Iterator

import pytest

from tests.contract.ledger.postgres import throwaway_postgres
from tests.stacks.cluster.standalone import Cluster
from tests.stacks.s3.moto import running_moto
from tests.stacks.s3.spark_process import need_jar
from tests.stacks.whole_chain import Stack, lives_through_kills, obeys_every_command, stack

pytestmark = [
    pytest.mark.spark,
    # Processes that die close no connection, and here it is one process that dies again and again.
    pytest.mark.filterwarnings("ignore:.*BaseConnection:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def lake(on_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("cluster-chain")
    need_jar("iceberg-aws-bundle", dict(on_cluster.environment()))
    (folder / "moto").mkdir()
    with throwaway_postgres() as postgres, running_moto(folder / "moto") as moto:
        lines = [
            "type: sql",
            f"uri: {postgres.create_database()}",
            f"warehouse: {moto.bucket('cluster-lake')}/wh",
            *(f'{key}: "{text}"' for key, text in moto.properties.items()),
        ]
        section = "".join(f"    {line}\n" for line in lines)
        with stack(folder, section, control=postgres.create_database()) as whole:
            yield whole
            gc.collect()  # what was left open is told here, and not among the tests of others


@pytest.mark.slow("a chain with a kill in each step")
def test_a_table_is_expired_and_purged_though_each_step_is_killed_once(lake: Stack) -> None:
    lives_through_kills(lake)


def test_every_command_that_edits_a_table_works(lake: Stack) -> None:
    obeys_every_command(lake)
