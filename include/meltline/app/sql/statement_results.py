"""Results of statements as rows or frames, with their warnings.

All modules of `app/sql` return them, and the command and the Python API show them.
"""

from dataclasses import dataclass

from meltline.domain.errors import StatementUnsupported
from meltline.ports import ReadColumn, ReadRows


@dataclass(frozen=True)
class StatementResult:
    """Result of a statement.

    Attributes:
        statement_id: Its id for AT and BEFORE; empty if it needs no Spark.
        read: Its rows, if they were fetched.
        frame: Spark's DataFrame, if they were not.
        unreadable: Tables that a listing had to leave out.
        warnings: Risks of the change.
        exit_code: Exit code for the command, if some of it failed.
    """

    statement_id: str = ""
    read: ReadRows | None = None
    frame: object = None
    unreadable: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int = 0


def status(*lines: str) -> StatementResult:
    """Builds a result with one column of status lines."""
    return StatementResult(
        read=ReadRows((ReadColumn("status", "string"),), tuple((x,) for x in lines))
    )


def unsupported(subject: str) -> StatementUnsupported:
    """Error for a statement that is parsed, but not supported in this release."""
    return StatementUnsupported(
        f"{subject}: the statement is understood, but not supported in this release",
        object=subject,
        expected="a statement that docs/sql.md lists as supported",
        found=subject,
        next="nothing was done; `meltline --help` lists what there is",
    )
