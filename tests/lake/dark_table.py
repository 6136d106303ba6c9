"""A table that nobody but its engine can read: it comes, is vouched for, and is replaced."""

from meltline.app.catalog.management import attach, detach
from meltline.domain.iceberg.names import TableName
from tests.doubles.files import MemoryLedgerReader
from tests.lake.lake import Table
from tests.lives.oracle import Story
from tests.lives.watched_lake import WatchedLake

MOST = 3


class DarkTable:
    """One such table at a time, under names that no other engine uses."""

    def __init__(self, lake: WatchedLake) -> None:
        self._lake = lake
        self._names = [TableName("lake", ("dark",), f"t{number}") for number in range(MOST)]
        self._at = ""  # its metadata file, while it cannot be read
        self._content = b""

    def comes(self, file: str) -> None:
        """A table with a file of its own."""
        if not self._at and self._names:
            made = self._lake.table(str(self._names[0]))
            self._lake.stories[made.name] = Story()
            made.append(file)
            self._hide(made)

    def is_replaced(self, source: Table) -> None:
        """An engine drops it and puts another one there, over files of a table that is there.

        Nothing is purged while it stands. Of what it needed nobody ever knew: what had departed
        does not wait anew once it is gone.
        """
        if self._at:
            name, needs = self._names[0], self._lake.walk.of_table(self._at)
            self._lake.catalogs["lake"].drop(name)
            for departure in MemoryLedgerReader(self._lake.file_tables).departures():
                if departure.path in needs:
                    self._lake.last_needed[departure.path] = departure.departed_at
            self._lake.mend(self._at, self._content)
            self._hide(self._lake.clone(source, str(name)))

    def is_vouched_for(self) -> None:
        """A person who knows it says that it needs nothing of others', where that is true."""
        if self._at:
            table = Table(self._lake, self._names[0])
            if all(path.startswith(table.location) for path in self._lake.walk.of_table(self._at)):
                detach(self._lake.services(), [table.name], "nothing of others")
                self._lake.is_denied = False

    def is_denied(self) -> None:
        """Who vouched for it takes the word back."""
        names = {word.table for word in self._lake.control.decisions.vouched()}
        if self._at and self._names[0] in names:
            attach(self._lake.services(), self._names[0])
            self._lake.is_denied = True

    def can_be_read_again(self) -> None:
        """From now on it is a table like any other."""
        if self._at:
            self._lake.is_denied = False
            self._lake.mend(self._at, self._content)
            self._names.pop(0)
            self._at = ""

    def _hide(self, table: Table) -> None:
        self._lake.check()
        self._at = table.metadata_location
        self._content = self._lake.spoil(self._at)
