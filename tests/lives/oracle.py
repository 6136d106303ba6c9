"""What tables refer to and what was promised of them, by brute force: the other side of the proof.

Nothing of Meltline is used. Metadata files are read as JSON, lists and manifests with fastavro, and
each rule is spelled out once more in the plainest way there is.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Protocol

import fastavro

Document = dict[str, Any]
MAIN = "main"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"


class Store(Protocol):
    def read(self, path: str) -> bytes: ...


def when(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, UTC)


@dataclass
class Walk:
    """Follows references from a metadata file down. Files are immutable: each is parsed once."""

    store: Store
    _parsed: dict[str, Any] = field(default_factory=dict)

    def document(self, location: str) -> Document:
        if location not in self._parsed:
            self._parsed[location] = json.loads(self.store.read(location))
        return dict(self._parsed[location])

    def rows(self, location: str) -> list[Any]:
        if location not in self._parsed:
            content = io.BytesIO(self.store.read(location))
            self._parsed[location] = list(fastavro.reader(content))
        return list(self._parsed[location])

    def of_snapshot(self, snapshot: Document) -> Iterator[str]:
        """The manifest list, the manifests and the live files of one snapshot."""
        yield snapshot["manifest-list"]
        for manifest in self.rows(snapshot["manifest-list"]):
            yield manifest["manifest_path"]
            for entry in self.rows(manifest["manifest_path"]):
                if entry["status"] != 2:
                    yield entry["data_file"]["file_path"]

    def of_table(self, location: str) -> set[str]:
        """Everything that a metadata file refers to, itself included."""
        document = self.document(location)
        found = {location} | {old["metadata-file"] for old in document["metadata-log"]}
        for key in ("statistics", "partition-statistics"):
            found |= {file["statistics-path"] for file in document[key]}
        for snapshot in document["snapshots"]:
            found.update(self.of_snapshot(snapshot))
        return found


def ancestry(document: Document, head: int) -> list[Document]:
    """A snapshot and its ancestors, newest first, as far as they are there."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in document["snapshots"]}
    line = []
    at: int | None = head
    while at in by_id:
        line.append(by_id[at])
        at = by_id[at].get("parent-snapshot-id")
    return line


def on_branches(document: Document, *, without_main: bool = False) -> set[int]:
    """Snapshots in the ancestry of some branch."""
    return {
        snapshot["snapshot-id"]
        for name, ref in document["refs"].items()
        if ref["type"] == "branch" and not (without_main and name == MAIN)
        for snapshot in ancestry(document, ref["snapshot-id"])
    }


@dataclass
class Story:
    """What has really happened to one table, beside what its metadata still tells.

    Attributes:
        heads: From when on which snapshot was main's head; None: it was empty.
        side: Snapshots that an observation saw on a branch other than main.
        missed: The first observation that saw a snapshot on no branch any more.
    """

    heads: list[tuple[datetime, int | None]] = field(default_factory=list)
    side: set[int] = field(default_factory=set)
    missed: dict[int, datetime] = field(default_factory=dict)

    def copy(self) -> "Story":
        """A clone's past: main's, as its metadata tells it; nobody has observed its branches."""
        return Story(list(self.heads))

    def happened(self, document: Document, now: datetime) -> None:
        """Notes main's head after a commit."""
        head = document["refs"].get(MAIN, {}).get("snapshot-id")
        if not self.heads or self.heads[-1][1] != head:
            self.heads.append((now, head))

    def observed(self, document: Document, now: datetime) -> None:
        """Notes what an observation can see."""
        held = on_branches(document)
        self.side |= on_branches(document, without_main=True)
        for snapshot in document["snapshots"]:
            if snapshot["snapshot-id"] in held:
                self.missed.pop(snapshot["snapshot-id"], None)
            else:
                self.missed.setdefault(snapshot["snapshot-id"], now)

    def answering(self, start: datetime, end: datetime) -> set[int]:
        """Main's heads at every instant from `start` to `end`."""
        ends = [at for at, _ in self.heads[1:]] + [end]
        return {
            head
            for (since, head), until in zip(self.heads, ends, strict=False)
            if head is not None and until >= start and since <= end
        }


