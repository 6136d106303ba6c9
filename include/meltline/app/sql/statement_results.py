"""What a statement comes to."""

from dataclasses import dataclass

from meltline.domain.errors import StatementUnsupported
from meltline.ports import ReadColumn, ReadRows


@dataclass(frozen=True)
class StatementResult:
    """What a statement came to.

    Attributes:
        statement_id: By which AT and BEFORE know it; empty of a statement that needs no Spark.
        read: Its rows, where they were fetched.
        frame: Spark's own answer, where they were not.
        unreadable: Tables that a listing had to leave out.
        warnings: What is risky about what was done.
        exit_code: Of a command that carried it out, where it was not all done.
    """

    statement_id: str = ""
    read: ReadRows | None = None
    frame: object = None
    unreadable: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    exit_code: int = 0


def status(*lines: str) -> StatementResult:
    """What was done, in one column: a row for each line."""
    return StatementResult(
        read=ReadRows((ReadColumn("status", "string"),), tuple((x,) for x in lines))
    )


def unsupported(subject: str) -> StatementUnsupported:
    """The error for what is understood and comes later."""
    return StatementUnsupported(
        f"{subject}: the statement is understood, but not supported in this release",
        object=subject,
        expected="a statement that docs/sql.md lists as supported",
        found=subject,
        next="nothing was done; `meltline --help` lists what there is",
    )
