"""Watches a run from a process of its own: memory, CPU time, bytes read, files opened.

`python -m benchmarks.watch PID FOLDER...` says `ready`, watches until its input ends, and writes
what it saw as JSON. It samples the process tree of PID and counts opens below the folders. What
its own parent has used before does not count; of another process everything does.
"""

import ctypes
import json
import os
import re
import select
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_EVERY = 0.1  # seconds between two samples
_IN_OPEN, _IN_CREATE, _IN_Q_OVERFLOW = 0x20, 0x100, 0x4000
_IN_ISDIR, _IN_ONLYDIR = 0x40000000, 0x01000000
_EVENT = struct.Struct("iIII")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_CHECKSUM = "checksum files"
_KINDS = {
    "metadata files": re.compile(r"\.metadata\.json(\.gz)?$"),
    "manifest lists": re.compile(r"^snap-.*\.avro$"),
    "manifests": re.compile(r"-m\d+\.avro$"),
    _CHECKSUM: re.compile(r"\.crc$"),
    "data files": re.compile(r"\.parquet$"),
}


@dataclass(frozen=True)
class Seen:
    """What was seen of a run.

    Attributes:
        peak_bytes: Resident memory by `driver`, `jvm`, `workers` and `together`; each at its own
            peak. Pages that processes share count in each of them.
        read_bytes: Bytes that all of them read from files and pipes.
        opened: How often files were opened, by kind; "at least" when `overflown`.
        cpu_seconds: CPU time of all of them, up to the last sample.
    """

    peak_bytes: Mapping[str, int]
    read_bytes: int
    opened: Mapping[str, int]
    overflown: bool
    cpu_seconds: float = 0.0

    def then(self, later: "Seen") -> "Seen":
        """What was seen of both, one after the other."""
        parts = dict.fromkeys([*self.peak_bytes, *later.peak_bytes])
        return Seen(
            {
                part: max(self.peak_bytes.get(part, 0), later.peak_bytes.get(part, 0))
                for part in parts
            },
            self.read_bytes + later.read_bytes,
            dict(Counter(self.opened) + Counter(later.opened)),
            self.overflown or later.overflown,
            self.cpu_seconds + later.cpu_seconds,
        )


@dataclass
class Watch:
    """A watch that is going on; `seen` is there once it has ended."""

    seen: Seen = field(default_factory=lambda: Seen({}, 0, {}, overflown=False))


@contextmanager
def watching(folders: Sequence[Path], process: int | None = None) -> Iterator[Watch]:
    """Watches a process, its children, and the folders; what is opened in the last counts apart.

    Args:
        folders: Those of the tables, and last that of the ledger; each with all below it.
        process: One that has just been started; None for this process, from now on.
    """
    watch = Watch()
    root = str(process or os.getpid())
    command = [sys.executable, "-m", "benchmarks.watch", root, *map(str, folders)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n", "the watching process did not start"
        try:
            yield watch
        finally:
            child.stdin.close()
            watch.seen = Seen(**json.loads(child.stdout.read()))


# --- the watching process ----------------------------------------------------------------------


class _Processes:
    """Samples the process tree below a process."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._read: dict[int, tuple[int, int]] = {}  # first and newest count, by process
        self._ticks: tuple[int, int] | None = None  # first and most, of all of them
        self.peaks: Counter[str] = Counter()
        self._started = root != os.getppid()

    def sample(self) -> None:
        now: Counter[str] = Counter()
        ticks = 0
        for pid, part, used in self._tree():
            ticks += used
            with suppress(OSError, ValueError, IndexError):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                count = int(Path(f"/proc/{pid}/io").read_text().split()[1])
                now[part] += pages * _PAGE
                first = self._read[pid][0] if pid in self._read else count * (not self._started)
                self._read[pid] = (first, count)
        now["together"] = now.total()
        for part, size in now.items():
            self.peaks[part] = max(self.peaks[part], size)
        first, most = self._ticks or (ticks * (not self._started), 0)
        self._ticks = first, max(most, ticks)
        self._started = True

    @property
    def read_bytes(self) -> int:
        return sum(newest - first for first, newest in self._read.values())

    @property
    def cpu_seconds(self) -> float:
        first, most = self._ticks or (0, 0)
        return (most - first) / _TICKS

    def _tree(self) -> Iterator[tuple[int, str, int]]:
        """Each process, what it is, and its ticks with those of children that it has buried."""
        children: dict[int, list[int]] = {}
        ticks: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError, ValueError, IndexError):
                    stat = (entry / "stat").read_text().rpartition(")")[2].split()
                    children.setdefault(int(stat[1]), []).append(int(entry.name))
                    ticks[int(entry.name)] = sum(map(int, stat[11:15]))
        waiting = [(self._root, "driver")]
        while waiting:
            pid, part = waiting.pop()
            yield pid, part, ticks.get(pid, 0)
            for child in children.get(pid, ()):
                if child != os.getpid():
                    is_java = _program(child) == "java"
                    # A java below java is about to become another program, and still shows its
                    # parent's memory as its own.
                    if not (is_java and part == "jvm"):
                        waiting.append((child, "jvm" if is_java else "workers"))


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name
    return ""


class _Opens:
    """Counts opens below folders, through inotify."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.handle = self._libc.inotify_init1(os.O_NONBLOCK)
        self._folders: dict[int, Path] = {}
        self._ledger = str(folders[-1])
        self.opened: Counter[str] = Counter()
        self.overflown = False
        for folder in folders:
            self._add(folder)

    def _add(self, folder: Path) -> None:
        mask = _IN_OPEN | _IN_CREATE | _IN_ONLYDIR
        number = self._libc.inotify_add_watch(self.handle, os.fsencode(folder), mask)
        if number < 0:
            return  # it is not there
        self._folders[number] = folder
        with suppress(OSError):
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    self._add(Path(entry.path))

    def drain(self) -> None:
        with suppress(BlockingIOError):
            while buffer := os.read(self.handle, 1 << 20):
                self._count(buffer)

    def _count(self, buffer: bytes) -> None:
        at = 0
        while at < len(buffer):
            number, mask, _, length = _EVENT.unpack_from(buffer, at)
            at += _EVENT.size
            name = buffer[at : at + length].rstrip(b"\0").decode(errors="replace")
            at += length
            if mask & _IN_Q_OVERFLOW:
                self.overflown = True
            elif mask & _IN_ISDIR:
                if mask & _IN_CREATE and number in self._folders:
                    self._add(self._folders[number] / name)
            elif mask & _IN_OPEN and name:
                self.opened[self._kind(name, number)] += 1

    def _kind(self, name: str, folder: int) -> str:
        kind = next((kind for kind, form in _KINDS.items() if form.search(name)), "other files")
        if kind == _CHECKSUM or not str(self._folders.get(folder, "")).startswith(self._ledger):
            return kind
        return f"ledger: {kind}"


def main(arguments: Sequence[str]) -> None:
    """Watches until the input ends."""
    processes = _Processes(int(arguments[0]))
    opens = _Opens([Path(folder) for folder in arguments[1:]])
    processes.sample()
    print("ready", flush=True)
    ended = False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], _EVERY)[0])
        opens.drain()
        processes.sample()
    print(
        json.dumps(
            {
                "peak_bytes": processes.peaks,
                "read_bytes": processes.read_bytes,
                "opened": opens.opened,
                "overflown": opens.overflown,
                "cpu_seconds": processes.cpu_seconds,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
