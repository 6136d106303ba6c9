"""Lakes that nobody has initialised yet, each with names of its own: a session knows them all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from secrets import token_hex

from meltline.adapters.catalogs.sql_catalog import SqlTables
from meltline.adapters.sql_ledger.database import Database
from meltline.app.doctor.init import Initialised, init
from meltline.app.services import ReadContext
from meltline.config.load import load_config
from meltline.wiring import Wiring

LOCAL = {"type": "sql", "uri": "sqlite:///lake.db", "warehouse": "warehouse"}

_numbers = count()


@contextmanager
def connections_of(context: ReadContext) -> Iterator[None]:
    """Closes what a context holds open of databases, as the end of a command's process does."""
    cold = [context.cold.catalog] if context.cold else []
    try:
        yield
    finally:
        for each in (context.control.database, *context.catalogs.values(), *cold):
            if isinstance(each, Database | SqlTables):
                each.close()


@dataclass(frozen=True)
class NewLake:
    """A configuration of a hot catalog, and perhaps of an archive."""

    folder: Path
    hot: str
    cold: str

    def wiring(self) -> Wiring:
        config = load_config(self.folder / "meltline.yaml", {}, self.folder)
        return Wiring(config, {}, lambda line: None)

    def init(self) -> Initialised:
        """`meltline init`."""
        context = self.wiring().services("init")
        with connections_of(context):
            return init(context)


def new_lake(
    root: Path,
    hot: Mapping[str, str] | None = None,
    cold: Mapping[str, str] | None = None,
    control: str = "sqlite:///control.db",
    name: str = "",
) -> NewLake:
    """Writes a `meltline.yaml` with these sections into a folder of its own."""
    folder = root / f"lake{next(_numbers)}"
    folder.mkdir()
    lake = NewLake(folder, name or f"hot{token_hex(4)}", f"cold{token_hex(4)}")
    sections = {lake.hot: LOCAL if hot is None else hot}
    if cold is not None:
        sections[lake.cold] = cold
    text = f"control: {control}\nhot: {lake.hot}\n" + (f"cold: {lake.cold}\n" if cold else "")
    text += "catalogs:\n"
    for catalog, words in sections.items():
        text += f"  {catalog}:\n" + "".join(f"    {key}: {word}\n" for key, word in words.items())
    (folder / "meltline.yaml").write_text(text)
    return lake
