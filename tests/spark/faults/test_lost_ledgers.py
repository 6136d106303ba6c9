"""Lost ledgers, catalogs that are gone, processes that meet or are cut short."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from meltline.app.doctor.init import init
from meltline.app.observe.observe import observe
from meltline.app.retention.clock_override import disown
from meltline.app.run.summary import Summary
from meltline.app.safety.switches import go, stop
from meltline.config.load import load_config
from meltline.domain.clock import NOW
from meltline.domain.deletion.departed import DepartedObject
from meltline.domain.errors import (
    CatalogUnlistable,
    ClockRefused,
    LedgerOutOfStep,
    MeltlineError,
    SetupMissing,
    StoreRefused,
)
from meltline.domain.iceberg.files import DepartureState
from meltline.ports import DeleteOutcome, SnapshotKey
from meltline.wiring import Wiring
from tests.spark.faults.test_bad_luck import HOUR, START
from tests.spark.setups import walk
from tests.spark.setups.warehouse import DAY, LEDGER, SPACE, Warehouse

pytestmark = pytest.mark.spark


@dataclass
class Small:
    """A warehouse of one table whose expired files wait; each test leaves it in order."""

    w: Warehouse
    now: datetime = START

    def later(self, span: timedelta = HOUR) -> datetime:
        self.now += span
        return self.now

    def churn(self) -> None:
        """A commit that makes the one before it history."""
        self.w.overwrite("t", self.now.minute)

    def waiting(self) -> dict[str, datetime]:
        """Files in failsafe and until when."""
        files = self.w.services(self.now).files
        return {
            d.path: d.due_at
            for d in files.departures.in_states(frozenset({DepartureState.FAILSAFE}))
        }

    def intact(self) -> None:
        """Nothing that anything refers to is gone."""
        assert self.w.reachable() <= self.w.disk().keys()

    def goes_on(self) -> Summary:
        """The next run completes."""
        summary = self.w.run(self.later(8 * DAY))
        assert summary.exit_code == 0, summary.as_json()
        return summary


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Small:
    w = Warehouse.empty(tmp_path_factory.mktemp("small"), "small")
    w.create("t")
    w.overwrite("t", 0, 10, 20)
    w.stage("t", 40 * DAY, 20 * DAY)
    w.init()
    w.run(START)
    return Small(w)


@pytest.fixture
def small(prepared: Small) -> Iterator[Small]:
    yield prepared
    prepared.intact()


def refuses(small: Small, kind: type[MeltlineError]) -> MeltlineError:
    """A run must refuse, say what it found and what to do, and change nothing."""
    before = small.w.rows() if small.w.db.exists() else {}
    disk = small.w.disk()
    with pytest.raises(kind) as refused:
        small.w.run(small.later())
    error = refused.value
    assert error.object and error.found and error.expected and error.next
    assert small.w.disk() == disk
    assert not before or small.w.rows() == before
    return error


def backup(database: Path) -> Path:
    """A copy of an SQLite database as its own tools make it."""
    copy = database.with_name(f"backup-{uuid4()}.db")
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def restore(copy: Path | None, database: Path) -> None:
    """Puts a backup in a database's place; none at all loses it."""
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    if copy is not None:
        shutil.copy(copy, database)


def overwrite(copy: Path, database: Path) -> None:
    """Puts a backup into a database that others have open."""
    with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(database)) as target:
        source.backup(target)


def test_a_lost_control_ledger_refuses_until_a_person_adopts_it(small: Small) -> None:
    w = small.w
    old = backup(w.control)
    restore(None, w.control)
    refuses(small, SetupMissing)
    with pytest.raises(LedgerOutOfStep) as refused:
        w.init(small.later())
    assert "--adopt" in refused.value.next
    refuses(small, LedgerOutOfStep)
    before = small.waiting()
    w.init(small.later(DAY), adopt=True)
    assert before and small.waiting() == dict.fromkeys(before, small.now + 7 * DAY)

    adopted = backup(w.control)
    restore(old, w.control)  # it comes back after all, and knows nothing of this
    assert "generation 2" in refuses(small, LedgerOutOfStep).expected
    restore(adopted, w.control)
    small.goes_on()


