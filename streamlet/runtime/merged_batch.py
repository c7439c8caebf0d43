"""Records of several input partitions that are processed together, in few batches.

Record by record, a task with two inputs changes from one to the other with nearly every record. A
merged batch has records of all inputs, as they would come one after the other. Each record has its
*place* in that order. It is processed in *rounds*: a record is in the first round, or in the one
behind that of the last record of its key if that is from another input. So records of one key keep
their order, and the others can be a batch for each round and input.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, islice
from typing import Any

import attrs

from streamlet.batch import Batch
from streamlet.types import TopicPartition


@attrs.define
class MergedBatch:
    """The batches in the order in which they are processed, and the places of their records.

    ``positions`` are the offsets behind the records of each partition.
    """

    batches: list[Batch]
    places: dict[TopicPartition, dict[int, int]]
    positions: dict[TopicPartition, int]

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @property
    def highest_time(self) -> int:
        """The highest timestamp of its records, ms."""
        return max(max(batch.timestamps) for batch in self.batches)


def merge_order(times: Sequence[list[int]], spread_ms: int | None) -> list[int]:
    """The order in which records of several inputs come, as far as it is certain.

    Of the next records of each input, the one with the lowest time comes first; of equal ones that
    of the first input. That is certain until an input has no more. Not more than ``spread_ms`` lie
    between any two times of the result, which has one record at least.

    Args:
        times: timestamps of the next records of each input, ms, at least one of each.
        spread_ms: the bound; None: there is none.

    Returns:
        Indexes into the records of all inputs, one input after the other.
    """
    # A record behind a younger one of its input comes right after that one.
    risen = [list(accumulate(column, max)) for column in times]
    first = min(range(len(risen)), key=lambda at: risen[at][-1])
    end = risen[first][-1]
    flat: list[int] = []
    indexes: list[int] = []
    start = 0
    for at, column in enumerate(risen):
        behind = bisect_right if at <= first else bisect_left
        count = behind(column, end)
        flat += column
        indexes += range(start, start + count)
        start += len(column)
    indexes.sort(key=flat.__getitem__)
    if spread_ms is None:
        return indexes
    return _within(indexes, list(chain.from_iterable(times)), spread_ms)


def _within(order: list[int], times: list[int], spread_ms: int) -> list[int]:
    """The first records of an order, as long as their times are within a spread."""
    ordered = list(map(times.__getitem__, order))
    if max(ordered) - min(ordered) <= spread_ms:
        return order
    lows, highs = accumulate(ordered, min), accumulate(ordered, max)
    for count, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high - low > spread_ms:
            return order[: max(1, count)]
    return order


def merged(parts: Sequence[Batch], order: list[int]) -> MergedBatch:
    """The merged batch of the records in this order.

    Args:
        parts: the records of each input that are taken, which may be none.
        order: as ``merge_order`` gave it.
    """
    # Each input gives its first records: sorted, their places are those of one after the other.
    places = iter(sorted(range(len(order)), key=order.__getitem__))
    found: dict[TopicPartition, dict[int, int]] = {}
    of_parts: list[list[int]] = []
    for part in parts:
        mine = list(islice(places, len(part)))
        of_parts.append(mine)
        found[TopicPartition(part.topic, part.partition)] = dict(
            zip(part.offsets, mine, strict=True)
        )
    positions = {
        TopicPartition(part.topic, part.partition): part.offsets[-1] + 1
        for part in parts
        if len(part)
    }
    return MergedBatch(_in_rounds(parts, of_parts), found, positions)


def _in_rounds(parts: Sequence[Batch], places: list[list[int]]) -> list[Batch]:
    """The records of each round and input as a batch."""
    shared = _shared_keys(parts)
    if not shared:
        return [part for part in parts if len(part)]
    some = sorted(
        (place, at, index, key)
        for at, part in enumerate(parts)
        for index, (key, place) in enumerate(zip(part.keys, places[at], strict=True))
        if key in shared
    )
    rounds = [[0] * len(part) for part in parts]
    last: dict[Any, tuple[int, int]] = {}
    most = 0
    for _, at, index, key in some:
        number, before = last.get(key, (0, at))
        if before != at:
            number += 1
            most = max(most, number)
        last[key] = number, at
        rounds[at][index] = number
    indexes: list[list[list[int]]] = [[[] for _ in parts] for _ in range(most + 1)]
    for at, numbers in enumerate(rounds):
        for index, number in enumerate(numbers):
            indexes[number][at].append(index)
    return [
        part if len(ones) == len(part) else part.pick(ones)
        for of_round in indexes
        for part, ones in zip(parts, of_round, strict=True)
        if ones
    ]


def _shared_keys(parts: Sequence[Batch]) -> set[Any]:
    """The keys of which more than one input has records."""
    seen: set[Any] = set()
    shared: set[Any] = set()
    for part in parts:
        keys = set(part.keys)
        shared |= seen & keys
        seen |= keys
    return shared
