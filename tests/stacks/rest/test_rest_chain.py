"""A whole life behind Iceberg's own REST server, with a kill in each step; and the probe of it."""

import json
from collections.abc import Iterator

import pytest

from tests.stacks.rest.iceberg_server import IcebergServer, iceberg_server
from tests.stacks.whole_chain import Stack, lives_through_kills, obeys_every_command, stack

pytestmark = pytest.mark.spark

SERVERS: list[IcebergServer] = []


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("rest-chain")
    (folder / "warehouse").mkdir()
    home = folder / "server"
    home.mkdir()
    with iceberg_server(home, f"file://{folder}/warehouse") as server:
        SERVERS.append(server)
        section = (
            f"    type: rest\n    uri: {server.uri}\n    warehouse: file://{folder}/warehouse\n"
        )
        with stack(folder, section) as whole:
            yield whole


def test_nothing_expires_before_the_server_was_probed_and_a_probe_leaves_nothing_behind(
    lake: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    before = lake.metadata()["snapshots"]
    lake.chain(lake.services(40), "unprobed")
    assert lake.metadata()["snapshots"] == before
    assert lake.command("doctor", "--json") == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    (finding,) = [f for f in findings if f["code"] == "catalog_not_managed"]
    assert "never probed" in finding["message"]

    assert lake.command("doctor", "--probe-catalog", "lake", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["waits_until"] and all(f["is_so"] for f in answer["facts"] if f["is_needed"])
    assert lake.command("doctor", "--probe-catalog", "lake", "--json", days=1) == 0
    assert json.loads(capsys.readouterr().out)["managed"]
    spaces = lake.services(0).catalogs["lake"].listing().namespaces
    assert not [space for space in spaces if "probe" in space[0]]
    left = list((lake.folder / "warehouse").rglob("*probe*/**/*.metadata.json"))
    assert not left
    lake.command("doctor", "--json")
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert "catalog_not_managed" not in {f["code"] for f in findings}


def test_a_table_behind_rest_is_expired_and_purged_though_each_step_is_killed_once(
    lake: Stack,
) -> None:
    lives_through_kills(lake)


def test_every_command_that_edits_a_table_works_behind_rest(lake: Stack) -> None:
    obeys_every_command(lake)


def test_a_server_that_is_restarted_between_commit_and_answer_loses_nothing(lake: Stack) -> None:
    server = SERVERS[0]
    server.stop()
    server.start()
    assert lake.count() == 4
