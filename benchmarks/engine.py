"""The one warm Spark session that both sides run in, with the same settings."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from meltline.jars.jar_paths import jar_paths

SETTINGS = {
    # The fair form: without this rule the procedure reads the retained side once, not three times.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.PushDownLeftSemiAntiJoin"
    ),
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
}


def start_session(folder: Path, memory: str, java_options: str) -> SparkSession:
    """Starts the session, on two cores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    builder = SparkSession.builder.master("local[2]").appName("benchmarks")
    for key, value in {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": java_options,
        "spark.jars": ",".join(jar_paths(os.environ)),
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "unused"),
        "spark.sql.extensions": extensions,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **SETTINGS,
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def same_settings(spark: SparkSession) -> None:
    """Sets what Meltline's own start of a session may have changed back to what both sides get."""
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