def ages_out(document: Document, name: str, as_of: datetime) -> bool:
    """Whether a ref is past its age, as plain Iceberg counts it."""
    ref = document["refs"][name]
    own = ref.get("max-ref-age-ms")
    default = document["properties"].get(MAX_REF_AGE)
    if name == MAIN or (name.startswith(("share__", "hold__", "consumer__")) and own is None):
        return False
    if own is None and default is None:
        return False
    times = {s["snapshot-id"]: s["timestamp-ms"] for s in document["snapshots"]}
    age = (as_of - when(times[ref["snapshot-id"]])) / timedelta(milliseconds=1)
    return bool(age > (int(default) if own is None else own))


def promised(
    document: Document, story: Story, as_of: datetime, window: timedelta
) -> dict[int, str]:
    """Snapshots that must be readable on, and why: the plainest statement of the keep set."""
    start = as_of - window
    found: dict[int, str] = {}
    there = {snapshot["snapshot-id"]: snapshot for snapshot in document["snapshots"]}

    def promise(ids: set[int], why: str) -> None:
        found.update({id: why for id in ids & there.keys() if id not in found})

    staying = {n: r for n, r in document["refs"].items() if not ages_out(document, n, as_of)}
    promise({ref["snapshot-id"] for ref in staying.values()}, "a ref")
    promise(unread({**document, "refs": staying}), "a consumer has still to read it")
    promise(story.answering(start, as_of), "main's head at some instant of the window")
    promise(logged(document, start), "the log's answer for some instant of the window")
    fewest = int(document["properties"].get(MIN_SNAPSHOTS, "1"))
    kept_lines = on_branches({**document, "refs": staying})
    for name, ref in document["refs"].items():
        if ref["type"] != "branch":
            continue
        line = ancestry(document, ref["snapshot-id"])
        if name in staying:
            count = ref.get("min-snapshots-to-keep", fewest)
            promise({s["snapshot-id"] for s in line[:count]}, f"one of the newest of {name}")
        else:  # it goes today, and was readable until today
            line = [snapshot for snapshot in line if snapshot["snapshot-id"] not in kept_lines]
            promise({s["snapshot-id"] for s in line[:1]}, f"the head of {name} until today")
        if name != MAIN:
            promise(replaced_since(line, start), f"the head of {name} at some instant")
    promise(
        {id for id in story.side - on_branches(document) if story.missed.get(id, as_of) >= start},
        "on a branch until an observation missed it",
    )
    promise(
        {id for id, s in there.items() if when(s["timestamp-ms"]) >= start},
        "younger than the window",
    )
    return found


def unread(document: Document) -> set[int]:
    """What lies between a consumer and a branch's head, by trying every pair of them."""
    refs = document["refs"].items()
    read = [r["snapshot-id"] for n, r in refs if n.startswith("consumer__") and r["type"] == "tag"]
    found = set(read)
    for _, ref in refs:
        line = [s["snapshot-id"] for s in ancestry(document, ref["snapshot-id"])]
        for stand in read if ref["type"] == "branch" else ():
            if stand in line:
                found |= set(line[: line.index(stand)])
    return found


def promised_of_dropped(document: Document, as_of: datetime) -> set[int]:
    """What a dropped table keeps when its retention has ended: what tags name, until they age."""
    return {
        ref["snapshot-id"]
        for name, ref in document["refs"].items()
        if ref["type"] == "tag" and not ages_out(document, name, as_of)
    }


def logged(document: Document, start: datetime) -> set[int]:
    """What `TIMESTAMP AS OF` answers for the instants from `start` on: the newest time counts."""
    lines: Sequence[Mapping[str, int]] = document["snapshot-log"]
    log = sorted(lines, key=lambda entry: entry["timestamp-ms"])
    ends = [when(entry["timestamp-ms"]) for entry in log[1:]]
    return {
        entry["snapshot-id"]
        for entry, end in zip(log, [*ends, None], strict=False)
        if end is None or end >= start
    }


def replaced_since(line: Sequence[Document], start: datetime) -> set[int]:
    """Snapshots of a line whose successor came after `start`."""
    return {
        parent["snapshot-id"]
        for child, parent in pairwise(line)
        if when(child["timestamp-ms"]) >= start
    }
