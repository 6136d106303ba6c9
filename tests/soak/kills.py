"""Histories of real files: real Spark runs the chain, PyIceberg commits, `kill -9` takes both.

After each round, when no process is left, a walker that knows nothing of Meltline looks for every
file that the catalog's tables refer to, the ledger's own too.
"""

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.soak.child import LONGEST, Blow, Child
from tests.soak.figures import ROOT, Figures
from tests.soak.writer import CATALOG, SPACE, Writer, open_catalog
from tests.spark.setups import walk

ROUNDS = 10
DAY = timedelta(days=1)
SPANS = (timedelta(hours=1), DAY, DAY, 3 * DAY, 8 * DAY, 8 * DAY)
QUIET = (8, 8, 31, 8)
CONFIG = f"""\
control: sqlite:///control.db
hot: {CATALOG}
sandbox: true
account: {{retention-days: 2}}
limits: {{lock-wait: 0s, max-delete-ratio: 1.0, max-growth: 1000}}
catalogs:
  {CATALOG}: {{type: sql, uri: "sqlite:///catalog.db", warehouse: warehouse}}
"""


@dataclass
class History:
    """One warehouse, from its first table to when all is quiet.

    Attributes:
        folder: Where it lies.
        dice: Decides all that is not a matter of time.
        figures: What it has come to.
        now: The simulated time of the next run.
        needs: What tables referred to after the last round.
        ever: Files that some table referred to after some round.
        seen: Of them, those that a run has certainly seen.
        left: Of them, those that none referred to after a later round.
        deleted: Of them, those that are gone.
    """

    folder: Path
    dice: random.Random
    figures: Figures
    now: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(hours=2))
    needs: set[str] = field(default_factory=set)
    ever: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    child: Child | None = None
    runs: int = 0

    def begin(self) -> None:
        (self.folder / "warehouse").mkdir(parents=True)
        (self.folder / "warehouse" / ".meltline-sandbox").touch()
        (self.folder / "meltline.yaml").write_text(CONFIG)
        open_catalog(self.folder).create_namespace(SPACE)
        writer = Writer(self.folder, self.dice.randrange(2**32))
        for _ in range(3):
            writer.create()
        for _ in range(6):
            with suppress(Exception):
                writer.commit()
        self._run("init", None)

    def round(self) -> None:
        """Time passes; the chain runs while somebody writes, and one or both are killed."""
        if self.dice.random() < 0.7:
            self._end_writer(self._start_writer())
        self.look()
        self.now += self.dice.choice(SPANS)
        blow = Blow.drawn(self.dice) if self.dice.random() < 0.85 else None
        writer = self._start_writer() if self.dice.random() < 0.5 else None
        before = set(self.needs)
        try:
            code = self._run("run", blow)
        finally:
            if writer is not None:
                self._end_writer(writer)
        if code == 0 and writer is None:
            self.seen |= before
        self.look()

    def _run(self, what: str, blow: Blow | None) -> int | None:
        if self.child is None:
            self.child = Child(self.folder)
        child, self.runs = self.child, self.runs + 1
        name = f"{what}-{self.runs}" if what == "run" else what
        code = child.run(name, self.now, blow)
        self.figures.events += 1
        if code is None:
            self.child = None
            self.figures.kills += 1
            self.figures.killed_in.append(child.last_call)
            self._let_leases_end()
        return code

    def _let_leases_end(self) -> None:
        """As if the minutes had passed that a lock outlives its holder."""
        with closing(sqlite3.connect(self.folder / "control.db", timeout=30)) as ledger:
            ledger.execute("UPDATE locks SET lease_until = 0")
            ledger.commit()

    def _start_writer(self) -> "subprocess.Popen[str]":
        seed, commits = self.dice.randrange(2**32), self.dice.randint(1, 8)
        command = [sys.executable, "-m", "tests.soak.writer", self.folder, seed, commits]
        with (self.folder / "writer.log").open("a") as log:
            return subprocess.Popen(
                [str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=log,
                text=True,
            )  # fmt: skip

    def _end_writer(self, writer: "subprocess.Popen[str]") -> None:
        if self.dice.random() < 0.3:
            time.sleep(self.dice.random() * 3)
            self.figures.kills += writer.poll() is None
            writer.kill()
        told, _ = writer.communicate(timeout=LONGEST)
        self.figures.events += len(told.splitlines())

    # --- the outsider --------------------------------------------------------------------------

    def look(self) -> None:
        """Everything that any table refers to is there; counts what else is."""
        everything = set().union(*walk.reachable(self.folder / "catalog.db", CATALOG).values())
        there = set(walk.disk(self.folder / "warehouse"))
        self.figures.checks += 1
        if lost := sorted(everything - there):
            self.figures.lost += len(lost)
            raise AssertionError(f"needed and gone: {lost}")
        ours = f"{self.folder}/warehouse/{SPACE}/"
        self.needs = {path for path in everything if path.startswith(ours)}
        self.ever |= self.needs
        self.left |= self.ever - self.needs
        self.deleted |= self.ever - there
        self.figures.at_risk, self.figures.deleted = len(self.left), len(self.deleted)

    def end(self) -> None:
        """Left alone for weeks: the last run ends well, and what nobody needs is gone.

        A table that came and went between two runs looks like one of a catalog that is not listed.
        Whoever is on call knows better, and says so once.
        """
        self.end_child()
        self._let_leases_end()
        Writer(self.folder, 0).let_all_go()
        code: int | None = None
        for days in QUIET:
            self.now += days * DAY
            self.seen |= self.needs
            code = self._run("run", None)
            self._run("allow", None)
            self.look()
        self.end_child()
        assert code == 0, f"the last run, when all was quiet, ended with {code}"
        gone = self.needs | self.deleted
        stays = {path for path in self.seen - gone if ".metadata.json" not in path}
        assert not stays, f"never purged: {sorted(stays)}"

    def end_child(self) -> None:
        """No process is left."""
        if self.child is not None:
            self.child.kill()
            self.child = None


def history(seed: int, commit: str, folder: Path, is_over: Callable[[], bool]) -> Figures:
    """One history; its files stay in the folder if anything goes wrong."""
    figures, began = Figures(commit, "kills", seeds=[seed]), time.monotonic()
    told = History(folder / f"kills-{seed}", random.Random(seed), figures)
    try:
        told.begin()
        rounds = 0
        while rounds < ROUNDS and not is_over():
            told.round()
            rounds += 1
        if rounds == ROUNDS:
            told.end()
        figures.histories += 1
    except Exception as error:
        figures.broken = 1
        figures.failures = [f"kills, seed {seed}: {error}".splitlines()[0]]
    finally:
        told.end_child()
    if not figures.broken:
        shutil.rmtree(told.folder)
    figures.seconds = time.monotonic() - began
    return figures
