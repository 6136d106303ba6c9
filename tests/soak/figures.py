"""What a soak has counted: a JSON line per batch, and their sums per commit."""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = "figures.jsonl"
_SHOWN = 300  # characters of what went wrong: the recording has all of it


@dataclass
class Figures:
    """What was done and seen.

    Attributes:
        commit: Of which state of the repository; with a plus where files were changed.
        source: What was run: `lives` and `chunks` in memory, `kills` of real processes.
        seconds: Of wall clock, of all workers.
        histories: Lives of a lake, from its first commit to when all is quiet.
        events: What engines, people, other tools and Meltline did in them.
        faults: Calls of a port that failed, or whose answer was lost.
        kills: Deaths of a process: in memory at a call of a port, else by `kill -9`.
        at_risk: Files that waited to be deleted.
        deleted: Of them, those that were.
        checks: How often every file that anything needs was looked for.
        lost: Files that were needed, and gone or about to go.
        broken: Histories that broke this or another promise.
        seeds: Where each batch began.
        killed_in: The call that each killed process had made last.
        failures: What went wrong, in a line each.
    """

    commit: str
    source: str
    seconds: float = 0.0
    histories: int = 0
    events: int = 0
    faults: int = 0
    kills: int = 0
    at_risk: int = 0
    deleted: int = 0
    checks: int = 0
    lost: int = 0
    broken: int = 0
    seeds: list[int] = field(default_factory=list)
    killed_in: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        """Takes another's figures in; commit and source stay."""
        for name in [f.name for f in fields(self)][2:]:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def this_commit() -> str:
    """The commit that is checked out."""
    command = ("git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def append(folder: Path, figures: Figures) -> None:
    """Adds a line to the folder's file."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LINES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(figures)) + "\n")


def read(folder: Path) -> list[Figures]:
    """All lines of the folder's file."""
    text = (folder / LINES).read_text("utf-8") if (folder / LINES).exists() else ""
    return [Figures(**json.loads(line)) for line in text.splitlines()]


def sums(lines: Iterable[Figures]) -> list[Figures]:
    """One per commit and source, in the order in which they came."""
    found: dict[tuple[str, str], Figures] = {}
    for line in lines:
        key = (line.commit, line.source)
        found.setdefault(key, Figures(*key)).add(line)
    return list(found.values())


COLUMNS = (
    "commit", "source", "seconds", "histories", "events", "faults", "kills", "at_risk", "deleted",
    "checks", "lost", "broken",
)  # fmt: skip


def table(lines: Iterable[Figures]) -> str:
    """The sums as a Markdown table, and each failure below it."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS)]
    rows += [tuple(_shown(getattr(line, name)) for name in COLUMNS) for line in lines]
    shown = ["| " + " | ".join(name.replace("_", " ") for name in row) + " |" for row in rows]
    failures = (what[:_SHOWN] for line in lines for what in line.failures)
    return "\n".join([*shown, *(f"FAILED: {what}" for what in failures)])


def _shown(value: object) -> str:
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)
