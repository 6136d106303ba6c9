"""Doctor's findings about drops: catalogs and tables where a plain DROP deletes files.

`doctor` calls it, to recommend `meltline drop` there.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from meltline.app.safety.findings import Finding
from meltline.app.services import ReadContext
from meltline.domain.drop.drops import is_dropped_name, read_drop
from meltline.domain.iceberg.locations import claim_prefix
from meltline.domain.iceberg.table_metadata import TableMetadata

_SHOWN = 3
_GC = "gc.enabled"
_HIVE_PURGE = "external.table.purge"


def drop_risks(context: ReadContext, states: Sequence[TableMetadata]) -> Iterable[Finding]:
    """Finds risks of plain drops in the readable tables."""
    for name, catalog in context.config.catalogs.items():
        own = [s for s in states if s.name.catalog == name]
        if catalog.type == "rest" and own:
            yield Finding(
                "info",
                "drop_may_delete",
                name,
                "its server decides whether a plain DROP TABLE deletes files",
                "use `meltline drop`, or set the server to keep them",
            )
        yield from _purgeable(name, own)
    ended = _kept_by_refs(states, context.clock.now())
    yield from chain(_sharing_folders(states), _without_facts(states), ended)


def _purgeable(catalog: str, states: Sequence[TableMetadata]) -> Iterable[Finding]:
    live = [s for s in states if not is_dropped_name(s.name.namespace)]
    plain = [s for s in live if s.properties.get(_HIVE_PURGE, "").strip().lower() == "true"]
    if plain:
        yield Finding(
            "info",
            "drop_deletes",
            catalog,
            f"{_HIVE_PURGE}=true: a plain DROP TABLE deletes the files of {_names(plain)}",
            f"use `meltline drop`; or set {_HIVE_PURGE}=false on them",
        )
    open_ones = [s for s in live if s.properties.get(_GC, "true").strip().lower() != "false"]
    if open_ones:
        yield Finding(
            "info",
            "drop_purge_deletes",
            catalog,
            "DROP TABLE … PURGE, and in some engines a plain DROP TABLE, deletes the files of "
            f"{_names(open_ones)}",
            f"use `meltline drop`; {_GC}=false on a table stops the PURGE of Spark, and Meltline "
            "only observes it then",
        )


def _sharing_folders(states: Sequence[TableMetadata]) -> Iterable[Finding]:
    """A table that was created under a dropped one's name, in the same folder (TT-41)."""
    dropped = {
        claim_prefix(state.location): state
        for state in states
        if is_dropped_name(state.name.namespace)
    }
    for state in states:
        dropped_table = dropped.get(claim_prefix(state.location))
        if dropped_table is not None and dropped_table.uuid != state.uuid:
            yield Finding(
                "info",
                "folder_of_a_dropped_table",
                str(state.name),
                f"it lies in the folder of a dropped table, {dropped_table.name}",
                "nothing is mixed up; set unique-table-location=true on the engines' catalog, so "
                "that each new table gets a folder of its own",
            )


def _without_facts(states: Sequence[TableMetadata]) -> Iterable[Finding]:
    for state in states:
        if not is_dropped_name(state.name.namespace):
            continue
        if read_drop(state.name.catalog, state.properties) is None:
            yield Finding(
                "info",
                "dropped_without_facts",
                str(state.name),
                "it stands among the dropped tables and does not say what it was: it is kept",
                "move it back with an engine's ALTER TABLE … RENAME TO, then `meltline drop` it",
            )


def _kept_by_refs(states: Sequence[TableMetadata], now: datetime) -> Iterable[Finding]:
    """Dropped tables past undrop and retention that a tag keeps from being finalized."""
    for state in states:
        drop = read_drop(state.name.catalog, state.properties)
        tags = sorted(ref.name for ref in state.refs.values() if not ref.is_branch)
        if is_dropped_name(state.name.namespace) and drop and drop.is_over(now) and tags:
            yield Finding(
                "info",
                "dropped_but_tagged",
                str(state.name),
                f"it was {drop.object}, its retention has ended, and tags keep parts of it: "
                f"{', '.join(tags[:_SHOWN])}",
                f"`ALTER TABLE {state.name} DROP TAG …` with an engine, if nobody needs them",
            )


def _names(states: Sequence[TableMetadata]) -> str:
    names = sorted(str(state.name) for state in states)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
