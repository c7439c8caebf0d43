"""Rates and delays, from one reading of an application after another; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs

from streamlet.admin.advice import Observation
from streamlet.types import TopicPartition
from streamlet.web.live.values import LiveReading

#: The time over which rates are taken, ms.
RATE_MS = 10_000
#: Ends of one partition that are remembered. Of more, every second one is forgotten.
MOST_ENDS = 64


@attrs.frozen
class ArrivalDelay:
    """The age of the oldest record that is not committed, ms; ``at_least``: it may be older."""

    ms: int
    at_least: bool = False


@attrs.define
class _Arrivals:
    """The ends of one partition as readings found them, while they are not committed."""

    ends: deque[tuple[int, int]] = attrs.field(factory=deque)  # when, and the end
    first_ms: int = 0

    def see(self, at_ms: int, committed: int, end: int) -> None:
        while self.ends and self.ends[0][1] <= committed:
            self.ends.popleft()
        if end > committed and (not self.ends or end > self.ends[-1][1]):
            self.ends.append((at_ms, end))
        if len(self.ends) > MOST_ENDS:
            self.ends = deque([*self.ends][::2])

    def delay(self, now_ms: int) -> ArrivalDelay:
        if not self.ends:
            return ArrivalDelay(0)
        since_ms = self.ends[0][0]
        return ArrivalDelay(now_ms - since_ms, at_least=since_ms == self.first_ms)


@attrs.define
class ReadingHistory:
    """The readings of the last seconds, and since when records wait."""

    _readings: deque[Observation] = attrs.field(factory=deque)
    _arrivals: dict[TopicPartition, _Arrivals] = attrs.field(factory=dict)

    def see(self, reading: LiveReading) -> None:
        """Take the next reading."""
        seen = reading.seen
        while len(self._readings) > 1 and seen.at_ms - self._readings[1].at_ms >= RATE_MS:
            self._readings.popleft()
        self._readings.append(attrs.evolve(seen, ends={**reading.ends, **seen.ends}))
        for gone in self._arrivals.keys() - seen.committed.keys():
            del self._arrivals[gone]
        for tp in seen.committed.keys() & seen.ends.keys():
            arrivals = self._arrivals.get(tp)
            if arrivals is None:
                arrivals = self._arrivals[tp] = _Arrivals(first_ms=seen.at_ms)
            arrivals.see(seen.at_ms, seen.committed[tp], seen.ends[tp])

    def committed_rates(self) -> dict[str, float]:
        """Records per second that tasks have done with, by input topic; empty at first."""
        return self._rates(lambda one: one.committed)

    def written_rates(self) -> dict[str, float]:
        """Records per second that came to each topic, from all writers; empty at first."""
        return self._rates(lambda one: one.ends)

    def _rates(
        self, offsets: Callable[[Observation], Mapping[TopicPartition, int]]
    ) -> dict[str, float]:
        if len(self._readings) < 2:
            return {}
        first, last = self._readings[0], self._readings[-1]
        seconds = (last.at_ms - first.at_ms) / 1_000
        before, after = offsets(first), offsets(last)
        grown: dict[str, int] = {}
        for tp in before.keys() & after.keys():
            grown[tp.topic] = grown.get(tp.topic, 0) + max(0, after[tp] - before[tp])
        return {topic: count / seconds for topic, count in grown.items()} if seconds > 0 else {}

    def delays(self) -> dict[str, ArrivalDelay]:
        """The delay of each input topic: that of its partition which is latest."""
        now_ms = self._readings[-1].at_ms if self._readings else 0
        found: dict[str, ArrivalDelay] = {}
        for tp, arrivals in self._arrivals.items():
            delay = arrivals.delay(now_ms)
            if tp.topic not in found or delay.ms > found[tp.topic].ms:
                found[tp.topic] = delay
        return found
