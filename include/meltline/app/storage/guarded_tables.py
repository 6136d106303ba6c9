"""Guarded tables: what the settings of owners keep, and how a person overrides them.

Read by `storage`, `explain` and `doctor`. Which settings count is decided in
`catalog/owner_guards`.
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
        setting: The property by which.
        kept_bytes: What no head of the table needs.
    """

    name: TableName
    setting: str
    kept_bytes: int

    @property
    def message(self) -> str:
        """What the setting keeps."""
        return f"its owner set {self.setting}=false: {format_size(self.kept_bytes)} of history stay"

    @property
    def fix(self) -> str:
        """How a person has Meltline delete all the same."""
        if self.setting == OWNER_GC:
            return f"if its owner agrees: remove {OWNER_GC} from it with an engine"
        command = f"meltline attach {self.name} --despite-gc-disabled --reason TEXT"
        return f"where no other table needs its files: `{command}`"

    @property
    def sentence(self) -> str:
        """All of it."""
        return f"{self.name}: {self.message}; {self.fix}"


def guarded_tables(
    context: ReadContext,
    states: Iterable[TableMetadata],
    rows: Sequence[StorageRow] | None = None,
) -> list[GuardedTable]:
    """Those of some tables of the hot catalog whose owners forbid deletions, by name.

    Args:
        context: Where the records are.
        states: The tables.
        rows: What tables store; None where that is to be computed.

    Raises:
        CatalogUnlistable: What is stored is not known.
    """
    guards, hot = OwnerGuards.read(context.control.decisions), context.config.hot
    settings = {s.name: guards.of(s) for s in states if s.name.catalog == hot}
    guarded = {name: setting for name, setting in settings.items() if setting}
    if not guarded:
        return []
    stored = storage_rows(totals_now(context)) if rows is None else rows
    history = {row.table: row.historical_bytes or 0 for row in stored}
    return [GuardedTable(name, guarded[name], history.get(name, 0)) for name in sorted(guarded)]
