"""A lake in memory with a table of days, and somebody who calls functions of lakets there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meltline.app.services import RunContext
from meltline.app.sql.statement_results import StatementResult
from meltline.app.sql.statements import StatementRequest, run_statement
from meltline.domain.iceberg.objects import ObjectName
from meltline.ports import SqlEngine
from tests.chunks.chunk_tables import ChunkTable, chunk_table, reading
from tests.chunks.chunked_lake import ChunkedLake

DAYS = 6


@dataclass
class LaketsSession:
    """Table `lake.air.metrics` with two rows of each of six days; nobody has synced it.

    Attributes:
        opened: For what Spark was started.
    """

    lake: ChunkedLake = field(default_factory=lambda: ChunkedLake(has_cold=True, sandbox=True))
    standing: ObjectName = field(default_factory=lambda: ObjectName("lake", ("air",)))
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.lake.uuid:
            self.lake.on(DAYS)
            self.lake.uuid = chunk_table(self.lake, "lake.air.metrics").uuid
            rows = [reading(id, id // 2) for id in range(2 * DAYS)]
            self.hot.append_rows(*rows)
            self.lake.accepted.rows |= set(rows)

    @property
    def hot(self) -> ChunkTable:
        assert self.lake.hot is not None
        return self.lake.hot

    def at(self, *names: str) -> "LaketsSession":
        """The same from elsewhere."""
        return replace(self, standing=ObjectName(names[0], names[1:]))

    def services(self, app: str, run_id: str = "", *, judges: bool = False) -> RunContext:
        self.opened.append(app)
        return self.lake.services(run_id=run_id)

    def __call__(self, text: str) -> StatementResult:
        def engine() -> SqlEngine:
            raise AssertionError("SQL was sent to Spark")

        request = StatementRequest(text, self.standing)
        return run_statement(self.lake.services(), engine, request, self.services)

    def rows(self, text: str) -> Sequence[Mapping[str, Any]]:
        """The answer, each row by its columns."""
        read = self(text).read
        assert read is not None
        names = [column.name for column in read.columns]
        return [dict(zip(names, row, strict=True)) for row in read.rows]

    def value(self, call: str) -> object:
        """SELECT lakets.call: its one value, in a column of the function's name."""
        (row,) = self.rows(f"SELECT lakets.{call}")
        ((column, value),) = row.items()
        assert column == call.partition("(")[0]
        return value

    def notices(self, call: str) -> str:
        return "\n".join(self(f"SELECT lakets.{call}").warnings)

    def statuses(self) -> list[str]:
        """Of the chunks of days 0 to 5."""
        return [str(chunk.status) for _, chunk in sorted(self.lake.chunks().items())]
