"""Finds where a task begins to read: at its commit, or where ``auto.offset.reset`` says.

An input that came while the application ran (a topic that a pattern found later, an added
partition) begins at its first record under ``latest`` too: its records came after the application.

A commit before the log's start under ``none`` is returned as it is: the task comes up, its consumer
finds nothing there, and the task is halted alone (``tasks.task_failures``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.kafka.ports import Admin
from streamlet.logs import get_logger
from streamlet.topology.nodes import ByDuration
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TopicPartition

log = get_logger(__name__)


@attrs.frozen
class LogRanges:
    """The first offsets of partitions, their ends, and the ends of what is committed.

    ``stable`` are the same as ``ends`` where transactions do not matter.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]

    @classmethod
    def read(cls, admin: Admin, partitions: Sequence[TopicPartition], committed: bool) -> LogRanges:
        """Ask brokers, of all of these at once; ``committed``: also for stable ends.

        Raises:
            BrokerError: the brokers do not answer, or there is no such partition.
        """
        starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
        stable = admin.readable_ends(partitions, read_committed=True) if committed else ends
        return cls(starts, ends, stable)


@attrs.frozen
class InputRange:
    """The offsets an input partition holds, and where to begin in it without a commit.

    ``later``: it came while the application ran. ``remade``: its topic was deleted and made again,
    so that a position that is not there is no lost one. ``readable_end`` is the end of what
    consumers get, where that is another one: under ``read_committed``, while a transaction is open.
    ``young``: under ``by_duration``, the first record that is young enough, or the end.
    """

    first: int
    end: int
    reset: str
    is_table: bool = False
    later: bool = False
    remade: bool = False
    readable_end: int | None = None
    young: int | None = None

    def without_position(self, policy: str) -> int:
        """The offset to read from by a policy that is not ``none``."""
        if policy == "by_duration" and self.young is not None:
            return max(self.first, self.young)
        return self.end if policy == "latest" else self.first

    def start(self, tp: TopicPartition, offset: int) -> int:
        """The first offset to read, with this one committed (-1: none).

        A commit before the first record (retention) is no better than none. One beyond the end
        means that the log lost its end: whether the task may go on there is not decided here
        (``tasks.mismatch``).

        Raises:
            BrokerError: there is no usable commit and ``auto.offset.reset`` is ``none``.
        """
        if offset >= self.first:
            return min(offset, self.end)
        if self.remade and offset < 0:
            return self.first
        if self.reset == "none" and offset >= 0 and not self.is_table:
            return offset
        if self.reset == "none":
            what = "no commit" if offset < 0 else f"commit {offset}"
            raise BrokerError(
                f"{tp}: {what}, the topic holds {self.first} to {self.end}, and auto.offset.reset "
                "is none; set it to earliest or latest, or commit an offset"
            )
        came_later = self.later and offset < 0
        end = self.end if self.readable_end is None else self.readable_end
        start = self.first if came_later else min(self.without_position(self.reset), end)
        if offset >= 0:
            log.warning(
                "%s: commit %d is before what the topic holds (%d to %d); starting at %s, %d",
                tp, offset, self.first, self.end, self.reset, start,
            )  # fmt: skip
        return start


def input_ranges(
    parts: Mapping[TopicPartition, Subtopology],
    logs: LogRanges,
    admin: Admin,
    settings: Settings,
    later: Callable[[TopicPartition], bool],
    remade: Callable[[TopicPartition], bool] = lambda tp: False,
    *,
    now_ms: int,
) -> dict[TopicPartition, InputRange]:
    """The range of each of these input partitions, given with the subtopologies that read them.

    ``logs`` has all of them, with stable ends under ``read_committed``. ``later`` is true of those
    that came while the application ran, ``remade`` of those whose topic was deleted and made again
    meanwhile. ``now_ms``: the wall clock's time.
    """
    readable = logs.stable if settings.read_committed else logs.ends
    policies = {tp: reset_policy(part, tp.topic, settings) for tp, part in parts.items()}
    young = _young(policies, admin, now_ms)
    found = {}
    for tp, part in parts.items():
        found[tp] = InputRange(
            *(logs.starts[tp], logs.ends[tp], policy_name(policies[tp])),
            is_table=is_table(part, tp.topic),
            later=later(tp),
            remade=remade(tp),
            readable_end=readable[tp],
            young=young.get(tp),
        )
    return found


def _young(
    policies: Mapping[TopicPartition, str | ByDuration], admin: Admin, now_ms: int
) -> dict[TopicPartition, int]:
    """The first record of each partition under ``by_duration`` that is young enough, or the end."""
    by_age: dict[int, list[TopicPartition]] = {}
    for tp, policy in policies.items():
        if isinstance(policy, ByDuration):
            by_age.setdefault(policy.ms, []).append(tp)
    found: dict[TopicPartition, int] = {}
    for ms, partitions in by_age.items():
        found |= admin.offsets_at(partitions, max(0, now_ms - ms))
    return found


def reset_policy(subtopology: Subtopology, topic: str, settings: Settings) -> str | ByDuration:
    """The policy for an input topic whose log does not hold the position, as in Kafka's setting."""
    if any(repartition.name == topic for repartition in subtopology.repartitions):
        return "earliest"  # what lies between two subtopologies is all to be processed
    return subtopology.source_of(topic).reset or settings.auto_offset_reset


def policy_name(policy: str | ByDuration) -> str:
    """A policy's name, as metrics have it."""
    return "by_duration" if isinstance(policy, ByDuration) else policy


def is_table(subtopology: Subtopology, topic: str) -> bool:
    """True if a store of the subtopology is a table over this input topic."""
    return any(store.source_topic == topic for store in subtopology.stores)
