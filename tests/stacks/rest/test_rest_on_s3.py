"""REST on S3: a life with a kill in each step, by keys that the catalog gives with a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import CatalogConfig
from meltline.domain.deletion.plan import PlanState
from meltline.domain.errors import StoreRefused
from meltline.domain.iceberg.files import DepartureState
from meltline.domain.iceberg.names import TableName
from tests.stacks.fault_proxy import Fault
from tests.stacks.rest.iceberg_server import IcebergServer
from tests.stacks.rest.raced_tables import RacedTable
from tests.stacks.rest.vending import Vendor, vending
from tests.stacks.s3.moto import KEY, SECRET, running_moto
from tests.stacks.whole_chain import Stack, lives_through_kills, stack

pytestmark = pytest.mark.spark

WAREHOUSE = "s3://lake/wh"


@dataclass
class Vending:
    """A lake whose catalog vends."""

    stack: Stack
    vendor: Vendor
    server: IcebergServer


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vending]:
    folder = tmp_path_factory.mktemp("rest-on-s3")
    home = folder / "server"
    home.mkdir()
    with running_moto(folder) as moto:
        moto.bucket("lake")
        with vending(moto, home, WAREHOUSE) as (vendor, server):
            words = {
                "type": "rest",
                "uri": vendor.uri,
                "warehouse": WAREHOUSE,
                "s3.endpoint": vendor.store_uri,
                "s3.region": "us-east-1",
                "s3.path-style-access": '"true"',
                "s3.access-key-id": KEY,  # opens what is no table's, and no table
                "s3.secret-access-key": SECRET,
            }
            section = "".join(f"    {key}: {text}\n" for key, text in words.items())
            with stack(folder, section) as whole:
                yield Vending(whole, vendor, server)


@pytest.mark.slow("a chain with a kill in each step")
def test_a_table_is_expired_and_purged_by_vended_keys_though_each_step_is_killed_once(
    lake: Vending,
) -> None:
    assert lake.stack.command("doctor", "--probe-catalog", "lake") == 0
    lives_through_kills(lake.stack)
    assert not [line for line in lake.vendor.refused if not line.startswith(f"{KEY}:")]
    (used,) = [keys for prefix, keys in lake.vendor.used.items() if prefix.endswith("/n/t/")]
    assert len(used) > 5, "keys were asked for again and again"


@pytest.mark.slow("vended keys end while a run goes on")
def test_keys_that_end_in_mid_purge_are_asked_for_again(lake: Vending) -> None:
    spark, vendor = lake.stack.spark, lake.vendor
    for start in range(4):
        spark.sql(f"INSERT OVERWRITE lake.n.t SELECT id FROM range({start}, {start + 4})")
    lake.stack.chain(lake.stack.services(120), "expire")
    before, counted = len(vendor.sessions), lake.stack.count()
    services = lake.stack.services(160)
    vendor.sessions.clear()  # whatever was vended until now is worth nothing
    summary = lake.stack.chain(services, "purge")
    assert not [line for line in summary.as_json()["tables"] if line.get("error")]
    assert summary.as_json()["tables"][0]["files_purged"] > 0, summary.as_json()
    assert len(vendor.sessions) > 1 and before
    assert lake.stack.count() == counted


@pytest.mark.slow("several nights over REST and S3")
def test_nothing_of_a_table_departs_while_it_is_not_known_what_its_commit_came_to(
    lake: Vending,
) -> None:
    spark, rest = lake.stack.spark, lake.vendor.rest
    for start in range(3):
        spark.sql(f"INSERT OVERWRITE lake.n.t SELECT id FROM range({start}, {start + 4})")
    states = frozenset(DepartureState)
    services = lake.stack.services(200)
    before = len(services.files.departures.in_states(states))
    rest.chooses = lambda request: Fault.LOST if b"remove-snapshots" in request.body else None
    summary = lake.stack.chain(services, "lost")
    rest.chooses = lambda request: None
    assert rest.counts["LOST"] == 1 and summary.exit_code != 0, summary.as_json()
    assert len(services.files.departures.in_states(states)) == before
    (plan,) = services.control.plans.find(states=[PlanState.APPLYING])
    assert len(lake.stack.metadata()["snapshots"]) < 4, "the server has done it"
    lake.stack.chain(lake.stack.services(201), "after")
    done = lake.stack.services(201)
    assert done.control.plans.current([plan.id])[plan.id].state is PlanState.APPLIED
    assert len(done.files.departures.in_states(states)) > before
    assert lake.stack.count() == 4


def test_a_catalog_that_signs_itself_is_refused_by_name(tmp_path: Path) -> None:
    with running_moto(tmp_path) as moto:
        moto.bucket("lake")
        with vending(moto, tmp_path, WAREHOUSE) as (vendor, server):
            table = RacedTable(server, TableName("lake", ("n",), "t"))
            config = CatalogConfig("lake", "rest", vendor.uri, WAREHOUSE, "lake", False, {})

            def read() -> bytes:
                store = ObjectStores({**moto.where, "s3.endpoint": vendor.store_uri})
                return store.read(RestTables(config, store, store.vended).location(table.name))

            assert read(), "by vended keys"
            vendor.signs = True
            with pytest.raises(StoreRefused, match="remote-signing"):
                read()
