"""The SQL that people know from Snowflake, MotherDuck and Artemis, over plain Iceberg and Spark.

A small grammar of ours on sqlglot's tokenizer with Spark's quoting. It reads the statements that
Spark does not have, finds the time-travel clauses of those it has, and changes nothing else.
"""

from meltline.grammar.parse import parse
from meltline.grammar.statements import Statement

__all__ = ["Statement", "parse"]
