"""SQL statements of Snowflake, MotherDuck and Artemis that Spark lacks, over plain Iceberg.

`app/sql` parses each statement with it. It is a small grammar on sqlglot's tokenizer with Spark's
quoting: it reads the statements that Spark does not have, finds the time-travel clauses of the
others, and changes nothing else.
"""

from meltline.grammar.parse import parse
from meltline.grammar.statements import Statement

__all__ = ["Statement", "parse"]
