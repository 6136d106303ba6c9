"""Refuses statements that write to the archive's catalog; reading from it is allowed (AR-34).

A session that a process or a notebook has used before may know that catalog. The only copy of
dropped chunks lies there, and of archived history.
"""

from collections.abc import Iterator

from meltline.app.services import ReadContext
from meltline.app.sql.naming import container_name
from meltline.domain.errors import CatalogReadOnly
from meltline.domain.iceberg.names import quote_part
from meltline.domain.iceberg.objects import ObjectName
from meltline.grammar.references import (
    executed_in,
    is_worked_out,
    names_in,
    tables_read,
    texts_in,
)
from meltline.grammar.statements import Name
from meltline.grammar.tokens import tokens_of
from meltline.grammar.writes import BEGINNINGS, writes_of

_READS = frozenset(
    {"SELECT", "TABLE", "VALUES", "(", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "USE", "REFRESH"}
)
"""First words of statements that change nothing in a catalog."""
_MAKES = frozenset({"CREATE", "REPLACE", "CACHE"})
"""First words of statements that may read the archive to make something elsewhere."""


def require_archive_unchanged(
    context: ReadContext, standing: ObjectName, text: str, kind: str
) -> None:
    """Refuses a statement that may change what is in the archive's catalog.

    Of a statement that is no query and no change of rows, every name counts that it does not read.
    EXECUTE IMMEDIATE counts as the statement that it carries out. What Spark works out of several
    texts or of variables is refused: it may be the archive's name.

    Args:
        context: Which catalog the archive is.
        standing: Completes the statement's names.
        text: The statement.
        kind: Its first word.

    Raises:
        CatalogReadOnly: It names the archive, or may.
    """
    cold = context.config.cold
    if not cold or kind in _READS:
        return
    if kind not in BEGINNINGS and standing.catalog == cold:
        raise _refusal(cold)
    for executed in executed_in(text):
        first = tokens_of(executed)[0].text.upper()
        require_archive_unchanged(context, standing, executed, first)
    names = list(_changed(text, kind))
    for name in filter(None, names):
        if cold in (name[0], container_name(context, standing, name).catalog):
            raise _refusal(".".join(map(quote_part, name)))
    if kind in BEGINNINGS and all(names):
        return
    if is_worked_out(text):
        raise _refusal(cold, "a name or a statement that Spark works out")
    starts = tuple(f"{name}." for name in (cold, context.config.catalogs[cold].catalog_name))
    for said in texts_in(text):  # a name that Spark works out may be in a text
        if said.replace("`", "").startswith(starts):
            raise _refusal(said)


def _changed(text: str, kind: str) -> Iterator[Name]:
    """Yields the names of what a statement may change; empty where Spark works a name out."""
    if kind in BEGINNINGS:
        yield from (write.target for write in writes_of(text))
        return
    read = {reference.start for reference in tables_read(text)} if kind in _MAKES else set[int]()
    yield from (name for start, name in names_in(text) if start not in read)


def _refusal(name: str, found: str = "a statement that may change the archive") -> CatalogReadOnly:
    return CatalogReadOnly(
        f"{name} is in the archive, where SQL only reads",
        object=name,
        expected="a statement that reads the archive, or changes another catalog",
        found=found,
        next="`meltline cold list` and `meltline chunks status` show what cold has; copy rows to "
        "a table of another catalog to change them",
    )
