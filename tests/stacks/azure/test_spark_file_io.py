"""One configuration for both clients: what Spark writes to Azure by it, the store reads by it."""

import os
from pathlib import Path

from meltline.adapters.object_store.stores import ObjectStores
from tests.stacks.azure.azurite import Azurite
from tests.stacks.s3.spark_process import made_by_spark, need_jar


def test_what_spark_writes_by_a_configuration_is_read_and_deleted_by_it(
    azurite: Azurite, tmp_path: Path
) -> None:
    need_jar("iceberg-azure-bundle", os.environ)
    warehouse = f"{azurite.container('spark')}/wh"
    made = made_by_spark(tmp_path, {}, lake=(warehouse, azurite.properties))
    assert made["lake"].get("rows") == [3], made
    store, files = ObjectStores(azurite.properties), made["lake"]["files"]
    assert [store.read_prefix(path, 4).content for path in files] == [b"PAR1"] * len(files)
    assert len(files) >= 2
    assert not any(outcome.error for outcome in store.delete(files))
    assert [stat.file for stat in store.stats(files)] == [None] * len(files)
    assert [found.path for found in store.list(f"{warehouse}/air/gone")] == []
