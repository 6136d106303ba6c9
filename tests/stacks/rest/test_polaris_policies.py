"""The policies of a catalog's store, in runs behind REST; the store speaks as Polaris does."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from meltline.app.run.summary import Summary
from meltline.domain.iceberg.files import DepartureState
from tests.stacks.rest.iceberg_server import iceberg_server
from tests.stacks.rest.polaris_server import REMOVAL, PolarisServer, polaris_server
from tests.stacks.whole_chain import Stack, stack

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Governed:
    """A lake, and the server that keeps policies for it."""

    lake: Stack
    polaris: PolarisServer

    def snapshots(self) -> int:
        return len(self.lake.metadata()["snapshots"])

    def run(self, day: int) -> Summary:
        """A run so many days from now."""
        return self.lake.chain(self.lake.services(day), "run")


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    tmp_path = tmp_path_factory.mktemp("polaris")
    (tmp_path / "warehouse").mkdir()
    warehouse = f"file://{tmp_path}/warehouse"
    with (
        iceberg_server(tmp_path, warehouse) as server,
        polaris_server(server.uri) as polaris,
        stack(
            tmp_path, f"    type: rest\n    uri: {polaris.uri}\n    warehouse: {warehouse}\n"
        ) as lake,
    ):
        assert lake.command("doctor", "--probe-catalog", "lake", "--json") == 0
        yield Governed(lake, polaris)


def age(days: int) -> dict[str, object]:
    return {"version": "2025-02-03", "enable": True, "config": {"max_snapshot_age_days": days}}


@pytest.mark.slow("several nights over REST")
def test_a_table_lives_by_the_policies_of_its_store(
    governed: Governed, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, polaris, before = governed.lake, governed.polaris, governed.snapshots()
    assert before == 4  # and the account of this lake would keep them for a day alone

    polaris.attach((), "everything", {"enable": False})
    assert governed.run(40).exit_code == 0 and governed.snapshots() == before

    polaris.attach(("n",), "long", age(60))
    assert governed.run(41).exit_code == 0 and governed.snapshots() == before
    capsys.readouterr()
    assert lake.command("policy", "show", "lake.n.t", "--json", days=41) == 0
    assert "Polaris policy rules.long (inherited)" in json.dumps(
        json.loads(capsys.readouterr().out)
    )

    polaris.refuses["t"] = 403, '{"error": {"type": "ForbiddenException", "message": "no"}}'
    summary = governed.run(70)
    assert "ForbiddenException" in summary.tables["lake.n.t"].skipped and summary.exit_code == 4
    assert governed.snapshots() == before
    polaris.refuses.clear()

    polaris.attach(("n", "t"), "short", age(5))
    asked = len(polaris.asked)
    summary = governed.run(71)
    assert summary.exit_code == 0, summary.as_json()
    assert governed.snapshots() == 1 and lake.count() == 4
    assert {query["target-name"] for query in polaris.asked[asked:]} == {"t"}
    assert len(polaris.asked) - asked <= 4, "once to plan, for the gate, and before the commit"

    capsys.readouterr()
    assert lake.command("sql", "VACUUM lake.n.t RETAIN 119 HOURS", days=72) == 2
    assert "Polaris policy rules.short (attached to the table)" in capsys.readouterr().err
    assert lake.command("sql", "VACUUM lake.n.t RETAIN 120 HOURS", days=80) == 0
    assert governed.snapshots() == 1 and lake.count() == 4


@pytest.mark.slow("two sweeps over REST")
def test_a_sweep_leaves_the_orphans_of_a_table_where_the_store_says_so(governed: Governed) -> None:
    lake, polaris = governed.lake, governed.polaris
    polaris.attach((), "orphans", {"enable": False}, REMOVAL)
    stray = lake.folder / "warehouse" / "n" / "t" / "data" / "stray.parquet"
    stray.write_bytes(b"nobody's")

    def waiting(day: int) -> set[str]:
        departures = lake.services(day).files.departures
        rows = departures.in_states(frozenset({DepartureState.FAILSAFE}))
        return {row.path for row in rows if row.path.endswith(stray.name)}

    for day in (90, 91):
        lake.command("sweep", "--json", days=day)
    assert waiting(91) == set()
    polaris.attach((), "orphans", {"enable": True, "max_orphan_file_age_in_days": 7}, REMOVAL)
    for day, departed in ((92, 0), (98, 0), (99, 1)):  # it is looked at once that is turned on
        lake.command("sweep", "--json", days=day)
        assert len(waiting(day)) == departed
