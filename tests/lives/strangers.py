"""Strangers: owners whom no catalog of ours shows, and who write into the folders of our tables.

What they need must stay, though nothing tells of it but what they leave there. In the end they are
gone, and a person says so.
"""

import json
from collections.abc import Callable

from meltline.app.catalog.tables import read_tables
from meltline.app.orphans.allowed_owners import allow
from meltline.app.safety.owner_guards import override
from meltline.domain.clone.clones import GC
from meltline.domain.deletion.foreign_owners import SignKind
from meltline.domain.iceberg.files import FileKind
from meltline.ports import OtherOwner
from tests.lake.lake import Table
from tests.lives.watched_changes import is_forbidden
from tests.lives.watched_lake import WatchedLake

STRANGE = (
    "strange_table", "strange_view", "listed_view", "strange_log", "strange_format",
    "owner_forbids", "owner_forbids", "owner_allows",
)  # fmt: skip
LOGS = ("_delta_log/0.json", ".hoodie/hoodie.properties")
FORMATS = ("snapshot/snapshot-1", "schema/schema-0", "data/{}.lance", "_versions/1.manifest")
GUARDS = ("gc.enabled", "meltline.owner-gc")
UNLISTED = "dark"


class Strangers:
    """Acts on a watched lake."""

    def __init__(self, lake: WatchedLake, new_file: Callable[[], str]) -> None:
        self.lake = lake
        self.new_file = new_file
        self.own: set[str] = set()

    def strange_table(self, table: Table, number: int) -> None:
        """A table of a catalog that is not listed takes the same location."""
        name = f"{UNLISTED}.night.{self.new_file()}"
        stranger = self.lake.table(name, version=1 + number % 3, location=table.location)
        stranger.append(self.new_file())

    def strange_view(self, table: Table, number: int) -> None:
        """A view of such a catalog does; all that it has is its metadata file."""
        self._view(table)

    def listed_view(self, table: Table, number: int) -> None:
        """A view of our own catalog, under the old name of a table that was renamed, say."""
        path, name = self._view(table), table.name
        row = OtherOwner(name, "view", metadata_location=path)
        self.lake.catalogs["lake"].add_owner(row)

    def _view(self, table: Table) -> str:
        unique = self.new_file()
        document = {"view-uuid": f"view-{unique}", "location": table.location}
        path = f"{table.location}/metadata/00000-{unique}.metadata.json"
        return self._write(path, json.dumps(document).encode())

    def strange_log(self, table: Table, number: int) -> None:
        """Another format names the same data files: UniForm and XTable write such logs."""
        here = f"{table.location}/"
        live = {entry.path for entry in table.live() if entry.kind is FileKind.DATA}
        self.lake.foreign |= {path for path in live if path.startswith(here)}
        self._write(here + LOGS[number % len(LOGS)], b"{}")

    def strange_format(self, table: Table, number: int) -> None:
        """Another format has its own files beside."""
        marker = FORMATS[number % len(FORMATS)].format(self.new_file())
        self._write(f"{table.location}/{marker}", b"x")
        self._write(f"{table.location}/{self.new_file()}.orc", b"theirs")

    def owner_forbids(self, table: Table, number: int) -> None:
        """The owner of a table says that others need its files, though nobody of ours sees them."""
        key = GUARDS[number % len(GUARDS)]
        table.edit(lambda document: document["properties"].update({key: "false"}))

    def owner_allows(self, table: Table, number: int) -> None:
        """What the owner has forbidden is allowed again."""
        if is_forbidden(table.document["properties"]):
            for key in GUARDS:
                table.unset(key)

    def _write(self, path: str, content: bytes) -> str:
        self.lake.store.write(path, content)
        self.lake.foreign.add(path)
        self.own.add(path)
        return path

    def leave_for_good(self) -> None:
        """All that they wrote goes with them; what only their logs named is nobody's then."""
        lake = self.lake
        for name in list(lake.catalogs[UNLISTED]._tables) if UNLISTED in lake.catalogs else ():
            self.own |= lake.walk.of_table(Table(lake, name).metadata_location)
            lake.catalogs[UNLISTED].drop(name)
            lake.stories.pop(name, None)
        lake.foreign.clear()
        lake.catalogs["lake"].others.clear()  # type: ignore[attr-defined]
        lake.store.delete(sorted(self.own - lake.needs()))
        self.own.clear()
        for table in lake.registered():
            self.owner_allows(table, 0)
        lake.note_needs()  # what such tables have is ours from now on


def allow_the_gone(lake: WatchedLake) -> bool:
    """A person answers what `doctor` names of other owners: they are gone. Whether any was named.

    Beside signs in folders these are guards that tools have copied with a table's properties:
    nobody knows them as Meltline's, so they count as the owner's.
    """
    services = lake.services()
    allowed = {owner.id for owner in lake.control.owners.allowed()}
    signs = {s.id for s in lake.control.owners.signs() if s.kind is not SignKind.SEEN}
    for sign in sorted(signs - allowed):
        allow(services, sign, "nobody of them is left")
    guarded = [table.state for table in read_tables(services) if table.owner_guard == GC]
    for state in guarded:
        override(services, state, "the guard is a copy")
        lake.overridden.add(state.uuid)
    lake.note_needs()
    return bool(signs - allowed or guarded)
