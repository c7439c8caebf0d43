"""Bytes of the partitions protocol: Kafka's ConsumerProtocol (``consumer_protocol``) at V0 and V1.

What Kafka's layout has no place for travels in ``user_data``, behind four bytes of ours: of a
subscription the nonce, the generation of its claims and the member's tags; of an assignment the
error code, what it answers, and the revoked partitions.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from hashlib import blake2b

import attrs

from streamlet.rebalance import consumer_protocol as kafka
from streamlet.types import TopicPartition

#: Gives everything up before it joins; keeps what it has and revokes what the leader asks for.
V0_EAGER, V1_COOPERATIVE = kafka.V0, kafka.V1

_MAGIC = b"SLP1"
_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_IDENTITY_BYTES = 8


class PartitionsError(enum.IntEnum):
    """The notices of a leader besides the partitions."""

    NONE = 0
    INCOMPATIBLE = 1  # members of V0 and V1 are in the group at the same time
    UNREADABLE = 2  # fatal: the leader cannot read what this member says


@attrs.frozen
class PartitionsSubscription:
    """A consumer's subscription.

    ``owned`` are its claims, none at V0; ``generation`` is that of the assignment they come from,
    -1 for none. ``nonce`` changes to force a rebalance.
    """

    version: int
    topics: tuple[str, ...]
    owned: frozenset[TopicPartition] = frozenset()
    nonce: int = 0
    generation: int = -1
    tags: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def identity(self) -> bytes:
        """Tells apart members whose answers differ though they own the same."""
        facts = (self.version, self.topics, sorted(self.tags.items()))
        return blake2b(repr(facts).encode(), digest_size=_IDENTITY_BYTES).digest()


@attrs.frozen
class PartitionsAssignment:
    """The leader's answer. ``answers`` and ``identity`` are the subscription's it was made for."""

    version: int
    assigned: frozenset[TopicPartition] = frozenset()
    revoked: frozenset[TopicPartition] = frozenset()
    error: int = PartitionsError.NONE
    answers: int = 0
    identity: bytes = bytes(_IDENTITY_BYTES)


def encode_subscription(member: PartitionsSubscription) -> bytes:
    """Write a subscription in the layout of its version."""
    ours = (
        _MAGIC
        + _LONG.pack(member.nonce)
        + _INT.pack(member.generation)
        + _INT.pack(len(member.tags))
    )
    ours += b"".join(kafka.text(k) + kafka.text(value) for k, value in sorted(member.tags.items()))
    layout = kafka.ConsumerSubscription(member.version, member.topics, ours, member.owned)
    return kafka.encode_subscription(layout)


def decode_subscription(data: bytes) -> PartitionsSubscription:
    """Read a subscription, also one of another client.

    Raises:
        ConsumerProtocolError: if the bytes are malformed.
    """
    layout = kafka.decode_subscription(data)
    version = min(layout.version, V1_COOPERATIVE)
    ours = kafka.ByteReader(layout.user_data)
    if not ours.skip(_MAGIC):
        return PartitionsSubscription(version, layout.topics, layout.owned)
    nonce, generation = ours.number(_LONG), ours.number(_INT)
    tags = {ours.text(): ours.text() for _ in range(ours.count())}
    return PartitionsSubscription(version, layout.topics, layout.owned, nonce, generation, tags)


def encode_assignment(answer: PartitionsAssignment) -> bytes:
    """Write an assignment."""
    ours = _MAGIC + _SHORT.pack(answer.error) + _LONG.pack(answer.answers) + answer.identity
    ours += kafka.partitions(answer.revoked)
    return kafka.encode_assignment(kafka.ConsumerAssignment(answer.version, answer.assigned, ours))


def decode_assignment(data: bytes) -> PartitionsAssignment:
    """Read an assignment; no bytes at all are an empty one.

    Raises:
        ConsumerProtocolError: if the bytes are malformed.
    """
    layout = kafka.decode_assignment(data)
    version = min(layout.version, V1_COOPERATIVE)
    ours = kafka.ByteReader(layout.user_data)
    if not ours.skip(_MAGIC):
        return PartitionsAssignment(version, layout.assigned)
    error, answers = ours.number(_SHORT), ours.number(_LONG)
    identity = ours.take(_IDENTITY_BYTES)
    return PartitionsAssignment(
        version, layout.assigned, ours.partitions(), error, answers, identity
    )
