"""Every way in which partitions by age could fail."""

from tests.mutation.chunked.backlogs import BACKLOGS
from tests.mutation.chunked.chunks import CHUNKS, COMPLETE_ROWS
from tests.mutation.chunked.cold_checksums import COLD_CHECKSUMS
from tests.mutation.chunked.cold_counts import COLD_COUNTS
from tests.mutation.chunked.cold_owners import COLD_OWNERS
from tests.mutation.chunked.cold_upkeep import COLD_UPKEEP
from tests.mutation.chunked.drop_standings import DROP_STANDINGS
from tests.mutation.chunked.kept_deletes import KEPT_DELETES
from tests.mutation.chunked.rollups import ROLLUPS
from tests.mutation.chunked.synced_tables import SYNCED_TABLES

CHUNKED = (
    *BACKLOGS,
    *CHUNKS,
    *COMPLETE_ROWS,
    *COLD_CHECKSUMS,
    *COLD_COUNTS,
    *COLD_OWNERS,
    *COLD_UPKEEP,
    *DROP_STANDINGS,
    *KEPT_DELETES,
    *ROLLUPS,
    *SYNCED_TABLES,
)
