"""Commands for the status of chunks, from the ledger and without a JVM: chunks status, list.

`commands` loads it by name.
"""

from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.chunks.reading.status import ChunkLine, TieringStatus, tiering_status
from meltline.app.chunks.reading.status import list_chunks as chunks_of
from meltline.app.run_request import globs
from meltline.cli.options import AsJson, ConfigPath, TableArgument, ready
from meltline.cli.output import answer_rows, print_notes, shown_instant
from meltline.domain.units import counted, format_instant, format_size

Globs = Annotated[
    str, typer.Argument(metavar="[TABLES]", help="globs over catalog.namespace.table; else all")
]
_DAY = 24 * 60 * 60


def status(tables: Globs = "", config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Show tables with chunks: replication, pending chunks, freed bytes."""
    lines = tiering_status(ready(config), globs(tables))
    columns = (
        "table",
        "policies",
        "cold",
        "caught up",
        "lag",
        "active",
        "tiered",
        "dropped",
        "reopened",
        "unknown",
        "pending",
        "reclaimable",
        "on disk",
        "freed",
        "last run",
        "came to",
    )
    code = answer_rows(
        {"tables": lines},
        columns,
        [_row(line) for line in lines],
        as_json=as_json,
        nothing="No table is cut into chunks: `meltline chunks sync TABLE`, or give it a policy.",
    )
    if not as_json:
        print_notes([f"{line.table}: {line.problem}" for line in lines if line.problem])
    return code if lines or not tables else 4


def _row(line: TieringStatus) -> list[str]:
    return [
        line.table,
        line.after or "-",
        line.cdf_status,
        "yes" if line.caught_up else "no",
        "-" if line.lag is None else str(line.lag),
        str(line.active_chunks),
        str(line.tiered_chunks),
        str(line.dropped_chunks),
        str(line.reopened_chunks),
        str(line.unknown_chunks),
        _pending(line),
        format_size(line.reclaimable_bytes),
        _on_disk(line),
        format_size(line.reclaimed_bytes),
        shown_instant(line.last_run_at),
        line.last_run or "-",
    ]


def _pending(line: TieringStatus) -> str:
    """Formats pending chunks, and for how many days the oldest has been pending."""
    if not line.pending_chunks:
        return "-"
    late = counted(line.pending_lag_seconds // _DAY, "day")
    return f"{line.pending_chunks}, {format_size(line.pending_bytes)}, {late} late"


def _on_disk(line: TieringStatus) -> str:
    """Formats bytes that were dropped and not deleted yet, with the reason."""
    if not line.on_disk_bytes:
        return "-"
    until = f"until {format_instant(line.on_disk_until)}" if line.on_disk_until else "in history"
    return f"{format_size(line.on_disk_bytes)} {until}"


def list_chunks(table: TableArgument, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """List a table's chunks, oldest first, each with its reason to wait."""
    name = parse_table_name(table)
    lines = chunks_of(ready(config), name)
    return answer_rows(
        {"table": str(name), "chunks": [_document(line) for line in lines]},
        ("chunk", "status", "rows", "bytes", "files", "tiered", "dropped", "waits"),
        [_chunk_row(line) for line in lines],
        as_json=as_json,
        title=str(name),
        nothing=f"{name} has no chunk yet.",
    )


def _chunk_row(line: ChunkLine) -> list[str]:
    chunk, waits = line.chunk, line.waits
    return [
        chunk.name,
        f"{chunk.status}, bytes kept by {'; '.join(line.kept_by)}"
        if line.kept_by
        else str(chunk.status),
        str(chunk.rows),
        format_size(chunk.bytes),
        str(chunk.files),
        shown_instant(chunk.tiered_at),
        shown_instant(chunk.dropped_at),
        f"{waits.reason} {waits.detail}".strip() if waits else "-",
    ]


def _document(line: ChunkLine) -> dict[str, object]:
    chunk, waits = line.chunk, line.waits
    return {
        "chunk": chunk.name,
        "status": str(chunk.status),
        "start": chunk.start,
        "end": chunk.end,
        "rows": chunk.rows,
        "bytes": chunk.bytes,
        "files": chunk.files,
        "spans": chunk.spans,
        "last_write": chunk.last_write,
        "last_write_snapshot": chunk.last_write_snapshot,
        "generation": chunk.generation,
        "tiered_at": chunk.tiered_at,
        "dropped_at": chunk.dropped_at,
        "drop_plan": chunk.drop_plan or None,
        "kept_by": list(line.kept_by),
        "waits": {"reason": str(waits.reason), "detail": waits.detail} if waits else None,
    }
