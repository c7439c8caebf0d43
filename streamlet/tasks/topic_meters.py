"""Counters of the topics that a worker reads and writes: records, bytes, time to output.

Counted by batch. Bytes and times are those of a few records of each batch, which stand for the
others, so the cost does not grow with the number of records.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from streamlet.clock import Clock
from streamlet.histogram import Histogram
from streamlet.kafka.ports import PartitionBatch
from streamlet.kafka.queue_bound import mean_size
from streamlet.processing.outputs import Output

#: How many records of a batch are looked at, about.
_SAMPLE = 16
#: Topics that are told apart; a program may choose one for each record. What goes beyond is
#: counted under ``OTHERS``.
MOST_TOPICS = 500
OTHERS = "(others)"
#: Topics of which a member reports how slow they are.
MOST_SLOWEST = 16
#: A maximum is that of at least ``MAX_MS``, kept in slots of ``_SLOT_MS``: Kafka's window.
MAX_MS = 30_000
_SLOT_MS = 5_000


@attrs.define
class RecentMax:
    """The highest of the values of the last half minute."""

    _slots: dict[int, float] = attrs.field(factory=dict)

    def add(self, now_ms: int, value: float) -> None:
        """Note a value of this time."""
        slot = now_ms // _SLOT_MS
        if value > self._slots.get(slot, -1.0):
            self._slots[slot] = value
            if len(self._slots) > MAX_MS // _SLOT_MS + 1:
                self._forget(slot)

    def value(self, now_ms: int) -> float:
        """The highest one; 0 without any."""
        self._forget(now_ms // _SLOT_MS)
        return max(self._slots.values(), default=0.0)

    def has_any(self, now_ms: int) -> bool:
        """True if there is one."""
        self._forget(now_ms // _SLOT_MS)
        return bool(self._slots)

    def _forget(self, slot: int) -> None:
        oldest = slot - MAX_MS // _SLOT_MS
        self._slots = {at: value for at, value in self._slots.items() if at >= oldest}


@attrs.define
class TopicMeter:
    """The counters of one topic."""

    records: int = 0
    bytes: int = 0
    #: Of what is written: the times from the timestamps of records until they were sent.
    latency: Histogram = attrs.field(factory=Histogram)
    latency_max: RecentMax = attrs.field(factory=RecentMax)

    def add_latency(self, timestamps: Sequence[int], wall_ms: int, now_ms: int) -> None:
        """Count how old records are; a timestamp in the future counts as now."""
        left = len(timestamps)
        step = 1 + left // _SAMPLE
        some = timestamps[step // 2 :: step]
        for number, time_ms in enumerate(some, 1):
            count = step if number < len(some) else left
            self.latency.add(max(0, wall_ms - time_ms) / 1000, count)
            left -= count
        most = max(0, wall_ms - min(timestamps[0], *some)) / 1000
        self.latency_max.add(now_ms, most)


@attrs.define(eq=False)
class TopicMeters:
    """The counters of all topics of a worker."""

    _clock: Clock
    consumed: dict[str, TopicMeter] = attrs.field(factory=dict, init=False)
    produced: dict[str, TopicMeter] = attrs.field(factory=dict, init=False)

    def read(self, batch: PartitionBatch) -> int:
        """Count a batch that was read; returns the mean size of its records, bytes."""
        one, count = _meter(self.consumed, batch.topic), len(batch.keys)
        size = mean_size(batch.keys, batch.values, batch.headers)
        one.records += count
        one.bytes += count * size
        return size

    def written(self, outputs: Sequence[Output]) -> None:
        """Count outputs that were handed to the producer."""
        wall_ms, now_ms = self._clock.wall_ms(), self._clock.now_ms()
        for output in outputs:
            one, count = _meter(self.produced, output.topic), len(output.keys)
            one.records += count
            one.bytes += count * mean_size(output.keys, output.values, output.headers)
            one.add_latency(output.timestamps, wall_ms, now_ms)

    def latency_max(self) -> dict[tuple[str, ...], float]:
        """The longest time to output of the last half minute, seconds, by topic."""
        now_ms = self._clock.now_ms()
        return {(topic,): one.latency_max.value(now_ms) for topic, one in self.produced.items()}

    def slowest(self) -> tuple[tuple[str, int], ...]:
        """Topics written of late with those times, ms, the slowest ones first; a few."""
        now_ms = self._clock.now_ms()
        found = {
            topic: round(one.latency_max.value(now_ms) * 1_000)
            for topic, one in self.produced.items()
            if one.latency_max.has_any(now_ms)
        }
        return tuple(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:MOST_SLOWEST])


def _meter(meters: dict[str, TopicMeter], topic: str) -> TopicMeter:
    found = meters.get(topic)
    if found is None:
        topic = topic if len(meters) < MOST_TOPICS else OTHERS
        found = meters.setdefault(topic, TopicMeter())
    return found
