"""The 64-bit hash of a location's key, by which all joins compare paths.

A collision can only keep a file: a search for unreferenced files drops every hash that is
referenced. Where a hash identifies a manifest, the path is compared too (decision 028). The JVM
hashes plain paths itself (`spark_decoder`); both must compute the same number.
"""

import xxhash

from meltline.domain.iceberg.locations import location_key

_SEED = 42  # the seed of Spark's xxhash64


def key_hash(path: str) -> int:
    """Returns XXH64 of the location's key, as a signed 64-bit number."""
    return _hash(location_key(path))


def part_hash(path: str, offset: int | None) -> int | None:
    """Distinguishes entries of one file: deletion vectors by their offsets, and spellings.

    Engines remove a path as it is spelled. If it also exists in another spelling, or as
    another vector, the file stays. None is a data file at its plain location.
    """
    spelled = None if location_key(path) == path else _hash(path)
    if offset is None or spelled is None:
        return spelled if offset is None else offset
    return offset ^ spelled


def _hash(text: str) -> int:
    number = xxhash.xxh64_intdigest(text.encode(), _SEED)
    return number - (1 << 64) if number >= 1 << 63 else number
