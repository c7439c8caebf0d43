"""Partitioners of producers by librdkafka's names: the partition of a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias
from zlib import crc32

from streamlet.kafka.murmur2 import partition_of
from streamlet.user_code import shown

#: A partitioner by librdkafka's name, with or without ``_random``, or by that of its hash.
PartitionerName: TypeAlias = Literal[
    "murmur2_random",
    "murmur2",
    "consistent_random",
    "consistent",
    "crc32",
    "fnv1a_random",
    "fnv1a",
]

#: Java's default, and what streamlet writes.
DEFAULT = "murmur2_random"

_FNV_PRIME, _FNV_OFFSET = 0x01000193, 0x811C9DC5
_MASK = 0xFFFFFFFF


def _by_crc32(key: bytes, partitions: int) -> int:
    return crc32(key) % partitions


def _by_fnv1a(key: bytes, partitions: int) -> int:
    """FNV-1a of 32 bits, its absolute value as a signed number, as librdkafka and Sarama do."""
    found = _FNV_OFFSET
    for byte in key:
        found = (found ^ byte) * _FNV_PRIME & _MASK
    return (found if found < 1 << 31 else (1 << 32) - found) % partitions


_PLACES: Mapping[str, Callable[[bytes, int], int]] = {
    "murmur2_random": partition_of,
    "consistent_random": _by_crc32,
    "fnv1a_random": _by_fnv1a,
}
#: Full names of all partitioners.
PARTITIONERS = (*_PLACES,)
_NAMES = {
    **{name: name for name in _PLACES},
    **{name.removesuffix("_random"): name for name in _PLACES},
    "crc32": "consistent_random",
}


def partitioner_name(given: object) -> str:
    """The full name of a partitioner.

    Raises:
        ValueError: there is no such partitioner; the message lists those there are.
    """
    if isinstance(given, str) and given in _NAMES:
        return _NAMES[given]
    known = ", ".join(map(repr, _NAMES))
    raise ValueError(f"{shown(given)} is no partitioner of a topic; there are {known}")


def place(partitioner: str) -> Callable[[bytes, int], int]:
    """The function ``(key, partitions) -> partition`` of a partitioner by its full name."""
    return _PLACES[partitioner]


def is_anywhere(partitioner: str, key: bytes | None) -> bool:
    """True if the partitioner may put this key into any partition: librdkafka's of no text."""
    return key is None or (not key and partitioner == "consistent_random")
