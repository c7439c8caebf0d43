"""Packs our bytes for the type of the group: bare, or as the user data of ConsumerProtocol.

In a group of type "stream" they are all there is. In one of type "consumer" they lie inside what
every Kafka client says of itself, so that any tool can tell who reads which partition. The version
of that layout tells how a member joins: at V0 it has given up everything before, as consumers
always did; from V1 on it keeps what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from streamlet.assignor.values import Role
from streamlet.group import consumer_protocol as kafka
from streamlet.group.values import Assignment, Subscription
from streamlet.group.wire import WireError
from streamlet.types import TaskId, TopicPartition

#: Protocol types of a group; all its members are of one.
STREAM, CONSUMER = "stream", "consumer"


@attrs.frozen
class Envelope:
    """The facts about a topology that ConsumerProtocol carries: input topics by subtopology."""

    inputs: Mapping[int, tuple[str, ...]] = attrs.field(factory=dict)

    def subscription(
        self, said: Subscription, data: bytes, *, eager: bool, generation: int
    ) -> bytes:
        """Put a description into the layout; ``generation`` is that of the claims in it."""
        owned = (task for task, copy in said.copies.items() if copy.role is Role.ACTIVE)
        topics = sorted({topic for topics in self.inputs.values() for topic in topics})
        version = kafka.V0 if eager else kafka.V3
        return kafka.encode_subscription(
            kafka.ConsumerSubscription(
                version, tuple(topics), data, self._partitions(owned), generation
            )
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
        return frozenset(
            TopicPartition(topic, task.partition)
            for task in tasks
            for topic in self.inputs.get(task.subtopology, ())
        )


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
    """Take an answer out of what is around it in a group of this type.

    Raises:
        WireError: if that cannot be read.
    """
    if protocol_type != CONSUMER:
        return data
    try:
        return kafka.decode_assignment(data).user_data
    except kafka.ConsumerProtocolError as error:
        raise WireError(str(error)) from error
