"""What is told of an error that nobody has caught."""

import pytest

from meltline.cli.unforeseen import unforeseen

TRACE = """An error occurred while calling o64.sql.
: org.apache.iceberg.jdbc.UncheckedSQLException: Failed to get table n.t from catalog lake
\tat org.apache.iceberg.jdbc.JdbcTableOperations.doRefresh(JdbcTableOperations.java:79)
Caused by: org.postgresql.util.PSQLException: Connection refused.
\tat org.postgresql.core.PGStream.receiveChar(PGStream.java:482)
\t... 17 more
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (TRACE, "org.postgresql.util.PSQLException: Connection refused."),
        (
            TRACE.partition("Caused")[0],
            "org.apache.iceberg.jdbc.UncheckedSQLException: Failed to get table n.t from catalog "
            "lake",
        ),
        ("one\ntwo", "one"),
        ("", ""),
    ],
    ids=["a cause", "no cause", "no trace", "nothing"],
)
def test_of_a_trace_of_java_the_cause_is_told_and_else_the_first_line(
    words: str, told: str
) -> None:
    error = unforeseen(ValueError(words))
    assert error.found == told and error.object == "ValueError"
