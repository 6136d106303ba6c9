"""The 64-bit hash of a location's key: what joins compare. A collision may only keep a file."""

import xxhash

from meltline.domain.locations import location_key

_SEED = 42  # as Spark's xxhash64 has it


def key_hash(path: str) -> int:
    """XXH64 of the location's key, as a signed 64-bit number."""
    number = xxhash.xxh64_intdigest(location_key(path).encode(), _SEED)
    return number - (1 << 64) if number >= 1 << 63 else number
