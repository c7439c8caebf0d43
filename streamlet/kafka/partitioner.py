"""Chooses partitions by key, as a producer would, a column at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from confluent_kafka import cimpl

from streamlet.columnwise import all_of, partitions_of
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.placements import DEFAULT, place

#: Keys whose partition is remembered; all are forgotten when there are more.
_REMEMBERED = 100_000


class KeyPartitioner:
    """Chooses the partitions of one topic's records.

    Args:
        partitions: how many it has.
        name: of the partitioner, in full.
    """

    def __init__(self, partitions: int, name: str = DEFAULT) -> None:
        self.partitions = partitions
        self._of = _hashing(partitions) if name == DEFAULT else _placing(partitions, name)
        self._quick = partitions_of if name == DEFAULT else None
        self._known: dict[bytes, int] = {}

    def choose(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> list[int]:
        """The partition of each record; one without a key goes by the offset of its origin."""
        if self._quick is not None and type(keys) is list and all_of(keys, bytes):
            return self._quick(keys, self.partitions)
        known = self._known
        try:
            return [known[key] for key in keys]  # type: ignore[index]
        except KeyError:
            self._learn(keys)
        known = self._known
        return [
            offset % self.partitions if key is None else known[key]
            for key, offset in zip(keys, offsets, strict=True)
        ]

    def _learn(self, keys: Sequence[bytes | None]) -> None:
        known, of = self._known, self._of
        # Not a difference of two sets: that goes through all the keys that are remembered.
        new = {key for key in keys if key is not None and key not in known}
        if len(known) + len(new) > _REMEMBERED:
            known = self._known = {}
            new = {key for key in keys if key is not None}
        for key in new:
            known[key] = of(key)


def _placing(partitions: int, name: str) -> Callable[[bytes], int]:
    placed = place(name)
    return lambda key: placed(key, partitions)


def _hashing(partitions: int) -> Callable[[bytes], int]:
    """The partition of a key by librdkafka, or in Python where that does not export its own."""
    murmur2 = getattr(ctypes.CDLL(cimpl.__file__), "rd_kafka_msg_partitioner_murmur2", None)
    if murmur2 is None:
        return lambda key: partition_of(key, partitions)
    murmur2.restype = ctypes.c_int32
    murmur2.argtypes = [
        ctypes.c_void_p,
        *(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32),
        *(ctypes.c_void_p, ctypes.c_void_p),
    ]

    def of(key: bytes) -> int:
        return int(murmur2(None, key, len(key), partitions, None, None))

    return of
