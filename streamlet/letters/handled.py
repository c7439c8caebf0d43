"""The letters of a partition that are dealt with, as the text beside a committed position. Pure.

The position is behind the letters that are all dealt with; the text has those above it, and the
ones that a replay has begun to give back, with the ends of the topics from before it began.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

import attrs

from streamlet.bounded import INT32_MAX, parsed, whole
from streamlet.types import TopicPartition

#: From an offset to before another one, in order.
Ranges: TypeAlias = tuple[tuple[int, int], ...]


@attrs.frozen
class Handled:
    """The state of one partition.

    Attributes:
        low: letters below are dealt with.
        done: others that are.
        doing: letters that a replay has begun, and may have given back.
        ends: end of each partition that these go to, from before.
    """

    low: int = 0
    done: Ranges = ()
    doing: Ranges = ()
    ends: tuple[tuple[TopicPartition, int], ...] = ()

    @classmethod
    def of(cls, low: int, text: str) -> Handled:
        """Read the text beside a position.

        Raises:
            ValueError: it is none of ours.
        """
        if not text:
            return cls(low)
        found = parsed(text)
        try:
            ends = tuple(
                (TopicPartition(str(topic), whole(number, 0, INT32_MAX)), whole(end))
                for topic, number, end in found["ends"]
            )
            return cls(low, _ranges(found["done"]), _ranges(found["doing"]), ends)
        except (KeyError, TypeError) as error:
            raise ValueError(f"no state of dead letters: {error}") from error

    @property
    def text(self) -> str:
        """The text beside the position."""
        ends = [[tp.topic, tp.partition, end] for tp, end in self.ends]
        state: dict[str, Any] = {"done": self.done, "doing": self.doing, "ends": ends}
        return json.dumps(state, separators=(",", ":"))

    def has(self, offset: int) -> bool:
        """True if the letter at an offset is dealt with."""
        return offset < self.low or _in(self.done, offset)

    def began(self, offset: int) -> bool:
        """True if a replay has begun with the letter at an offset, and not ended."""
        return _in(self.doing, offset)

    def beginning(
        self,
        known: Sequence[int],
        begun: Collection[int],
        ends: Iterable[tuple[TopicPartition, int]],
    ) -> Handled:
        """The state as a replay begins with letters."""
        return attrs.evolve(self, doing=_runs(known, begun), ends=tuple(ends))

    def with_done(self, known: Sequence[int], done: Collection[int]) -> Handled:
        """The state once letters are dealt with, and no replay is under way.

        Args:
            known: offsets of all letters at or above ``low`` up to the last of these, in order.
            done: those that are dealt with now.
        """
        every = {offset for offset in known if self.has(offset)} | set(done)
        prefix = 0
        while prefix < len(known) and known[prefix] in every:
            prefix += 1
        low = known[prefix - 1] + 1 if prefix else self.low
        after = known[-1] + 1 if known else self.low
        ahead = [(max(first, after), end) for first, end in self.done if end > after]
        runs = list(_runs(known[prefix:], every))
        if runs and ahead and runs[-1][1] == ahead[0][0]:  # one that was cut above
            ahead[0] = (runs.pop()[0], ahead[0][1])
        return Handled(max(low, self.low), (*runs, *ahead))


def _runs(known: Sequence[int], chosen: Collection[int]) -> Ranges:
    """Chosen offsets as ranges; what lies between two that follow each other is no letter."""
    wanted, found = set(chosen), list[tuple[int, int]]()
    follows = False
    for offset in known:
        if offset not in wanted:
            follows = False
            continue
        if follows:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
        follows = True
    return tuple(found)


def _in(ranges: Ranges, offset: int) -> bool:
    index = bisect_right(ranges, offset, key=lambda one: one[0]) - 1
    return index >= 0 and offset < ranges[index][1]


def _ranges(found: Any) -> Ranges:
    ranges = tuple((whole(first), whole(end)) for first, end in found)
    flat = [offset for one in ranges for offset in one]
    if flat != sorted(flat):
        raise ValueError("ranges that are out of order")
    return ranges