def test_a_backup_from_before_a_run_is_refused_until_a_person_adopts_it(small: Small) -> None:
    w = small.w
    small.churn()
    old = backup(w.control)
    w.run(small.later(8 * DAY))
    before = small.waiting()
    assert before
    restore(old, w.control)
    assert "epoch" in refuses(small, LedgerOutOfStep).expected
    w.init(small.later(), adopt=True)
    assert small.waiting().keys() >= before.keys()
    small.goes_on()
    assert not before.keys() & w.disk().keys()


def test_a_copied_installation_is_refused_once_its_original_has_run(small: Small) -> None:
    """Staging from dumps of both databases: the storage is still production's."""
    w = small.w
    small.churn()
    copied = backup(w.control), backup(w.db)
    w.run(small.later(8 * DAY))
    ours = backup(w.control), backup(w.db)
    for copy, database in zip(copied, (w.control, w.db), strict=True):
        overwrite(copy, database)
    assert "another installation manages this warehouse" in refuses(small, LedgerOutOfStep).message
    for copy, database in zip(ours, (w.control, w.db), strict=True):
        overwrite(copy, database)
    small.goes_on()


def test_a_second_ledger_in_another_namespace_of_one_catalog_is_refused(small: Small) -> None:
    w, other = small.w, small.w.root / "other.yaml"
    words = w.yaml.read_text().replace("control.db", "control_b.db")
    other.write_text(f"{words}ledger-namespace: meltline_b\n")
    environ = {**os.environ, NOW: small.later().isoformat(), "MELTLINE_USER": "tester"}
    wiring = Wiring(load_config(other, environ, w.root), environ, lambda line: None)
    with pytest.raises(LedgerOutOfStep, match="another installation manages this warehouse"):
        init(wiring.services("init"))
    small.goes_on()


def test_a_backup_from_before_a_stop_lifts_it_neither_when_it_is_adopted(small: Small) -> None:
    w = small.w
    small.churn()
    old = backup(w.control)
    assert stop(w.services(small.later()), "a fire").unnoted is None
    restore(old, w.control)
    refuses(small, LedgerOutOfStep)
    w.init(small.later(), adopt=True)
    disk, heads = w.disk(), w.heads()
    assert w.run(small.later(8 * DAY)).exit_code == 3
    assert w.heads() == heads and disk.keys() <= w.disk().keys()
    go(w.services(small.later()))
    small.goes_on()


def test_a_clock_that_was_ahead_is_settled_by_a_word_and_its_departures_wait_anew(
    small: Small,
) -> None:
    """Also for those rows of the file ledger that the same machine wrote last."""
    w = small.w
    small.churn()
    then = small.now + 400 * DAY
    w.run(then)
    # The machine's own clock was ahead as well, by which rows of the file ledger follow each other.
    ahead = 400 * 86_400 * 10**9
    w.sql(f"UPDATE {w.catalog}.{LEDGER}.departures SET written_ns = written_ns + {ahead}")
    waiting = small.waiting()
    assert any(due > then for due in waiting.values())
    with pytest.raises(ClockRefused) as refused:
        w.run(small.later())
    assert "meltline clock disown" in refused.value.next
    now = small.later()
    services = w.services(now)
    recorded = services.control.database.newest_time()
    assert recorded is not None
    disown(services, recorded, "it was ahead")
    assert set(small.waiting().values()) == {now + 7 * DAY}
    small.goes_on()
    assert not waiting.keys() & w.disk().keys()


def test_a_catalog_that_is_gone_stops_everything(small: Small) -> None:
    w = small.w
    away = w.root / "away.db"
    w.db.rename(away)
    assert refuses(small, CatalogUnlistable).object == "small"
    away.rename(w.db)
    assert w.run(small.later()).exit_code == 0


def test_an_unlistable_neighbour_lets_expire_and_lets_nothing_be_deleted(small: Small) -> None:
    w = small.w
    small.churn()
    w.run(small.later(8 * DAY))
    assert small.waiting()
    plain = w.yaml.read_text()
    more = "  other: {type: sql, uri: 'sqlite:///nowhere.db', warehouse: there}\n"
    w.yaml.write_text(plain + more)
    small.churn()
    disk = w.disk()
    summary = w.run(small.later(8 * DAY))
    assert summary.exit_code == 4
    assert any("other" in note for note in summary.notes)
    assert sum(table.snapshots_expired for table in summary.tables.values()) == 1
    assert disk.keys() <= w.disk().keys()
    w.yaml.write_text(plain)
    small.goes_on()


