"""The 64-bit hash of a location's key: what joins compare.

A collision may only ever keep a file: whoever looks for what nobody needs drops each hash that
somebody needs, and where a hash stands for a manifest the path is compared too (decision 028). The
JVM hashes plain paths itself (`spark_decoder`); both must come to the same number.
"""

import xxhash

from meltline.domain.iceberg.locations import location_key

_SEED = 42  # as Spark's xxhash64 has it


def key_hash(path: str) -> int:
    """XXH64 of the location's key, as a signed 64-bit number."""
    return _hash(location_key(path))


def part_hash(path: str, offset: int | None) -> int | None:
    """Tells entries of one file apart: deletion vectors in it by where they begin, and spellings.

    Engines remove a path as it is written; where it is also there in another spelling, or as
    another vector, the file stays. None is a data file at its plain location.
    """
    spelled = None if location_key(path) == path else _hash(path)
    if offset is None or spelled is None:
        return spelled if offset is None else offset
    return offset ^ spelled


def _hash(text: str) -> int:
    number = xxhash.xxh64_intdigest(text.encode(), _SEED)
    return number - (1 << 64) if number >= 1 << 63 else number
