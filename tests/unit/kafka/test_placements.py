"""Partitioners by name: the same partitions as librdkafka chooses."""

from __future__ import annotations

import ctypes

import pytest
from confluent_kafka import cimpl

from streamlet.kafka.partitioner import KeyPartitioner
from streamlet.kafka.placements import is_anywhere, partitioner_name, place

KEYS = [b"", b"k", b"ann", b"a longer key with more of it", bytes(range(256))]


@pytest.mark.parametrize("name", ["murmur2", "consistent", "fnv1a"])
def test_keys_lie_where_librdkafka_puts_them(name: str) -> None:
    function = getattr(ctypes.CDLL(cimpl.__file__), f"rd_kafka_msg_partitioner_{name}", None)
    if function is None:
        pytest.skip("this build of librdkafka does not export it")
    function.restype = ctypes.c_int32
    function.argtypes = [
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
        *(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p),
    ]
    full = partitioner_name(name)
    keys = [*KEYS, *(b"c%d" % n for n in range(200))]
    for count in (1, 3, 4, 12):
        wanted = [function(None, key, len(key), count, None, None) for key in keys]
        assert [place(full)(key, count) for key in keys] == wanted
        assert KeyPartitioner(count, full).choose(keys, [0] * len(keys)) == wanted


def test_names_are_those_of_librdkafka_and_of_the_hash() -> None:
    assert partitioner_name("crc32") == partitioner_name("consistent") == "consistent_random"
    assert partitioner_name("murmur2") == partitioner_name("murmur2_random") == "murmur2_random"
    for wrong in ("random", "", None, 3):
        with pytest.raises(ValueError, match="is no partitioner of a topic; there are 'murmur2_r"):
            partitioner_name(wrong)


def test_what_librdkafka_puts_anywhere_is_in_no_wrong_place() -> None:
    assert is_anywhere("murmur2_random", None)
    assert not is_anywhere("murmur2_random", b"")
    assert is_anywhere("consistent_random", b"")
