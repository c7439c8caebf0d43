"""Records of several input partitions that are processed together, in few batches.

Record by record, a task with two inputs changes from one to the other with nearly every record. A
merged batch has records of all inputs, as they would come one after the other. Each record has its
*place* in that order. It is processed in *rounds*: a record is in the first round, or in the one
behind that of the last record of its key if that is from another input. So records of one key keep
their order, and the others can be a batch for each round and input.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, TypeVar

import attrs

from streamlet.batch import Batch
from streamlet.columnwise import entries_at, highest_time
from streamlet.columnwise import merge_order as order_in_c
from streamlet.columnwise import merge_places as places_in_c
from streamlet.columnwise import merge_rounds as rounds_in_c
from streamlet.types import TopicPartition

T = TypeVar("T")


@attrs.frozen
class InputPlaces:
    """The places of the records of one input, by their offsets.

    Offsets follow one another from ``first`` on; where they do not, ``by_offset`` has the places.
    """

    first: int
    places: list[int]
    by_offset: dict[int, int] | None = None

    @classmethod
    def at(cls, offsets: Sequence[int], places: list[int]) -> InputPlaces:
        """The places of the records with these offsets, one at least."""
        if isinstance(offsets, range) and offsets.step == 1:
            return cls(offsets[0], places)
        return cls(offsets[0], places, dict(zip(offsets, places, strict=True)))

    def of(self, offsets: Sequence[int]) -> list[int]:
        """The places of records with these offsets."""
        if self.by_offset is not None:
            return list(map(self.by_offset.__getitem__, offsets))
        if entries_at is not None:
            return entries_at(self.places, list(offsets), self.first)
        return [self.places[offset - self.first] for offset in offsets]


@attrs.define
class MergedBatch:
    """The batches in the order in which they are processed, and the places of their records.

    ``positions`` are the offsets behind the records of each partition.
    """

    batches: list[Batch]
    places: dict[TopicPartition, InputPlaces]
    positions: dict[TopicPartition, int]

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    @property
    def highest_time(self) -> int:
        """The highest timestamp of its records, ms."""
        return max(highest_time(batch.timestamps) for batch in self.batches)


def merge_order(times: Sequence[list[int]], spread_ms: int | None) -> list[int]:
    """The order in which records of several inputs come, as far as it is certain.

    Of the next records of each input, the one with the lowest time comes first; of equal ones that
    of the first input. That is certain until an input has no more. Not more than ``spread_ms`` lie
    between any two times of the result, which has one record at least.

    Args:
        times: timestamps of the next records of each input, ms, at least one of each.
        spread_ms: the bound; None: there is none.

    Returns:
        The number of the input that gives the next record, for each record.
    """
    if order_in_c is not None:
        return order_in_c(list(times), spread_ms)
    risen = list(map(_risen, times))
    first = min(range(len(risen)), key=lambda at: risen[at][-1])
    end = risen[first][-1]
    flat: list[int] = []
    inputs: list[int] = []
    for at, column in enumerate(risen):
        behind = bisect_right if at <= first else bisect_left
        count = behind(column, end)
        flat += column[:count]
        inputs += [at] * count
    indexes = sorted(range(len(flat)), key=flat.__getitem__)
    order = list(map(inputs.__getitem__, indexes))
    return order if spread_ms is None else _within(order, times, spread_ms)


def _risen(column: list[int]) -> list[int]:
    """The times at which records come: one behind a younger one comes right after that."""
    return column if sorted(column) == column else list(accumulate(column, max))


def _within(order: list[int], times: Sequence[list[int]], spread_ms: int) -> list[int]:
    """The first records of an order, as long as their times are within a spread."""
    ordered = list(_in_order(times, order))
    if max(ordered) - min(ordered) <= spread_ms:
        return order
    lows, highs = accumulate(ordered, min), accumulate(ordered, max)
    for count, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if high - low > spread_ms:
            return order[: max(1, count)]
    return order


@attrs.frozen
class WaitingBounds:
    """The times between which a change concerns no record that another one sends before it.

    ``observed`` is the latest time of a record that may wait, and ``grace_ms`` how far behind that
    one is that waits no longer. ``latest``: a later change makes rows expire that one waits for;
    None: none does. ``waits`` and ``changes`` tell which inputs have such records.
    """

    observed: int
    grace_ms: int
    latest: int | None
    waits: list[bool]
    changes: list[bool]


def until_change(order: list[int], times: Sequence[list[int]], at: WaitingBounds) -> list[int]:
    """The first records of an order, up to a change that a record before it must not see.

    Records that wait are joined behind all changes of their merged batch. One that is sent has a
    time that is not later than the latest one before its sender, less the grace.
    """
    high, sends = at.observed, False
    for count, (one, time) in enumerate(zip(order, _in_order(times, order), strict=True)):
        if sends and at.changes[one]:
            too_late = at.latest is not None and time > at.latest
            if too_late or time <= high - at.grace_ms:
                return order[:count]
        if at.waits[one]:
            high, sends = max(high, time), True
    return order


def _in_order(columns: Sequence[list[T]], order: list[int]) -> Iterator[T]:
    """The entries of each input's column in the order of their records."""
    rests = [iter(column) for column in columns]
    return map(next, map(rests.__getitem__, order))


