"""Commands for leases: lease acquire, renew, release, list.

`commands` loads it by name.
"""

from datetime import timedelta
from typing import Annotated

import typer

from meltline.app.catalog.resolve import parse_table_name
from meltline.app.retention.leases import acquire_lease, living_leases, release_lease, renew_lease
from meltline.cli.options import AsJson, ConfigPath, TableArgument, duration, ready
from meltline.cli.output import answer, answer_rows
from meltline.domain.units import format_duration, format_instant
from meltline.ports import Lease

Id = Annotated[str, typer.Argument(metavar="ID", help="as `lease list` shows it")]


def lease_acquire(
    table: TableArgument,
    ttl: Annotated[str, typer.Option("--ttl", metavar="1h", help="how long, unless renewed")],
    config: ConfigPath = None,
    as_json: AsJson = False,
    snapshot: Annotated[
        int | None, typer.Option("--snapshot", metavar="ID", help="default: the current snapshot")
    ] = None,
) -> int:
    """Keep a snapshot while it is being read, for a limited time."""
    lasting = duration(ttl, "--ttl")
    lease = acquire_lease(ready(config), parse_table_name(table), snapshot, lasting)
    words = f"{lease.id} keeps snapshot {lease.snapshot_id} of {lease.table}"
    return _print_lease(lease, words, as_json)


def lease_renew(id: Id, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """Renew a lease for its full duration."""
    lease = renew_lease(ready(config), id)
    return _print_lease(lease, f"{lease.id} is renewed", as_json)


def lease_release(id: Id, config: ConfigPath = None, as_json: AsJson = False) -> int:
    """End a lease at once."""
    lease = release_lease(ready(config), id)
    line = f"{lease.id} no longer keeps snapshot {lease.snapshot_id} of {lease.table}."
    return answer({**_document(lease), "released": True}, [line], as_json=as_json)


def lease_list(config: ConfigPath = None, as_json: AsJson = False) -> int:
    """List the leases that have not ended, the first to end first."""
    leases = living_leases(ready(config))
    rows = [
        [
            lease.id,
            lease.table,
            str(lease.snapshot_id),
            format_instant(lease.expires_at),
            format_duration(timedelta(milliseconds=lease.ttl_ms)),
            lease.who,
        ]
        for lease in leases
    ]
    document = {"leases": [_document(lease) for lease in leases]}
    columns = ("id", "table", "snapshot", "until", "ttl", "who")
    return answer_rows(document, columns, rows, as_json=as_json)


def _print_lease(lease: Lease, words: str, as_json: bool) -> int:
    line = f"{words} until {format_instant(lease.expires_at)}."
    return answer(_document(lease), [line], as_json=as_json)


def _document(lease: Lease) -> dict[str, object]:
    return {
        "id": lease.id,
        "table": lease.table,
        "snapshot_id": lease.snapshot_id,
        "expires_at": lease.expires_at,
        "ttl": format_duration(timedelta(milliseconds=lease.ttl_ms)),
        "who": lease.who,
    }
