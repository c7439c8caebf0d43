"""The small values every room speaks in: tasks, topic partitions, state numbers.

Nothing here knows Kafka, a clock or a file.
"""

from __future__ import annotations

from datetime import timedelta
from math import isfinite
from numbers import Real
from typing import NamedTuple, Self, TypeAlias, TypeGuard

from streamlet.user_code import shown


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


#: The latest time that is taken, ms since the epoch: some 146 million years.
LATEST_MS = (1 << 62) - 1
#: The longest span of time, ms. A time and several spans add up to less than 64 bits.
LONGEST_MS = 1 << 59


#: The longest wait, s: threads take no more than three times as much.
_LONGEST_WAIT_S = 100 * 365 * 86_400
#: A length of time where users give seconds.
Seconds: TypeAlias = float | timedelta


def ms_of(duration: Seconds) -> int:
    """Seconds that a user gives in ms, rounded; beyond a hundred years they are these.

    Raises:
        TypeError: they are no number and no ``timedelta``, such as text.
        ValueError: they are not finite.
    """
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    elif not isinstance(duration, Real) or isinstance(duration, bool):
        raise TypeError(f"expected a time in seconds, or a timedelta, not {shown(duration)}")
    if not isfinite(duration):
        raise ValueError(f"{duration} is no time in seconds; None is no limit where that can be")
    return round(min(duration, _LONGEST_WAIT_S) * 1000)


def is_time(given: object) -> TypeGuard[int]:
    """True for an int of ms since the epoch, from 0 to ``LATEST_MS``."""
    return type(given) is int and 0 <= given <= LATEST_MS


class TaskId(NamedTuple):
    """Unit of work and of assignment: one partition of one subtopology, printed ``0_3``."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0_3``.

        Raises:
            ValueError: if the text is not two whole numbers joined by ``_``.
        """
        subtopology, separator, partition = text.partition("_")
        if not separator or not subtopology.isdigit() or not partition.isdigit():
            raise ValueError(f"not a task id: {shown(text)} (expected e.g. 0_3)")
        return cls(int(subtopology), int(partition))


class StateNumber(NamedTuple):
    """Commit ``number`` of the active period ``epoch``; orders all changelog records of a task.

    An active period starts with its claim, number 0, and numbers its commits 1, 2, … A changelog
    record bears the number of the commit that it precedes.
    """

    epoch: int
    number: int


#: Sorts before every record any owner ever wrote.
NO_STATE = StateNumber(0, 0)
