"""Fifty million files that wait in failsafe, and a small plan's worth of others that is due."""

import time
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.bench import Bench
from benchmarks.commits import Commits
from benchmarks.ends.steps import End, measured
from benchmarks.history import TABLE, DaySize, Past, create_table, write_history
from benchmarks.lakes import FAILSAFE, LEDGER, Lake
from benchmarks.results import Outcome
from meltline.adapters.index_tables.schema import DEPARTURES
from meltline.adapters.index_tables.tables_io import LedgerTables
from meltline.adapters.manifests.path_hash import key_hash
from meltline.adapters.object_store.stores import ObjectStores
from meltline.app.run.lifecycle import run_step
from meltline.app.run.steps import STEPS
from meltline.app.run_request import RunRequest
from meltline.domain.deletion.plan import PlanKind, plan_id
from meltline.domain.iceberg.files import DepartureState, FileKind
from meltline.domain.iceberg.names import TableName

_DEPARTURES = 50_000_000
_AT_A_TIME = 1_000_000
_OF_A_PLAN = 50_000
_LONG = timedelta(days=90)
_PAST = Past((Commits(120, 100, 98),), 20, DaySize(10, 100, 98))
_WRITTEN = "the departures that wait are written into the ledger at once; their files never were"


def run_departures(bench: Bench) -> list[Outcome]:
    """Each step on a night on which a few files are due and a few more depart."""
    _measured(bench, "departures-warm-up", 1000)
    count = round(_DEPARTURES * bench.scale)
    end = _measured(bench, "departures", count)
    due = _PAST.commits[0].files_removed
    size = f"{count:,} departures that wait, of one table, and some {due:,} that are due"
    return [end.outcome(size, (_WRITTEN,))]


def _measured(bench: Bench, name: str, count: int) -> End:
    bench.say(f"{name}: building a small table, and {count:,} departures")
    lake = Lake(bench.place(name), name.replace("-", "_"), bench.spark).create()
    with lake.in_place():
        create_table(lake, columns=bench.columns)
        _commit(bench, lake, _PAST.commits[0])
        lake.init()
        _let_depart(bench, lake)
        _record(bench, lake, count)
        day = _PAST.day
        _commit(bench, lake, _PAST.commits[0].then(day.count, day.added, day.removed))
        end = measured(End(bench, name), lambda end: end.night(lake, _PAST.later(day.count)))
    bench.remove({name: lake})
    return end


def _commit(bench: Bench, lake: Lake, commits: Commits) -> None:
    bench.committer.commit(lake.table(TABLE), f"file://{lake.data(TABLE)}", commits)
    write_history(lake.place, [commits])
    lake.stage(TABLE, _PAST.when)


def _let_depart(bench: Bench, lake: Lake) -> None:
    """A night until its expiration; what departs is due by the next."""
    request = RunRequest("earlier", _PAST.as_of)
    for step in STEPS:
        run_step(step, lake.services(bench.detail), request)
        if step.name == "expire":
            break
    lake.clock.moment += FAILSAFE + timedelta(seconds=1)


# --- departures that wait ------------------------------------------------------------------------


def _record(bench: Bench, lake: Lake, count: int) -> None:
    """Appends them to the ledger by its own writer, a data file at a time."""
    services = lake.services(bench.detail)
    (owner,) = (
        known.uuid for known in services.control.registrations.all() if known.name.name == TABLE
    )
    tables = LedgerTables(bench.spark, ObjectStores({}), lake.name, LEDGER)
    for first in range(0, count, _AT_A_TIME):
        rows = waiting(lake, owner, lake.clock.now(), range(first, min(count, first + _AT_A_TIME)))
        tables.append_arrow("departures", rows, f"waiting-{first}")


def waiting(lake: Lake, owner: str, now: datetime, numbers: range) -> pa.Table:
    """Rows of the ledger for files that wait for long, with their true hashes."""
    size = len(numbers)
    texts = pa.array(np.arange(numbers.start, numbers.stop)).cast(pa.string())
    paths = pc.binary_join_element_wise(f"file://{lake.data(TABLE)}/w/", texts, ".parquet", "")
    name = TableName(lake.name, ("n",), TABLE)
    plans = [
        plan_id(f"night-{number // _OF_A_PLAN}", PlanKind.EXPIRE, name, "")
        for number in numbers[::_OF_A_PLAN]
    ]
    plan_ids = pa.array(plans).take(pa.array(np.arange(size) // _OF_A_PLAN))
    columns = {
        "path": paths,
        "key_hash": [key_hash(path) for path in paths.to_pylist()],
        "kind": [str(FileKind.DATA)] * size,
        "bytes": [64] * size,
        "owner": [owner] * size,
        "plan_id": plan_ids,
        "departed_at": [now] * size,
        "due_at": [now + _LONG] * size,
        "state": [str(DepartureState.FAILSAFE)] * size,
        "recorded_at": [now] * size,
        "written_ns": [time.time_ns()] * size,
        "marker": plan_ids,
    }
    return pa.table(columns, schema=DEPARTURES)
