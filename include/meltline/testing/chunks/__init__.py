"""The ports of `meltline.ports.chunks` and rollups in memory: rows are the bytes of their files."""

from meltline.testing.chunks.commits import TableWriter as TableWriter
from meltline.testing.chunks.complete import complete_rows_of as complete_rows_of
from meltline.testing.chunks.dropper import MemoryChunkDropper as MemoryChunkDropper
from meltline.testing.chunks.replicator import MemoryReplicator as MemoryReplicator
from meltline.testing.chunks.rollup_engine import MemoryRollupEngine as MemoryRollupEngine
from meltline.testing.chunks.row_reader import MemoryChunkRows as MemoryChunkRows
