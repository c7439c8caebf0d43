"""Partitions by key: what Kafka's clients choose, at a cost that does not grow with the keys."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from typing import Never

import pytest

from streamlet.kafka import partitioner
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.partitioner import KeyPartitioner


class LookedUp(dict[bytes, int]):
    """A dict that can be asked for a key, not gone through."""

    def __iter__(self) -> Iterator[Never]:
        raise AssertionError("all the keys were gone through")

    def keys(self) -> KeysView[bytes]:
        raise AssertionError("all the keys were gone through")


def test_new_keys_are_chosen_for_without_a_walk_through_those_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chooser = KeyPartitioner(8)
    monkeypatch.setattr(chooser, "_known", LookedUp({b"a": 5}))
    found = chooser.choose([b"a", b"b", None, b"b"], range(11, 15))
    assert found == [5, partition_of(b"b", 8), 13 % 8, partition_of(b"b", 8)]


def test_keys_are_forgotten_when_there_are_too_many_and_chosen_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitioner, "partitions_of", None)  # as without the extension
    monkeypatch.setattr(partitioner, "_REMEMBERED", 3)
    chooser = KeyPartitioner(8)
    for keys in ([b"a", b"b"], [b"b", b"c"], [b"c", b"d", b"a"], [b"a", b"e", b"f", b"g"]):
        assert chooser.choose(keys, range(len(keys))) == [partition_of(key, 8) for key in keys]
    assert len(chooser._known) == 4
