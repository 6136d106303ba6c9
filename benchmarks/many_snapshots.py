"""The benchmark many-snapshots: 30 days of 80,000 commits a day, planned in one run (AR-52).

The fleet's metadata is synthetic: real metadata files of a real table with one commit, and as many
snapshots written into them as are wanted. Their manifest lists do not exist and are not read.
"""

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid5

from benchmarks.bench import Bench
from benchmarks.history import create_table
from benchmarks.lakes import SPACE, TODAY, Lake
from benchmarks.results import Figure, Outcome
from benchmarks.sides import BARE, Run, Stopwatch
from benchmarks.staging import Document, read_document, rows
from benchmarks.watch import watching
from meltline.app.catalog.metadata import load_states
from meltline.app.catalog.tables import keep_sets, observed_table
from meltline.domain.iceberg.table_metadata import TableMetadata
from meltline.domain.units import to_millis

_DAYS = 30
MANY_WINDOW = timedelta(days=7)
_GIB = 1024**3
_MOST_GIB = 4.0
_LEFT_OUT = (
    "left out: reading the manifest lists and manifests of these snapshots, finding the files "
    "that depart, storing the plan and applying it; a first run pays for the reading once, a daily "
    "one for its day's commits"
)


@dataclass(frozen=True)
class Shape:
    """How many tables have how many snapshots each: few long histories, many shorter ones."""

    long: int
    long_snapshots: int
    short: int
    short_snapshots: int

    @classmethod
    def of(cls, scale: float) -> "Shape":
        """240 tables with 2.4 M snapshots at scale 1, none with more than 100,000."""
        root = math.sqrt(scale)
        return cls(
            max(1, round(8 * root)), round(100_000 * root),
            max(3, round(232 * root)), round(6_900 * root),
        )  # fmt: skip

    @property
    def snapshots(self) -> int:
        """All of them."""
        return self.long * self.long_snapshots + self.short * self.short_snapshots

    def counts(self) -> Iterator[int]:
        """The snapshots of each table, a long history after every so many short ones."""
        every = -(-self.short // self.long)
        for number in range(self.short):
            if number % every == 0:
                yield self.long_snapshots
            yield self.short_snapshots


def run_many_snapshots(bench: Bench) -> list[Outcome]:
    """Loads the fleet's metadata, computes every keep set, and names what is expired."""
    shape = Shape.of(bench.scale)
    bench.say(f"many-snapshots: writing the metadata of {shape.snapshots:,} snapshots")
    lake = Lake(bench.place("many"), "many", bench.spark, MANY_WINDOW).create()
    with lake.in_place():
        counts = list(shape.counts())
        expected = write_tables(lake, counts)
        lake.init()
        bench.say("  planning")
        run, found = _plan(bench, lake)
        bench.say("  reading some of it with stock Iceberg")
        _require_as_written(lake, counts)
    tables = len(counts)
    assert found == expected, f"expected {expected} expired, found {found}"
    bench.remove({BARE: lake})
    together = run.seen.peak_bytes["together"] / _GIB
    figures = (
        Figure("many snapshots, peak memory", together, _MOST_GIB, "GiB", at_most=True),
        Figure("many snapshots, planned per second", sum(counts) / run.seconds, None, "/s"),
    )
    size = f"{sum(counts):,} snapshots in {tables} tables, {found:,} of them expired"
    outcome = Outcome("many-snapshots", bench.scale, size, figures, (run,), notes=(_LEFT_OUT,))
    return [outcome]


def _plan(bench: Bench, lake: Lake) -> tuple[Run, int]:
    lake.clock.moment = TODAY
    services = lake.services(bench.detail)
    watch = Stopwatch()
    with watching(lake.metadata_folders()) as watched:
        with watch.timing("load metadata"):
            listing = services.catalogs[lake.name].listing()
            entries = [e for e in listing.entries if e.name.namespace == (SPACE,)]
            states = load_states(services.store, entries).values()
            read = [state for state in states if isinstance(state, TableMetadata)]
            assert len(read) == len(entries), "a table could not be read"
        with watch.timing("keep sets"):
            observed = [observed_table(services, state, listing) for state in read]
            kept = keep_sets(services, observed, TODAY)
        with watch.timing("expired ids"):
            expired = {(k.table.state.uuid, sid) for k in kept for sid in k.keeps.expired}
    did = f"{len(expired):,} snapshots to expire"
    return Run(BARE, watch.seconds, watch.parts, watched.seen, did), len(expired)


# --- the fleet ---------------------------------------------------------------------------------


def write_tables(lake: Lake, counts: list[int]) -> int:
    """Writes and registers the tables; returns how many snapshots the window does not promise."""
    create_table(lake, "model")
    lake.spark.sql(f"INSERT INTO {lake.table('model')} VALUES (1)")
    location = rows(lake.db)[f"{SPACE}.model"]
    model = read_document(location)
    registered = []
    for number, count in enumerate(counts):
        name = f"m{number:03d}"
        head = f"{lake.place}/{SPACE}/{name}/metadata/00001-{_uuid(name)}.metadata.json"
        Path(head).parent.mkdir(parents=True)
        write_metadata(Path(head), model, f"file://{lake.place}/{SPACE}/{name}", name, count)
        registered.append((lake.name, SPACE, name, f"file://{head}"))
    with closing(sqlite3.connect(lake.db)) as connection, connection:
        connection.executemany(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location, iceberg_type) VALUES (?, ?, ?, ?, 'TABLE')",
            registered,
        )
    lake.spark.sql(f"DROP TABLE {lake.table('model')}")
    return sum(expired_among(count) for count in counts)


