"""Where the demo lives: a folder of its own in the checkout, thrown away and made anew."""

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]

CONFIG = """\
# The demo's lake. A sandbox: time may be simulated here, so that failsafe can pass in minutes.
control: sqlite:///control.db
hot: lake
sandbox: true
catalogs:
  lake:
    type: sql
    uri: sqlite:///catalog.db
    warehouse: warehouse
  archive:
    type: sql
    uri: sqlite:///archive.db
    warehouse: archive
cold: archive
account:
  profile: business
  retention-days: 7
  cold: daily
"""


@dataclass(frozen=True)
class Place:
    """The demo's folder."""

    root: Path = CHECKOUT / ".demo"

    @property
    def lake(self) -> Path:
        """Configuration, ledgers, catalog and warehouse: made anew by each demo."""
        return self.root / "lake"

    @property
    def config(self) -> Path:
        """The demo's meltline.yaml."""
        return self.lake / "meltline.yaml"

    @property
    def warehouse(self) -> Path:
        """Where the tables lie."""
        return self.lake / "warehouse"

    @property
    def hidden(self) -> Path:
        """Where the warehouse is while the demo shows that the archive does not need it."""
        return self.lake / "warehouse-hidden"

    @property
    def page(self) -> Path:
        """The picture at the end."""
        return self.root / "storage.html"

    @property
    def clock_file(self) -> Path:
        """The simulated instant at which the demo ended, for `make up`."""
        return self.lake / "now"

    def clear(self) -> None:
        """Removes the last demo's lake and writes the configuration of a new one."""
        shutil.rmtree(self.lake, ignore_errors=True)
        self.warehouse.mkdir(parents=True)
        self.config.write_text(CONFIG)


def environment(now: datetime, place: Place) -> dict[str, str]:
    """The environment of a process that lives in the demo, at a simulated instant."""
    return {
        **os.environ,
        "MELTLINE_CONFIG": str(place.config),
        "MELTLINE_NOW": now.astimezone(UTC).isoformat(),
        "PYTHONPATH": f"{CHECKOUT / 'include'}{os.pathsep}{CHECKOUT}",
        "GX_ANALYTICS_ENABLED": "false",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
