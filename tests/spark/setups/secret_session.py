"""A process of its own that starts Spark for a configuration and shows what others could see of it.

    python -m tests.spark.setups.secret_session CONFIG FOLDER [ui]

Prints a JSON document: the command lines of all processes below it, what Spark's own page of
settings answers, and what `SET` shows. Spark's event log goes into the folder.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from meltline.adapters.spark.session import open_session
from meltline.config.load import load_config


def below(pid: int) -> list[int]:
    """A process and all that it started, and they, as the kernel tells everybody."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def command_lines() -> list[str]:
    """Of this process and those below it; any user of the machine may read them."""
    # From the parent on: under spark-submit that is the JVM.
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below(os.getppid())]
    return [line.replace(b"\0", b" ").decode() for line in lines]


def environment_page(spark: Any) -> str:
    """What Spark's web page answers about its settings."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
    with urllib.request.urlopen(address) as page:
        return str(page.read().decode())


def main(config: str, folder: str, *flags: str) -> None:
    """Starts Spark, has it do some work, and prints what is to be seen."""
    loaded = load_config(Path(config), os.environ, Path.cwd())
    log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}"}
    log["spark.eventLog.compress"] = "false"
    ui = {"spark.ui.enabled": "true", "spark.ui.port": "0"} if "ui" in flags else {}
    spark = open_session(loaded, "secrets", os.environ, {**log, **ui})
    assert open_session(loaded, "secrets", os.environ) is not None  # joins it
    spark.range(10).repartition(2).write.format("noop").mode("overwrite").save()
    seen = {
        "commands": command_lines(),
        "settings": [
            tuple(row)
            for asked in ("SET", "SET spark.sql.catalog.lake.credential", "SET -v")
            for row in spark.sql(asked).collect()
        ],
        "page": environment_page(spark) if ui else "",
        "known": [tuple(pair) for pair in spark.sparkContext.getConf().getAll()],
    }
    spark.stop()
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
