"""A lake whose ledger, catalog and archive stand on Postgres, and their files on S3 by moto."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meltline.app.run.summary import Summary
from meltline.app.services import RunContext
from meltline.domain.iceberg.locations import location_key
from tests.contract.ledger.postgres import PostgresServer
from tests.lives.kills import Killed, Port, Process, told_ports
from tests.spark.setups.new_lakes import connections_of
from tests.stacks.s3.moto import Moto
from tests.stacks.whole_chain import Stack, stack

UNCLOSED = "ignore:.*was deleted while still open:ResourceWarning"
"""Commands leave the closing of connections to the end of their process; here that is ours."""


@dataclass(frozen=True)
class PostgresStack(Stack):
    """Such a lake. Each run is a process of its own, as far as connections go."""

    def run(self, days: float, through: "Trouble | None" = None) -> Summary | None:
        """`meltline run` so many days from now; None where it ended with an error of any kind."""
        services = self.services(days)
        with connections_of(services), suppress(Exception):
            return self.chain(told(services, through) if through else services, f"run-{days}")
        return None

    def opens_anew(self) -> None:
        """Forgets Spark's connections to the catalogs, as the end of a run's process does.

        Iceberg's client keeps two for each catalog. Where Postgres ends them, each of them fails
        once more when it is used next, perhaps in a later run of the same session.
        """
        self.spark._jsparkSession.sessionState().catalogManager().reset()

    def dies(self, days: float, step: str, *, after: bool = False) -> bool:
        """A run that dies before or after a call of that name; whether it came so far."""
        services = self.services(days)
        process = Process(dies_at=1, about=step, after=after)
        with connections_of(services), suppress(Killed):
            self.chain(told(services, process), f"killed-{step}")
        return process.dead

    def churn(self) -> None:
        """Two commits: what was there before is history."""
        for start in (0, 10):
            self.spark.sql(f"INSERT OVERWRITE lake.n.t SELECT id FROM range({start}, {start + 4})")

    def data_files(self) -> tuple[set[str], set[str]]:
        """The data files that the table's snapshots name, and those that are there."""
        rows = self.spark.sql("SELECT DISTINCT file_path FROM lake.n.t.all_data_files").collect()
        described = self.spark.sql("DESCRIBE EXTENDED lake.n.t").collect()
        location = next(str(row[1]) for row in described if row[0] == "Location")
        present = self.wiring(0).store.list(f"{location}/data")
        return {location_key(row[0]) for row in rows}, {location_key(o.path) for o in present}


class Trouble(Process):
    """Something happens to the database at one call of a run, before it or after it.

    Args:
        deed: What happens.
        about: What the name of the call begins with.
        after: Whether it happens after the call has taken effect.
    """

    def __init__(self, deed: Callable[[], object], about: str, *, after: bool) -> None:
        super().__init__(dies_at=1, about=about, after=after)
        self._deed = deed

    def _strike(self) -> None:
        if not self.is_struck:
            self.is_struck = True
            self._deed()


def told(services: RunContext, process: Process) -> RunContext:
    """Services each of whose calls goes through a process."""
    ports = told_ports(services, process)
    present: dict[str, Any] = {n: p for n, p in ports.items() if getattr(services, n)}
    present["archive"] = Port(services.archive, "archive", process)
    return replace(services, **present)


@contextmanager
def postgres_stack(folder: Path, postgres: PostgresServer, moto: Moto) -> Iterator[PostgresStack]:
    """One with a table of four commits, all of whose history goes to the archive before it goes."""
    bucket = moto.bucket(folder.name.replace("_", "-").lower())
    lines = []
    for tier in ("hot", "cold"):
        words = {"type": "sql", "uri": postgres.create_database(), "warehouse": f"{bucket}/{tier}"}
        words |= {key: f'"{word}"' for key, word in moto.properties.items()}
        lines.append("".join(f"    {key}: {word}\n" for key, word in words.items()))
    section = f"{lines[0]}  archive:\n{lines[1]}"
    control = postgres.create_database()
    with stack(folder, section, "cold: archive\n", control=control) as whole:
        lake = PostgresStack(whole.folder, whole.spark)
        assert lake.command("policy", "set", "lake.n.t", "--cold", "all") == 0
        yield lake
        gc.collect()
