"""Record of the files in cold with late rows: rows of dropped chunks that are in hot as well.

Replication writes it into cold's own properties, in the commit that adds such a file. It is valid
whatever cold's owner does. A file keeps its name when the snapshot that wrote it has expired. If a
compaction has rewritten a recorded file, its rows are in a file that the record does not name.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from meltline.domain.chunks.layout import ChunkFile, ChunkLayout
from meltline.domain.chunks.sync import SYNC_LATE


@dataclass(frozen=True)
class LateFiles:
    """Files with late rows, as cold's properties name them.

    Attributes:
        numbers: By chunk, the sequence number of each file by its key; None if cold has no record
            at all.
    """

    numbers: Mapping[str, Mapping[str, int]] | None

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> "LateFiles":
        """Reads a table's properties.

        Raises:
            ValueError: The record is damaged: nothing may leave cold then.
        """
        if SYNC_LATE not in properties:
            return cls(None)
        raw = json.loads(properties[SYNC_LATE])
        if not isinstance(raw, dict) or not all(_is_numbers(files) for files in raw.values()):
            raise ValueError(f"{SYNC_LATE} is no list of files by chunk")
        return cls(raw)

    def written(self) -> str:
        """Formats the record for the property."""
        numbers = {name: files for name, files in (self.numbers or {}).items() if files}
        return json.dumps(numbers, separators=(",", ":"), sort_keys=True)

    def has(self, file: ChunkFile, name: str, base: int) -> bool:
        """Whether a file's rows of a chunk are late ones, given the base of its only copy."""
        return file.sequence_number > base and file_key(file.path) in self._of(name)

    def lost(
        self, layout: ChunkLayout, files: Collection[ChunkFile], bases: Mapping[str, int]
    ) -> frozenset[str]:
        """Returns chunks whose late rows are in files that the record does not name.

        A compaction of cold has then rewritten a recorded file. Without a record this may hold for
        every chunk with newer files.

        Args:
            layout: The chunk layout.
            files: The live data files of cold.
            bases: Sequence number up to which cold has the only copy, by chunk.
        """
        if self.numbers is None:
            return frozenset(
                name
                for file in files
                for name in layout.reached(file.times, bases)
                if file.sequence_number > bases[name]
            )
        keys = {file_key(file.path) for file in files} if self.numbers else set[str]()
        return frozenset(
            name
            for name, base in bases.items()
            if any(n > base and key not in keys for key, n in self._of(name).items())
        )

    def may_have(self, bases: Mapping[str, int]) -> bool:
        """Whether some chunk has late rows in cold."""
        if self.numbers is None:
            return bool(bases)
        return any(n > base for name, base in bases.items() for n in self._of(name).values())

    def after(
        self,
        removed: Iterable[str],
        resolved: Mapping[str, int],
        added: Iterable[tuple[str, ChunkFile]],
    ) -> "LateFiles":
        """Returns the record after a copy.

        Args:
            removed: Paths that left cold.
            resolved: Chunks without late rows in earlier files, with their bases. Files up to the
                base stay recorded: a rollback may undo the drop.
            added: New late files, each with a chunk.
        """
        gone = {file_key(path) for path in removed}
        numbers: dict[str, dict[str, int]] = {
            name: {
                key: number
                for key, number in files.items()
                if key not in gone and number <= resolved.get(name, number)
            }
            for name, files in (self.numbers or {}).items()
        }
        for name, file in added:
            numbers.setdefault(name, {})[file_key(file.path)] = file.sequence_number
        return LateFiles(numbers)

    def _of(self, name: str) -> Mapping[str, int]:
        return (self.numbers or {}).get(name, {})


def file_key(path: str) -> str:
    """Short key of a file: the record is written into each metadata file of cold."""
    return sha256(path.encode()).hexdigest()[:16]


def _is_numbers(files: object) -> bool:
    return isinstance(files, dict) and all(isinstance(number, int) for number in files.values())
