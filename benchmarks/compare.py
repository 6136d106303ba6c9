"""Whether both sides deleted the same files: what lay on the disk before and after each.

Lists go to files and are compared in a process of their own, so that millions of names do not
count as memory of what is measured.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_APART = re.compile(r"\.crc$|\.metadata\.json$")
_LIST = re.compile(r"(?:^|/)snap-\d+-\d+-([0-9a-f-]{36})\.avro$")
_MANIFEST = re.compile(r"(?:^|/)([0-9a-f-]{36})-m\d+\.avro$")


@dataclass(frozen=True)
class Difference:
    """How one side's deletions differ from the other's; names of a few."""

    missed: int
    more: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """What a side deleted, by kind, and whether it is what the first side deleted."""

    deleted: Mapping[str, int]
    difference: Difference | None


def write_listing(folder: Path, target: Path) -> None:
    """Writes the name of every file below a folder, but those of metadata and side files."""
    with target.open("w", encoding="utf-8") as out:
        for name in _files(str(folder), ""):
            if not _APART.search(name):
                out.write(f"{name}\n")


def _files(folder: str, inside: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{inside}{entry.name}/")
            else:
                yield f"{inside}{entry.name}"


def compare(sides: Sequence[tuple[Path, Mapping[str, str]]]) -> list[Comparison]:
    """Holds each side's deletions against the first side's.

    Args:
        sides: The folder with the listings `before` and `after` of each side, and what to call
            the commits that it alone has, by UUID.
    """
    asked = [
        {"before": str(folder / "before"), "after": str(folder / "after"), "labels": labels}
        for folder, labels in sides
    ]
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.compare"], input=json.dumps(asked), text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return [
        Comparison(
            found["deleted"],
            Difference(**found["difference"]) if found["difference"] else None,
        )
        for found in json.loads(answer.stdout)
    ]


# --- the comparing process ---------------------------------------------------------------------


def _deleted(before: Path, after: Path, labels: Mapping[str, str]) -> Counter[str]:
    with after.open(encoding="utf-8") as lines:
        left = set(lines)
    with before.open(encoding="utf-8") as lines:
        return Counter(_called(line.rstrip("\n"), labels) for line in lines if line not in left)


def _called(name: str, labels: Mapping[str, str]) -> str:
    """A file's name in every twin: manifests by their commit, where twins made it on their own.

    The number in a manifest's name is left out there: it depends on which thread came first.
    """
    if (found := _LIST.search(name)) and found[1] in labels:
        return f"{_folder(name)}manifest list of {labels[found[1]]}"
    if (found := _MANIFEST.search(name)) and found[1] in labels:
        return f"{_folder(name)}manifest of {labels[found[1]]}"
    return name


def _folder(name: str) -> str:
    head, slash, _ = name.rpartition("/")
    return head + slash


def _kind(name: str) -> str:
    last = name.rpartition("/")[2]
    if last.startswith(("snap-", "manifest list of ")):
        return "manifest lists"
    return "manifests" if _MANIFEST.search(last) or last.startswith("manifest of ") else "data"


def main() -> None:
    """Compares what the input names."""
    first: Counter[str] | None = None
    answers = []
    for side in json.load(sys.stdin):
        deleted = _deleted(Path(side["before"]), Path(side["after"]), side["labels"])
        kinds: Counter[str] = Counter()
        for name, count in deleted.items():
            kinds[_kind(name)] += count
        first = deleted if first is None else first
        missed, more = first - deleted, deleted - first
        different = {
            "missed": missed.total(),
            "more": more.total(),
            "examples": [
                *(f"not deleted: {name}" for name in sorted(missed)[:3]),
                *(f"deleted: {name}" for name in sorted(more)[:3]),
            ],
        }
        answers.append({"deleted": kinds, "difference": different if missed or more else None})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
