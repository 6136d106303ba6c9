"""What Iceberg's own client writes to Google's store by the settings that Meltline derives."""

import os
from pathlib import Path

from tests.stacks.gcs.fake_gcs import FakeGcs
from tests.stacks.s3.spark_process import made_by_spark, need_jar


def test_spark_makes_a_table_by_the_same_configuration(json_gcs: FakeGcs, tmp_path: Path) -> None:
    need_jar("iceberg-gcp-bundle", os.environ)
    properties = {**json_gcs.properties, "gcs.project-id": "meltline"}
    made = made_by_spark(tmp_path, {}, lake=(f"{json_gcs.bucket('spark')}/wh", properties))
    assert made["lake"].get("rows") == [3], made
    assert all(path.startswith("gs://spark/wh/") for path in made["lake"]["files"])
