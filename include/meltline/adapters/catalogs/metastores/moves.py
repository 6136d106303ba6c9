"""Moves and removes metastore rows behind a fence, which is set by compare-and-swap.

Neither deleting a row nor, with Glue, renaming it can require that the row is unchanged since it
was read. So the row is first turned into a fence: no engine takes it for a table, and none can
commit to it. Any process that finds a fence finishes the move: each step is idempotent. Until then
the row is listed under its old name, with the metadata file that counts.

Each move has a token of its own, which the new row keeps. Engines may have committed to the new row
long before a process finds the fence of one that was killed, so its location proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from secrets import token_hex

from meltline.adapters.catalogs.metastores.rows import (
    ICEBERG,
    LOCATION,
    TABLE_TYPE,
    Document,
    Metastore,
    Row,
    fenced,
    taken_back,
    unfenced,
)
from meltline.adapters.catalogs.table_commits import fate_unknown
from meltline.domain.errors import CommitConflict, NameConflict
from meltline.domain.iceberg.names import TableName


def parameters_of(document: Document, location: str) -> dict[str, str]:
    """Returns the parameters of a new row."""
    uuid = {"uuid": str(document["table-uuid"])} if "table-uuid" in document else {}
    return {"EXTERNAL": "TRUE", TABLE_TYPE: ICEBERG, LOCATION: location, **uuid}


@dataclass(frozen=True)
class Fences:
    """Moves and removes the rows of a metastore behind fences.

    Attributes:
        catalog: Its name, for errors.
    """

    catalog: str
    metastore: Metastore

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool:
        """Moves a row as `Metastore.rename` does, in three steps.

        Returns:
            False when nothing was done: the row has changed.

        Raises:
            NameConflict: The name is taken; the row is unchanged.
            CommitConflict: The outcome is unknown; the row may have either name and either file.
        """
        if self.metastore.row(*to) is not None:
            raise _taken(to)
        fence = fenced(row, parameters, to, token_hex(8))
        if not self.metastore.replace(row, fence):
            return False
        moving = replace(row, parameters=fence)
        standing = self._fence(moving)
        if standing is not None:
            self._finish(standing)
        elif not _is_of(self.metastore.row(*to), moving):
            raise self._unknown(moving, "its fence is gone, and it is not under its new name")
        return True

    def remove(self, row: Row) -> bool:
        """Removes a row; returns False if it has changed."""
        fence = fenced(row, row.parameters, None, token_hex(8))
        if not self.metastore.replace(row, fence):
            return False
        self._take_out(replace(row, parameters=fence))
        return True

    def settle(self, moving: Row) -> None:
        """Finishes the move of a killed process; reverts it if the new name is taken.

        Raises:
            CommitConflict: A concurrent process works on it.
        """
        try:
            self._finish(moving)
        except NameConflict:
            return

    def _finish(self, moving: Row) -> None:
        """Inserts the row under its new name, and deletes the old one."""
        if moving.moving_to is not None:
            self._arrive(moving, moving.moving_to)
        self._take_out(moving)

    def _arrive(self, moving: Row, to: tuple[str, str]) -> None:
        """Ensures that the row exists under its new name.

        Other processes may do the same for the same fence now, and may rely on the row created
        here. So it is never removed again.
        """
        parameters = unfenced(moving)
        standing = self.metastore.row(*to)
        if standing is None:
            if self.metastore.insert(*to, parameters, replace(moving, parameters=parameters)):
                return
            standing = self.metastore.row(*to)
        if _is_of(standing, moving):
            return
        if standing is None or not self.metastore.replace(moving, taken_back(moving)):
            raise self._unknown(moving, f"{'.'.join(to)} changes at this moment")
        raise _taken(to)

    def _take_out(self, moving: Row) -> None:
        """Deletes a fence by its name, after checking that the name still holds this fence."""
        standing = self._fence(moving)
        if standing is not None:
            self.metastore.delete(standing)

    def _fence(self, moving: Row) -> Row | None:
        """Returns the row under the old name if it is still the fence of this very move."""
        standing = self.metastore.row(moving.database, moving.table)
        is_ours = standing is not None and standing.is_moving and standing.move == moving.move
        return standing if is_ours else None

    def _unknown(self, moving: Row, answer: str) -> CommitConflict:
        return fate_unknown(TableName(self.catalog, (moving.database,), moving.table), answer)


def _is_of(standing: Row | None, moving: Row) -> bool:
    """Returns whether a row under the new name results from a fence, whatever its later commits."""
    if standing is None or not standing.is_table:
        return False
    return (standing.move == moving.move != "") or standing.location == moving.location


def _taken(to: tuple[str, str]) -> NameConflict:
    return NameConflict(f"{'.'.join(to)} is taken", object=".".join(to))
