"""Session of a function call: resolves its names, and holds the ports that it may use.

Functions of this package receive it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from meltline.app.services import OpenServices, ReadContext
from meltline.app.sql.naming import full_table_name
from meltline.domain.chunks.rollup import Rollup
from meltline.domain.errors import UsageInvalid
from meltline.domain.iceberg.names import TableName, split_name
from meltline.domain.iceberg.objects import ObjectName
from meltline.ports import SqlEngine


@dataclass(frozen=True)
class FunctionAnswer:
    """Result of a function.

    Attributes:
        rows: Cells by the function's columns.
        notices: Notices, as LakeTS raises them.
    """

    rows: tuple[tuple[object, ...], ...]
    notices: tuple[str, ...] = ()


def answer_of(value: object, *notices: str) -> FunctionAnswer:
    """Builds a result of one value."""
    return FunctionAnswer(((value,),), notices)


def void(*notices: str) -> FunctionAnswer:
    """Builds a result of an empty text, as Postgres shows `void`."""
    return answer_of("", *notices)


@dataclass(frozen=True)
class Session:
    """The session of a call.

    Attributes:
        context: Ports that need no Spark.
        standing: Completes names.
        services: Opens the services of steps; starts Spark.
        engine: Opens the SQL engine; starts Spark, too.
    """

    context: ReadContext
    standing: ObjectName
    services: OpenServices
    engine: Callable[[], SqlEngine]

    def table(self, text: str, schema: str | None = None) -> TableName:
        """Resolves a table's name, with its schema if that is a separate argument.

        A rollup's own name means its table, unless a table has that name (LT-27).

        Raises:
            UsageInvalid: It is invalid, incomplete, or names two schemas.
        """
        parts = _parts(text)
        if schema is not None:
            if len(parts) > 1:
                raise _two_schemas(text, schema)
            parts = (self.standing.catalog, *_parts(schema), *parts)
        elif (rollup := self._rollup(text)) is not None:
            return rollup.table
        return full_table_name(self.context, self.standing, parts)

    def _rollup(self, name: str) -> Rollup | None:
        for rollup in self.context.control.rollups.all():
            if rollup.name == name:
                namesake = replace(rollup.table, name=name)
                return rollup if self._is_free(namesake) else None
        return None

    def _is_free(self, name: TableName) -> bool:
        return self.context.catalogs[name.catalog].listing().of(name) is None


def _parts(text: str) -> tuple[str, ...]:
    try:
        return split_name(text)
    except ValueError as error:
        raise UsageInvalid(
            f"{text!r} is not a name",
            object=text,
            expected="a table, schema.table or catalog.schema.table",
            found=str(error),
            next="names with other signs stand in backticks",
        ) from error


def _two_schemas(text: str, schema: str) -> UsageInvalid:
    return UsageInvalid(
        f"{text} says its schema already",
        object=text,
        expected="the schema in the name, or in p_schema_name",
        found=f"both: {text} and {schema}",
        next="leave one of them out",
    )
