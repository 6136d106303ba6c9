"""A lake beside a real Nessie: what lies in its warehouse stays, whatever other catalogs say."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from meltline.adapters.catalogs.rest.probe import RestProbe
from meltline.adapters.catalogs.rest.tables import RestTables
from meltline.adapters.object_store.stores import ObjectStores
from meltline.config.load import CatalogConfig
from meltline.domain.clock import WallClock
from tests.stacks.rest.nessie_server import Nessie, nessie
from tests.stacks.s3.moto import Moto, running_moto
from tests.stacks.whole_chain import Stack, stack

pytestmark = pytest.mark.spark


@dataclass
class Beside:
    """A lake in one bucket, some of whose tables lie in Nessie's."""

    stack: Stack
    nessie: Nessie
    moto: Moto
    catalog: RestCatalog

    def files(self, place: str) -> set[str]:
        return {one.path for one in ObjectStores(dict(self.moto.properties)).list(place)}

    def chain(self, day: float) -> Any:
        return self.stack.chain(self.stack.services(day), f"day-{day}")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    folder = tmp_path_factory.mktemp("beside-nessie")
    with running_moto(folder) as moto:
        moto.bucket("nessie")
        moto.bucket("lake")
        with nessie(moto, "s3://nessie/wh", folder / "nessie.log") as server:
            keys = {**moto.properties, "s3.path-style-access": '"true"'}
            s3 = "".join(f"    {key}: {text}\n" for key, text in keys.items())
            section = (
                f"    type: sql\n    uri: sqlite:///lake.db\n    warehouse: s3://lake/wh\n{s3}"
            )
            other = (
                f"  nessie:\n    type: rest\n    uri: {server.uri}\n    observe-only: true\n{s3}"
            )
            roots = "storage-roots: [s3://nessie/]\n"
            catalog = RestCatalog("nessie", uri=server.uri, **moto.properties)
            catalog.create_namespace("n")
            with stack(folder, section + other, roots) as whole:
                yield Beside(whole, server, moto, catalog)


def test_nothing_in_the_warehouse_of_a_nessie_goes_and_other_tables_go_on(
    lake: Beside, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    hidden = lake.catalog.create_table("n.t", schema=rows.schema)
    hidden.append(rows)
    lake.nessie.branch("other")
    hidden.append(rows)
    assert lake.catalog.load_table("n.t").metadata.snapshots, "Nessie shows the head"
    spark = lake.stack.spark
    spark.sql("CREATE TABLE lake.n.inside (id BIGINT) USING iceberg LOCATION 's3://nessie/wh/i'")
    for start in range(3):
        spark.sql(f"INSERT OVERWRITE lake.n.inside SELECT id FROM range({start}, {start + 4})")
    lake.chain(0)
    lake.catalog.drop_table("n.t")  # gone from main; the other branch has it still
    theirs, ours = lake.files("s3://nessie/wh"), lake.files("s3://lake/wh/n/t")
    for day in (40, 80, 120):
        summary = lake.chain(day)
    assert lake.files("s3://nessie/wh") >= theirs
    assert not ours <= lake.files("s3://lake/wh/n/t"), "other tables go on"
    assert any(line.startswith("nessie:") for line in summary.notices), summary.as_json()
    lake.stack.command("doctor", "--json", days=120)
    findings = json.loads(capsys.readouterr().out)["findings"]
    (finding,) = [f for f in findings if f["code"] == "catalog_half_seen"]
    assert "s3://nessie/wh/" in finding["message"]


def test_a_probe_finds_a_nessie_out_and_says_where_nothing_may_be_deleted(tmp_path: Path) -> None:
    with running_moto(tmp_path) as moto:
        moto.bucket("nessie")
        with nessie(moto, "s3://nessie/wh", tmp_path / "nessie.log") as server:
            store = ObjectStores(dict(moto.properties))
            keys = dict(moto.properties)
            for warehouse in ("", "wh"):
                config = CatalogConfig("n", "rest", server.uri, warehouse, "n", False, keys)
                tables = RestTables(config, store)
                (fact,) = RestProbe(tables, store, store, WallClock()).facts()
                assert not fact.is_so and fact.is_needed and "Nessie" in fact.detail
                assert fact.half_seen == ("s3://nessie/wh",) == tables.listing().half_seen
