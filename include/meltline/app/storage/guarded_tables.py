"""Guarded tables: bytes that settings of owners keep, and how the operator overrides them.

`storage`, `explain` and `doctor` report them. `safety/owner_guards.py` decides which settings
count; this module adds the bytes and the next step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meltline.app.safety.owner_guards import OwnerGuards
from meltline.app.services import ReadContext
from meltline.app.storage.report import storage_rows, totals_now
from meltline.domain.clone.clones import OWNER_GC
from meltline.domain.deletion.storage import StorageRow
from meltline.domain.iceberg.names import TableName
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import format_size


@dataclass(frozen=True)
class GuardedTable:
    """A table whose owner forbids deletions.

    Attributes:
        setting: The property that forbids them.
        kept_bytes: Bytes that no head of the table references.
    """

    name: TableName
    setting: str
    kept_bytes: int

    @property
    def message(self) -> str:
        """States the setting and the bytes that it keeps."""
        return f"its owner set {self.setting}=false: {format_size(self.kept_bytes)} of history stay"

    @property
    def fix(self) -> str:
        """The step that lets Meltline delete in spite of the setting."""
        if self.setting == OWNER_GC:
            return f"if its owner agrees: remove {OWNER_GC} from it with an engine"
        command = f"meltline attach {self.name} --despite-gc-disabled --reason TEXT"
        return f"where no other table needs its files: `{command}`"

    @property
    def sentence(self) -> str:
        """The message and the fix in one sentence."""
        return f"{self.name}: {self.message}; {self.fix}"


def guarded_tables(
    context: ReadContext,
    states: Iterable[TableMetadata],
    rows: Sequence[StorageRow] | None = None,
) -> list[GuardedTable]:
    """Selects the given tables of the hot catalog whose owners forbid deletions, by name.

    Args:
        context: The ports.
        states: The tables.
        rows: The storage of the tables; None to compute it.

    Raises:
        CatalogUnlistable: A catalog cannot be listed, so the storage is unknown.
    """
    guards, hot = OwnerGuards.read(context.control.decisions), context.config.hot
    settings = {s.name: guards.of(s) for s in states if s.name.catalog == hot}
    guarded = {name: setting for name, setting in settings.items() if setting}
    if not guarded:
        return []
    stored = storage_rows(totals_now(context)) if rows is None else rows
    history = {row.table: row.historical_bytes or 0 for row in stored}
    return [GuardedTable(name, guarded[name], history.get(name, 0)) for name in sorted(guarded)]
