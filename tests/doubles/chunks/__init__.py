"""The ports of `meltline.ports.chunks` and rollups in memory: rows are the bytes of their files."""

from tests.doubles.chunks.commits import TableWriter as TableWriter
from tests.doubles.chunks.complete import complete_rows_of as complete_rows_of
from tests.doubles.chunks.dropper import MemoryChunkDropper as MemoryChunkDropper
from tests.doubles.chunks.replicator import MemoryReplicator as MemoryReplicator
from tests.doubles.chunks.rollup_engine import MemoryRollupEngine as MemoryRollupEngine
from tests.doubles.chunks.row_reader import MemoryChunkRows as MemoryChunkRows
