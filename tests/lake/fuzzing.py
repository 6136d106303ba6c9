"""Reads damaged files in a process of its own, which may be killed by what it reads.

`python -m tests.lake.fuzzing KIND SEED COUNT PROGRESS` reads so many damaged files by every reader
of that kind, and prints a line of JSON for each that was neither read nor refused by name. PROGRESS
is a file that holds the number of the last one begun.
"""

import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from random import Random
from types import FrameType, NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from meltline.adapters.archive.rewriting.manifests import is_readable
from meltline.adapters.manifests import fastavro_reader as index
from meltline.adapters.manifests import pyiceberg_reader as gate
from meltline.domain.errors import MeltlineError
from meltline.domain.iceberg.files import ManifestFile
from meltline.domain.iceberg.metadata_editor import parse_json
from meltline.domain.iceberg.metadata_parser import parse_table
from meltline.ports import Prefix
from tests.lake.damage import MANIFEST, MANIFEST_LIST, METADATA, Sample, samples
from tests.lives.histories import NAME

SECONDS = 5  # for one file; each is some kilobytes
MEMORY = 128 << 20  # bytes that reading one may take: a block has no more than 64 MiB
_ROOM = 4 << 30  # bytes of addresses: allocators reserve far more than they use
_PLAIN = (str, int, float, bool, bytes)
Reader = Callable[[Sample], object]


def _metadata(sample: Sample) -> object:
    document = parse_json(NAME, sample.path, sample.content)
    return parse_table(NAME, sample.path, len(sample.content), document)


def _indexed_list(sample: Sample) -> object:
    return index.read_manifest_list(sample.path, sample.content)


def _proved_list(sample: Sample) -> object:
    return gate.listed_manifests(sample.path, sample.content)


def _indexed(sample: Sample) -> object:
    return index.checked_entries(ManifestFile(sample.path, 0, *sample.entries), sample.content)


def _changes(sample: Sample) -> object:
    front = Prefix(sample.content, len(sample.content))
    return index.changed_entries(ManifestFile(sample.path, 0, *sample.entries), front)


def _proved(sample: Sample) -> object:
    listed = gate.ListedManifest(sample.path, 0, sum(sample.entries))
    return gate.live_columns(listed, sample.content)


def _proved_wholly(sample: Sample) -> object:
    listed = gate.ListedManifest(sample.path, 0, sum(sample.entries))
    return gate.live_files(listed, sample.content)


def _is_whole(sample: Sample) -> object:
    return is_readable(sample.content)


READERS: Mapping[str, Sequence[Reader]] = {
    METADATA: (_metadata,),
    MANIFEST_LIST: (_indexed_list, _proved_list, _is_whole),
    MANIFEST: (_indexed, _changes, _proved, _proved_wholly, _is_whole),
}


class Hung(BaseException):
    """A reader took longer than any file of this size may."""


def _hung(_: int, frame: FrameType | None) -> None:
    raise Hung(str(frame))


@dataclass(frozen=True)
class Accident:
    """The damaged file of a number."""

    kind: str
    seed: int
    number: int

    def sample(self) -> Sample:
        random = Random(f"{self.kind} {self.seed} {self.number}")
        return random.choice(samples(self.kind)).damaged(random)


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_refused(reader: Reader, sample: Sample) -> bool:
    """Whether this reader sees that the file is damaged."""
    try:
        reader(sample)
    except MeltlineError:
        return True
    return False


def complaint(reader: Reader, sample: Sample) -> str | None:
    """What is wrong with how a file is read; empty where it was refused, None where it was not."""
    before = _peak()
    found = _reading(reader, sample)
    more = _peak() - before
    return f"{more} bytes of memory for {len(sample.content)}" if more > MEMORY else found


def _reading(reader: Reader, sample: Sample) -> str | None:
    try:
        with _no_longer_than(SECONDS):
            read = reader(sample)
    except MeltlineError as refused:
        if "MemoryError" in refused.found:
            return refused.found[:200]
        words = (refused.message, refused.expected, refused.found, refused.next)
        if refused.object != sample.path or not all(words) or sum(map(len, words)) > 4_000:
            return f"a refusal without all it needs: {refused!r}"[:500]
        return ""
    except BaseException as odd:
        return f"{type(odd).__name__}: {odd}"[:500]
    return next(map(str, mistyped(read)), None)


def mistyped(value: object, hint: object = object) -> Iterator[str]:
    """What in a value is of another type than its class declares, or no text that can be stored."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if type(value) in _PLAIN and not {type(value), object, Any}.intersection(kinds):
        yield f"{value!r} where {hint} is declared"[:300]
    elif value is None and kinds[0] in _PLAIN and NoneType not in kinds:
        yield f"None where {hint} is declared"
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        yield f"{value!r} cannot be stored"[:300]
    elif is_dataclass(value):
        hints = get_type_hints(type(value))
        for field in fields(value):
            held = mistyped(getattr(value, field.name), hints[field.name])
            yield from (f"{type(value).__name__}.{field.name}: {what}" for what in held)
    elif isinstance(value, Collection) and not isinstance(value, str | bytes):
        inner = [kind for part in kinds for kind in get_args(part)][-1:] or [object]
        of = inner[0] if inner[0] is not Ellipsis else _first_of(kinds)
        for held_value in value.values() if isinstance(value, Mapping) else value:
            yield from mistyped(held_value, of)


def _first_of(kinds: Sequence[object]) -> object:
    """The one type of `tuple[kind, ...]`."""
    return next(args[0] for kind in kinds if (args := get_args(kind)))


def _bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak() -> int:
    """The most memory that this process has held so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(kind: str, seed: int, count: int, progress: str) -> None:
    signal.signal(signal.SIGALRM, _hung)
    for sample in samples(kind):
        for reader in READERS[kind]:
            reader(sample)
    _bound_memory()
    outcomes: Counter[str] = Counter()
    with Path(progress).open("wb", buffering=0) as at:
        for number in range(count):
            os.pwrite(at.fileno(), b"%10d" % number, 0)
            sample = Accident(kind, seed, number).sample()
            for reader in READERS[kind]:
                wrong = complaint(reader, sample)
                outcomes[{None: "read", "": "refused"}.get(wrong, "wrong")] += 1
                if wrong:
                    line = {"number": number, "reader": reader.__name__, "found": wrong}
                    print(json.dumps(line), flush=True)
    print(json.dumps({"outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