def test_a_purge_cut_short_goes_on_although_a_file_is_needed_again(small: Small) -> None:
    """A plan that was begun and no longer fits must not hold its other files for ever."""
    w = small.w
    small.churn()
    described = w.location("t")
    w.run(small.later(8 * DAY))

    class Broken:
        def delete(
            self, files: Sequence[DepartedObject], keys_per_second: int
        ) -> Sequence[DeleteOutcome]:
            raise StoreRefused("the store went away", object="store", found="silence")

    cut = w.run(small.later(8 * DAY), deleter=Broken())
    assert any("went away" in table.skipped for table in cut.tables.values())
    w.sql(f"CALL register_table('{SPACE}.again', '{described}')")
    needed = walk.of_table(described)
    for _ in range(2):
        assert w.run(small.later(HOUR)).exit_code in (0, 4)
        assert needed <= w.disk().keys(), "no failsafe since they came back"
    w.sql("DROP TABLE {again}", f"CALL register_table('{SPACE}.again', '{w.location('t')}')")
    small.goes_on()
    assert not needed <= w.disk().keys()


@pytest.mark.slow("two runs in processes of their own")
def test_a_second_run_in_another_process_does_not_get_in_the_way(small: Small) -> None:
    w = small.w
    small.churn()
    program = (
        "import sys; from datetime import datetime; from pathlib import Path\n"
        "from tests.spark.setups.warehouse import Warehouse, stock_session\n"
        f"w = Warehouse(Path({str(w.root)!r}), 'small', stock_session())\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"done = w.run(datetime.fromisoformat({small.later(8 * DAY).isoformat()!r}), 'theirs')\n"
        "print(done.exit_code, [t.skipped or t.refused for t in done.tables.values()])\n"
    )
    # Its own run id: two people at two machines.
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as other:  # fmt: skip
        assert other.stdin and other.stdout
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
        ours = w.run(small.now)
        theirs = other.communicate(timeout=600)[0].strip()
    # Whoever came second found the work done, waited for it, or was told that it had been done.
    assert {str(ours.exit_code), theirs[0]} <= {"0", "3", "4"}, theirs
    assert "0" in {str(ours.exit_code), theirs[0]}
    with closing(sqlite3.connect(w.control)) as ledger:
        applied = ledger.execute("SELECT count(*) FROM plans WHERE state = 'applying'").fetchone()
    assert applied == (0,)
    small.goes_on()


def test_two_looks_at_once_count_no_file_twice(small: Small) -> None:
    """Looking takes no lock: two runs may read the same new manifests at the same time."""
    w = small.w
    other = w.services(small.later())

    class Interrupted:
        """Another run observes after we asked what is unknown, and before we read it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(other.files.manifests, name)

        def ingest(self, *arguments: Any) -> Any:
            observe(other)
            return other.files.manifests.ingest(*arguments)

    small.churn()
    w.append("t", 30)
    interrupted: Any = Interrupted()
    files = replace(other.files, manifests=interrupted)
    observe(w.services(small.now, files=files))
    key = SnapshotKey(str(w.document("t")["table-uuid"]), w.snapshots("t")[-1])
    ledger = f"{w.catalog}.{LEDGER}"
    copies = f"SELECT count(*) FROM {ledger}.snapshots WHERE snapshot_id = {key.snapshot_id}"
    assert w.sql(copies)[0][0] == 2, "the other run was to come in between"
    sizes = [row[0] for row in w.sql("SELECT file_size_in_bytes FROM {t}.files")]
    assert other.files.snapshots.live_totals([key]) == {key: (len(sizes), sum(sizes))}
    small.goes_on()


def test_in_the_end_the_small_warehouse_holds_nothing_unneeded(small: Small) -> None:
    for _ in range(5):
        if not small.goes_on().plans:
            break
    assert small.w.disk().keys() == small.w.reachable()


def test_lost_tables_of_the_ledger_are_missed_by_name(small: Small) -> None:
    w = small.w
    for table in [name for name in w.rows() if name.startswith(f"{LEDGER}.")]:
        w.sql(f"DROP TABLE {w.catalog}.{table}")
    assert LEDGER in refuses(small, SetupMissing).object
    w.init(small.later(), adopt=True)
    small.churn()
    small.goes_on()
