"""The numbers that place records: Kafka's partition of a key, Spark's shuffle partition.

Spark groups by an int and hashes it, and hashes of small numbers are as uneven as dice: partitions
0 and 1 of a topic land on the same one of two shuffle partitions. So every task gets a number whose
hash is known to lead where the task belongs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Tasks are dealt out evenly over so many shuffle partitions as divide this: every number up to 10,
#: all powers of two up to 128, 200 (Spark's default). It must never change: a task's state is kept
#: under its group.
MODULUS = 201_600

#: Spark's seed of ``hash()``.
_SEED = 42
_BLOCK = 1 << 20
_KEYS_REMEMBERED = 1 << 17


@lru_cache
def groups(count: int) -> tuple[int, ...]:
    """Numbers to group by: the i-th goes to shuffle partition ``i % n`` for each n named above.

    Remembered: to find them takes some 0.1 s, and the stages of a query have like counts.
    """
    import numpy as np

    assert count <= MODULUS, f"{count} groups"
    found: dict[int, int] = {}
    first = 0
    while len(found) < count:
        numbers = np.arange(first, first + _BLOCK, dtype=np.int64)
        residues = spark_hash(numbers) % MODULUS
        wanted = np.flatnonzero(residues < count)
        at, where = np.unique(residues[wanted], return_index=True)
        for residue, index in zip(at.tolist(), wanted[where].tolist(), strict=True):
            found.setdefault(residue, first + index)
        first += _BLOCK
    return tuple(found[i] for i in range(count))


def shuffle_partitions(tasks: int, cores: int) -> int:
    """The number of shuffle partitions that a stage of so many tasks should have.

    No more than there are cores, for each costs time in every batch, and no more than it takes to
    give none more tasks than another must have anyway.
    """
    most = -(-tasks // max(1, min(tasks, cores)))
    wanted = max(1, -(-tasks // most))
    return next(n for n in range(wanted, 0, -1) if MODULUS % n == 0)


def spark_hash(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Spark's ``hash()`` of ints: murmur3 of 32 bits, signed."""
    import numpy as np

    low = np.uint64(0xFFFFFFFF)

    def times(x: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
        return (x * np.uint64(factor)) & low

    def turned(x: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
        return ((x << np.uint64(by)) | (x >> np.uint64(32 - by))) & low

    mixed = times(turned(times(numbers.astype(np.uint64) & low, 0xCC9E2D51), 15), 0x1B873593)
    hashed = turned(np.uint64(_SEED) ^ mixed, 13)
    hashed = (times(hashed, 5) + np.uint64(0xE6546B64)) & low
    hashed ^= np.uint64(4)  # the length of an int
    hashed = times(hashed ^ (hashed >> np.uint64(16)), 0x85EBCA6B)
    hashed = times(hashed ^ (hashed >> np.uint64(13)), 0xC2B2AE35)
    hashed ^= hashed >> np.uint64(16)
    return hashed.astype(np.uint32).astype(np.int32).astype(np.int64)


@lru_cache(_KEYS_REMEMBERED)
def key_hash(key: bytes) -> int:
    """The hash of a key by Java's default partitioner: murmur2, made positive.

    Remembered, because it takes Python some microseconds and a batch has its keys many times.
    """
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    size = len(key)
    hashed = 0x9747B28C ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * factor & mask
        word = (word ^ (word >> 24)) * factor & mask
        hashed = (hashed * factor & mask) ^ word
    if size > whole:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * factor & mask
    hashed = (hashed ^ (hashed >> 13)) * factor & mask
    return (hashed ^ (hashed >> 15)) & 0x7FFFFFFF
