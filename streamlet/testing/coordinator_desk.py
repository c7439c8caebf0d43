"""The parts of a group inside the fake coordinator; the behaviour is in ``coordinator_group``."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Hashable
from typing import Any, Self, TypeAlias

import attrs

from streamlet.coordinator.messages import JoinGroup

RequestId: TypeAlias = Hashable


OK = 0
UNKNOWN_SERVER_ERROR = -1
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82


UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_METADATA_TOO_LARGE = 12
INVALID_GROUP_ID = 24
INVALID_SESSION_TIMEOUT = 26
GROUP_ID_NOT_FOUND = 69
UNSTABLE_OFFSET_COMMIT = 88


class GroupPhase(enum.StrEnum):
    """The states of a group, named as ``DescribeGroups`` names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@attrs.frozen
class BrokerRules:
    """The broker's settings that shape its answers; Kafka's defaults but for the initial delay."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    max_group_size: int = 2**31 - 1
    new_member_timeout_ms: int = 300_000
    offset_metadata_max: int = 4_096
    record_max_bytes: int = 1_048_588


@attrs.define(eq=False)
class CoordinatorMember:
    """A member; ``join_request`` and ``sync_request`` are what it waits for an answer to."""

    member_id: str
    instance_id: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: bytes = b""
    is_new: bool = False  # its first join is not answered yet, so it cannot heartbeat
    join_request: RequestId | None = None
    sync_request: RequestId | None = None

    @classmethod
    def of(cls, join: JoinGroup, member_id: str, **more: Any) -> Self:
        """The member that a JoinGroup makes."""
        timeouts = join.session_timeout_ms, join.rebalance_timeout_ms
        return cls(member_id, join.instance_id, join.protocols, *timeouts, **more)

    @property
    def waits(self) -> bool:
        """A member that waits for us cannot be late."""
        return not self.is_new and not (self.join_request is None and self.sync_request is None)

    def metadata(self, protocol: str | None) -> bytes:
        """The metadata it sent under the chosen protocol."""
        return dict(self.protocols).get(protocol or "", b"")


class Timers:
    """The scheduled events, one entry per key; times are ms."""

    def __init__(self) -> None:
        #: The number of each key's live entry; a heap entry with another number is stale.
        self._live: dict[tuple[str, str], int] = {}
        self._heap: list[tuple[int, int, tuple[str, str], Callable[[], None]]] = []
        self._number = 0

    def schedule(self, group: str, key: str, at_ms: int, action: Callable[[], None]) -> None:
        """Run ``action`` then, in place of what was scheduled under this key."""
        self._number += 1
        self._live[group, key] = self._number
        heapq.heappush(self._heap, (at_ms, self._number, (group, key), action))

    def cancel(self, group: str, key: str) -> None:
        """Forget what was scheduled under this key."""
        self._live.pop((group, key), None)

    def next_ms(self) -> int | None:
        """The time at which the earliest entry is due."""
        while self._heap and self._live.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[int, Callable[[], None]]:
        """Take the earliest entry out; only after ``next_ms`` named one."""
        at_ms, _, key, action = heapq.heappop(self._heap)
        del self._live[key]
        return at_ms, action

    def clear(self) -> None:
        """Forget everything."""
        self._live.clear()
        self._heap.clear()
