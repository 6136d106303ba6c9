"""A whole life on a Hive metastore, with a kill in each step."""

from collections.abc import Iterator

import pytest

from tests.stacks.hive.metastore import metastore
from tests.stacks.whole_chain import Stack, lives_through_kills, obeys_every_command, stack

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("hive-chain")
    server = folder / "server"
    server.mkdir()
    (folder / "warehouse").mkdir()
    with metastore(server, locks=False) as uri:
        section = (
            f"    type: hive\n    uri: {uri}\n    warehouse: warehouse\n"
            '    hadoop.iceberg.engine.hive.lock-enabled: "false"\n'
        )
        with stack(folder, section) as whole:
            yield whole


@pytest.mark.slow("a chain with a kill in each step")
def test_a_table_on_hive_is_expired_and_purged_though_each_step_is_killed_once(
    lake: Stack,
) -> None:
    lives_through_kills(lake)


def test_every_command_that_edits_a_table_works_on_hive(lake: Stack) -> None:
    obeys_every_command(lake)