def merged(parts: Sequence[Batch], order: list[int]) -> MergedBatch:
    """The merged batch of the records in this order.

    Args:
        parts: the records of each input that are taken, which may be none.
        order: as ``merge_order`` gave it.
    """
    found: dict[TopicPartition, InputPlaces] = {}
    positions: dict[TopicPartition, int] = {}
    for part, places in zip(parts, _places(order, len(parts)), strict=True):
        if len(part):
            where = TopicPartition(part.topic, part.partition)
            found[where] = InputPlaces.at(part.offsets, places)
            positions[where] = part.offsets[-1] + 1
    return MergedBatch(_in_rounds(parts, order), found, positions)


def _places(order: list[int], count: int) -> list[list[int]]:
    """The places of each input's records."""
    if places_in_c is not None:
        return places_in_c(order, count)
    # Stable: the places of each input's records, one input after the other.
    places = iter(sorted(range(len(order)), key=order.__getitem__))
    return [list(islice(places, order.count(at))) for at in range(count)]


def _in_rounds(parts: Sequence[Batch], order: list[int]) -> list[Batch]:
    """The records of each round and input as a batch."""
    keys = [part.keys for part in parts]
    if rounds_in_c is not None:
        found = rounds_in_c(order, keys)
    elif _share_keys(parts):
        found = _rounds(order, keys)
    else:
        return [part for part in parts if len(part)]
    return [
        part if len(ones) == len(part) else part.pick(ones)
        for part, ones in ((parts[at], ones) for at, ones in found)
    ]


def _rounds(order: list[int], keys: list[list[Any]]) -> list[tuple[int, list[int]]]:
    """The indexes of the records of each round and input, with the number of the input."""
    count = len(keys)
    counts = [0] * count
    #: Slot number ``r * count + at`` is round ``r`` of input ``at``.
    last: dict[Any, int] = {}
    slots: defaultdict[int, list[int]] = defaultdict(list)
    for at, key in zip(order, _in_order(keys, order), strict=True):
        slot = last.get(key, at)
        if slot % count != at:
            slot += count + at - slot % count
        last[key] = slot
        slots[slot].append(counts[at])
        counts[at] += 1
    return [(slot % count, slots[slot]) for slot in sorted(slots)]


def _share_keys(parts: Sequence[Batch]) -> bool:
    """True if more than one input has records of a key."""
    seen: set[Any] = set()
    for part in sorted(parts, key=len):
        if not seen.isdisjoint(part.keys):
            return True
        seen.update(part.keys)
    return False
