"""Packs our bytes for the type of the group: bare, or as the user data of ConsumerProtocol.

In a group of type "stream" they are all there is. In one of type "consumer" they lie inside what
every Kafka client says of itself, so that any tool can tell who reads which partition. The version
of that layout tells how a member joins: at V0 it has given up everything before, as consumers
always did; from V1 on it keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from streamlet.assignor.values import Role
from streamlet.rebalance import consumer_protocol as kafka
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import WireError
from streamlet.types import TaskId, TopicPartition

#: Protocol types of a group; all its members are of one.
STREAM, CONSUMER = "stream", "consumer"


class ReadTopics(Protocol):
    """The topics that an application reads, as they are just now."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """All input partitions, sorted."""
        ...

    def inputs_of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions of a task."""
        ...


@attrs.frozen
class FixedTopics:
    """Topics by subtopology, each with a partition for every task."""

    topics: Mapping[int, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def inputs(self) -> tuple[str, ...]:
        """All input partitions, sorted."""
        return tuple(sorted({topic for topics in self.topics.values() for topic in topics}))

    def inputs_of(self, task: TaskId) -> tuple[TopicPartition, ...]:
        """The input partitions of a task."""
        topics = self.topics.get(task.subtopology, ())
        return tuple(TopicPartition(topic, task.partition) for topic in topics)


@attrs.frozen
class Envelope:
    """The facts about an application that ConsumerProtocol carries: what its tasks read."""

    read: ReadTopics = attrs.field(factory=FixedTopics)

    def subscription(
        self, subscription: Subscription, data: bytes, *, eager: bool, generation: int
    ) -> bytes:
        """Put a description into the layout; ``generation`` is that of the claims in it."""
        owned = (task for task, copy in subscription.copies.items() if copy.role is Role.ACTIVE)
        version = kafka.V0 if eager else kafka.V3
        partitions = self._partitions(owned)
        return kafka.encode_subscription(
            kafka.ConsumerSubscription(version, self.read.inputs, data, partitions, generation)
        )

    def assignment(self, answer: Assignment, data: bytes, version: int) -> bytes:
        """Put an answer into the layout of the member's version.

        A task on its way shows at the member that gets it, which has it in milliseconds; one that
        is revoked still shows where it is.
        """
        tasks = answer.active | answer.pending.keys() | answer.revoke
        assigned = self._partitions(tasks)
        return kafka.encode_assignment(kafka.ConsumerAssignment(version, assigned, data))

    def _partitions(self, tasks: Iterable[TaskId]) -> frozenset[TopicPartition]:
        return frozenset(tp for task in tasks for tp in self.read.inputs_of(task))


@attrs.frozen
class Opened:
    """The opened content; ``version`` is that of the layout around it, -1 where there was none."""

    data: bytes
    version: int = -1

    @property
    def eager(self) -> bool:
        """True if its member gives up everything before it joins."""
        return self.version == kafka.V0


def open_subscription(data: bytes, protocol_type: str) -> Opened:
    """Take a description out of what is around it in a group of this type.

    Raises:
        WireError: if that cannot be read.
    """
    if protocol_type != CONSUMER:
        return Opened(data)
    try:
        layout = kafka.decode_subscription(data)
    except kafka.ConsumerProtocolError as error:
        raise WireError(str(error)) from error
    return Opened(layout.user_data, min(layout.version, kafka.V3))


def open_assignment(data: bytes, protocol_type: str) -> bytes:
    """Unwrap an assignment from the envelope of a group of this type.

    Raises:
        WireError: if that cannot be read.
    """
    if protocol_type != CONSUMER:
        return data
    try:
        return kafka.decode_assignment(data).user_data
    except kafka.ConsumerProtocolError as error:
        raise WireError(str(error)) from error
