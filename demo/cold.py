"""The archive, shown to stand alone: a snapshot read from it with the hot warehouse taken away."""

from collections.abc import Iterator
from contextlib import contextmanager

from demo.place import Place
from meltline.adapters.spark.row_comparer import SparkRowComparer
from meltline.adapters.spark.session import open_session
from meltline.app.archive.cold_status import cold_list
from meltline.app.archive.cold_verify import cold_verify
from meltline.app.services import ReadContext
from meltline.domain.iceberg.names import TableName
from meltline.domain.units import format_instant, format_size


def print_cold(ledgers: ReadContext, place: Place, table: str) -> None:
    """Opens the oldest copy of a table, and reads every row of it, with hot renamed away."""
    config, name = ledgers.config, TableName.parse(table)
    copies = cold_list(ledgers, name)
    oldest = copies[0]
    spark = open_session(config, "demo")
    rows = SparkRowComparer(spark, config.catalogs, config.catalogs[config.cold].warehouse)
    with hidden(place):
        (found,) = cold_verify(ledgers, name, oldest.snapshot_id, rows.count)
    spark.stop()
    state = "; ".join(found.problems) or f"whole, {found.files} files, {found.rows_read} rows read"
    when = format_instant(oldest.committed_at)
    taken = format_size(sum(copy.bytes_copied for copy in copies))
    print(
        f"\nThe archive: {len(copies)} snapshots of {table}, {taken}. With the hot warehouse\n"
        f"renamed away, the oldest of them ({oldest.snapshot_id}, {when}) is\n{state}.\n"
        f"  setup/run meltline cold list {table}"
    )


@contextmanager
def hidden(place: Place) -> Iterator[None]:
    """Takes the hot warehouse away, for a while."""
    place.warehouse.rename(place.hidden)
    try:
        yield
    finally:
        place.hidden.rename(place.warehouse)
