"""Rows that go: first a fence, which is the compare-and-set, then what no compare-and-set covers.

Neither deleting a row nor, with Glue, giving it another name can demand that it still is what was
read. So a row is made one first that no engine takes for a table and none can commit to. Whoever
finds such a row finishes what was begun: each step may be done twice. Until then the row is listed
under its old name, at the metadata file that counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meltline.adapters.catalogs.metastores.rows import (
    ICEBERG,
    LOCATION,
    TABLE_TYPE,
    Document,
    Metastore,
    Row,
    fenced,
    unfenced,
)
from meltline.domain.errors import NameConflict


def parameters_of(document: Document, location: str) -> dict[str, str]:
    """The parameters of a new row."""
    uuid = {"uuid": str(document["table-uuid"])} if "table-uuid" in document else {}
    return {"EXTERNAL": "TRUE", TABLE_TYPE: ICEBERG, LOCATION: location, **uuid}


@dataclass(frozen=True)
class Fences:
    """What moves and removes the rows of a metastore behind fences."""

    metastore: Metastore

    def rename(self, row: Row, to: tuple[str, str], parameters: Mapping[str, str]) -> bool:
        """Moves a row as `Metastore.rename` does, in three steps.

        Raises:
            NameConflict: The name is taken; the row is what it was.
        """
        if self.metastore.row(*to) is not None:
            raise NameConflict(f"{'.'.join(to)} is taken", object=".".join(to))
        if not self.metastore.replace(row, fenced(parameters, to)):
            return False
        moving = self.metastore.row(row.database, row.table)
        if moving is not None and moving.is_moving:
            self._finish(moving, row.parameters)
        return True

    def remove(self, row: Row) -> bool:
        """Takes a row out; False where it is another by now."""
        if not self.metastore.replace(row, fenced(row.parameters, None)):
            return False
        self.metastore.delete(row)
        return True

    def settle(self, moving: Row) -> None:
        """Finishes what a process began that was killed; where its name is taken, takes it back."""
        try:
            self._finish(moving, unfenced(moving))
        except NameConflict:
            return

    def _finish(self, moving: Row, back: Mapping[str, str]) -> None:
        """Inserts the row under its new name, and deletes the old one."""
        to, parameters = moving.moving_to, unfenced(moving)
        if to is not None:
            standing = self.metastore.row(*to)
            if standing is None and not self.metastore.insert(
                *to, parameters, replace(moving, parameters=parameters)
            ):
                standing = self.metastore.row(*to)
            if standing is not None and standing.location != moving.location:
                self.metastore.replace(moving, back)
                raise NameConflict(f"{'.'.join(to)} is taken", object=".".join(to))
        self.metastore.delete(moving)