def _require_as_written(lake: Lake, counts: list[int]) -> None:
    """Reads three of the tables with stock Iceberg; only now, as that takes memory of its own."""
    for number in {0, 1, len(counts) - 1}:
        name = lake.table(f"m{number:03d}")
        found = lake.spark.sql(f"SELECT count(*) FROM {name}.snapshots").collect()[0][0]
        assert found == counts[number], f"{name}: expected {counts[number]}, found {found}"


def _uuid(name: str) -> UUID:
    return uuid5(UUID(int=0), name)


def first_id(name: str) -> int:
    """The id of a table's first snapshot; the others' follow. Of 62 bits, far apart by table."""
    return (_uuid(name).int >> 86) << 20


def manifest_list_of(name: str, id: str) -> str:
    """What the manifest list of a table's snapshot is called."""
    return f"snap-{id}-1-{_uuid(name)}.avro"


def _millis(count: int) -> list[int]:
    """Commits lie evenly over the days before today."""
    newest, apart = to_millis(TODAY), _DAYS * 86_400_000 / count
    return [newest - int(apart * (count - position - 0.5)) for position in range(count)]


def expired_among(count: int) -> int:
    """Those whose successor came before the window."""
    start = to_millis(TODAY - MANY_WINDOW)
    return sum(successor < start for successor in _millis(count)[1:])


def write_metadata(target: Path, model: Document, location: str, name: str, count: int) -> None:
    """Writes snapshot after snapshot, so that a long history needs no memory here."""
    base = first_id(name)
    times = _millis(count)
    document = {
        **model,
        "table-uuid": str(_uuid(name)),
        "location": location,
        "last-sequence-number": count,
        "current-snapshot-id": base + count - 1,
        "last-updated-ms": times[-1],
        "refs": {"main": {"snapshot-id": base + count - 1, "type": "branch"}},
        "metadata-log": [],
        "snapshots": "SNAPSHOTS",
        "snapshot-log": "LOG",
    }
    before, _, rest = json.dumps(document).partition('"SNAPSHOTS"')
    between, _, after = rest.partition('"LOG"')
    first, later = _snapshot_forms(model["snapshots"][0], location, name)
    with target.open("w", encoding="utf-8") as out:
        out.write(f"{before}[{first % (1, base, times[0], base)}")
        out.writelines(
            later % (position + 1, base + position, times[position], base + position - 1,
                     base + position)
            for position in range(1, count)
        )  # fmt: skip
        out.write(f"]{between}[")
        log = '{"timestamp-ms": %d, "snapshot-id": %d}'
        out.write(log % (times[0], base))
        out.writelines(f", {log}" % (times[at], base + at) for at in range(1, count))
        out.write(f"]{after}")


def _snapshot_forms(model: Document, location: str, name: str) -> tuple[str, str]:
    """The first snapshot and every later one as JSON, with its numbers to be filled in."""
    summary = json.dumps(model["summary"]).replace("%", "%%")
    manifest_list = f"{location}/metadata/{manifest_list_of(name, '%d')}"
    start = '{"sequence-number": %d, "snapshot-id": %d, "timestamp-ms": %d, '
    end = f'"summary": {summary}, "manifest-list": "{manifest_list}", "schema-id": 0}}'
    return start + end, f', {start}"parent-snapshot-id": %d, {end}'
