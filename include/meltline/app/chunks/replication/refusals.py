"""Errors that stop replication, each with the step that resumes it.

Passes, the union read and declarations raise them. They are in one module because the ledger stores
their reasons, and the next pass reads these.
"""

from collections.abc import Collection, Sequence

from meltline.domain.chunks.chunk import Deferral
from meltline.domain.chunks.cold.cold_rows import COLD_CHANGED
from meltline.domain.chunks.sync import LARGE_DELETES, MIXED_FILES, SyncState, TableSync
from meltline.domain.errors import SyncRefused
from meltline.domain.iceberg.names import TableName
from meltline.domain.safe_text import quote
from meltline.domain.units import counted

_A_PERSON_DECIDES = frozenset({str(Deferral.DIVERGED), LARGE_DELETES})


def refusal(reason: str, message: str, **words: str) -> SyncRefused:
    """Builds an error whose reason the ledger stores."""
    error = SyncRefused(message, **words)
    error.reason = reason
    return error


def diverged(table: TableName, detail: str, way_out: str = "") -> SyncRefused:
    """Error for hot and cold that no longer match: only an operator may begin again."""
    return refusal(
        Deferral.DIVERGED,
        f"{table} and its copy in cold have parted: {detail}",
        object=str(table),
        expected="a main line that goes on from what cold has",
        found=detail,
        next=way_out or _BEGIN_ANEW.format(quote(table)),
    )


_BEGIN_ANEW = (
    "`meltline chunks sync {}` copies and verifies everything anew in a new generation; "
    "cold keeps what was dropped"
)


def replaced_way_out(table: TableName) -> str:
    """Explains how to resume after a table was replaced by one that cold cannot follow."""
    return (
        f"`meltline chunks sync {quote(table)} --to NAME` begins anew under another name in cold; "
        "what cold has under the old one stays there, with its own columns, and is no part of the "
        "table any more"
    )


def cold_changed(table: TableName, cold: TableName, differences: Sequence[str]) -> SyncRefused:
    """Error for cold with other rows of dropped chunks than recorded: others have written there."""
    return refusal(
        COLD_CHANGED,
        f"{cold} has other rows of {counted(len(differences), 'dropped chunk')} than it had",
        object=str(cold),
        expected="the rows that were recorded at the drops",
        found="; ".join(sorted(differences)[:_SHOWN]),
        next="find out who writes to cold, and set it back to a snapshot from before; if it is "
        f"right as it is: `meltline chunks accept {quote(table)} --reason TEXT`",
    )


def unknown_drops(table: TableName, chunks: Collection[str]) -> SyncRefused:
    """Error for chunks whose rows in hot may or may not be those of cold."""
    names = sorted(chunks)
    return refusal(
        Deferral.UNKNOWN_DROP,
        f"{counted(len(names), 'chunk')} of {table}: hot and cold have rows, and nothing shows any "
        "more whether the drop is in force on main",
        object=str(table),
        expected="drops that main's history, or the ledger, shows to be in force or undone",
        found=", ".join(names[:_SHOWN]) + ("" if len(names) <= _SHOWN else " …"),
        next=f"`meltline chunks settle {quote(table)}` shows the evidence and takes the answer",
    )


_SHOWN = 3


def mixed_files(table: TableName, chunks: Collection[str]) -> SyncRefused:
    """Error for dropped and late rows that a compaction of cold has mixed inseparably."""
    return refusal(
        MIXED_FILES,
        f"{counted(len(chunks), 'chunk')} of {table}: a compaction of cold has mixed dropped and "
        "late rows, and hot's history up to which cold had them has expired",
        object=str(table),
        expected="hot's snapshot at cold's position",
        found=f"chunks {', '.join(sorted(chunks)[:_SHOWN])}",
        next="copy hot's rows of these chunks to another table and delete them in hot; then "
        f"`meltline chunks replicate --tables {quote(table)} --deletes keep` leaves in cold all "
        "that it has of them; insert what `_all` of the table lacks of the copied rows",
    )


def waits_for_a_person(sync: TableSync, *, deletes_decided: bool) -> bool:
    """Whether a pass would only fail again."""
    if sync.state is not SyncState.FAILED or sync.reason not in _A_PERSON_DECIDES:
        return False
    return not (deletes_decided and sync.reason == LARGE_DELETES)


def standing(sync: TableSync) -> SyncRefused:
    """Error of a failed replication, repeated by each pass."""
    ways = {LARGE_DELETES: deletes_way_out(sync.table)}
    return refusal(
        sync.reason,
        sync.detail or f"replication of {sync.table} has stopped",
        object=str(sync.table),
        expected="a person's decision",
        found=sync.reason,
        next=ways.get(sync.reason, _BEGIN_ANEW.format(quote(sync.table))),
    )


def deletes_way_out(table: TableName) -> str:
    """Explains how an operator decides about large deletes."""
    return (
        f"`meltline chunks replicate --tables {quote(table)} --deletes mirror` has cold delete "
        "them too; "
        "`--deletes keep` leaves them in cold"
    )
