"""A process that makes tables in Spark catalogs, each by the settings that Meltline derives.

python -m tests.stacks.s3.spark_tables CATALOGS: JSON of names, warehouses and properties.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from meltline.adapters.spark.session import catalog_settings, jvm_settings
from meltline.config.load import CatalogConfig


def main(catalogs: dict[str, dict[str, object]], folder: Path) -> dict[str, object]:
    settings = {**jvm_settings("local[1]", os.environ), "spark.ui.enabled": "false"}
    for name, words in catalogs.items():
        database = f"sqlite:///{folder}/{name}.db"
        properties = {str(k): str(v) for k, v in dict(words["properties"]).items()}  # type: ignore[call-overload]
        settings |= catalog_settings(
            CatalogConfig(name, "sql", database, str(words["warehouse"]), name, False, properties)
        )
    spark = SparkSession.builder.config(map=settings).getOrCreate()
    answers: dict[str, object] = {}
    for name in catalogs:
        try:
            spark.sql(f"CREATE TABLE {name}.air.t (id INT) USING iceberg")
            spark.sql(f"INSERT INTO {name}.air.t VALUES (1), (2)")
            spark.sql(f"INSERT OVERWRITE {name}.air.t VALUES (3)")
            spark.sql(f"CREATE TABLE {name}.air.gone (id INT) USING iceberg")
            spark.sql(f"INSERT INTO {name}.air.gone VALUES (1)")
            spark.sql(f"DROP TABLE {name}.air.gone PURGE")
            rows = spark.sql(f"SELECT id FROM {name}.air.t").collect()
            files = spark.sql(f"SELECT file_path FROM {name}.air.t.all_data_files").collect()
            answers[name] = {"rows": [r[0] for r in rows], "files": sorted({f[0] for f in files})}
        except Exception as error:  # what a client lacks is what is asked
            answers[name] = {"error": str(error)[:2000]}
    spark.stop()
    return answers


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]), Path(sys.argv[2]))))
