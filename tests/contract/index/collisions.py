"""Two paths with one 64-bit hash: XXH64 is no secret, and finding such a pair takes a second."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from meltline.adapters.manifests.path_hash import _SEED, key_hash

_P1, _P2 = 11400714785074694791, 14029467366897019727  # XXH64's first two primes
_WORD = 1 << 64
_STRIPE, _LANE = 32, 8
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", np.uint8)
_USUAL = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.").union(_LETTERS.tolist())


def colliding(folder: str, suffix: str) -> tuple[str, str]:
    """Two paths of one length under a folder, with one hash.

    The first lane of each stripe goes into one accumulator, and a lane can be chosen so that it
    takes back what another one before it has changed.

    Args:
        folder: As it is hashed, without a slash at its end.
        suffix: How both end.
    """
    head = f"{folder}/".encode()
    head += b"m" * (-len(head) % _STRIPE)
    start = (_SEED + _P1 + _P2) % _WORD
    for at in range(0, len(head), _STRIPE):
        start = _mixed(start, head[at : at + _LANE])
    plain = b"0" * _LANE
    wanted = (_mixed(start, plain) + _number(plain) * _P2) % _WORD
    first, second = next(_pairs(start, wanted))
    rest = b"0" * (_STRIPE - _LANE)
    one, other = (
        b"".join((head, a, rest, b, rest, suffix.encode())).decode()
        for a, b in ((plain, plain), (first, second))
    )
    assert one != other and key_hash(one) == key_hash(other)
    return one, other


def _number(lane: bytes) -> int:
    return int.from_bytes(lane, "little")


def _mixed(accumulator: int, lane: bytes) -> int:
    mixed = (accumulator + _number(lane) * _P2) % _WORD
    return ((mixed << 31) | (mixed >> 33)) % _WORD * _P1 % _WORD


def _pairs(start: int, wanted: int) -> Iterator[tuple[bytes, bytes]]:
    """A lane, and the later one after which the accumulator is what it would have been."""
    random, undo = np.random.default_rng(1), pow(_P2, -1, _WORD)
    usual = np.isin(np.arange(256), list(_USUAL))
    while True:
        lanes = _LETTERS[random.integers(0, len(_LETTERS), (1 << 20, _LANE))]
        mixed = np.uint64(start) + lanes.view("<u8").ravel() * np.uint64(_P2)
        mixed = ((mixed << np.uint64(31)) | (mixed >> np.uint64(33))) * np.uint64(_P1)
        later = ((np.uint64(wanted) - mixed) * np.uint64(undo)).view(np.uint8).reshape(-1, _LANE)
        for at in islice(np.flatnonzero(usual[later].all(axis=1)), 1):
            yield lanes[at].tobytes(), later[at].tobytes()
