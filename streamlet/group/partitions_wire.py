"""Bytes of the partitions protocol: Kafka's own ConsumerProtocol, read by every Kafka tool.

::

    subscription  V0: version topics user_data      V1: … owned_partitions
    assignment    V0, V1: version assigned_partitions user_data

What Kafka's layout has no place for travels in ``user_data``, behind four bytes of ours: of a
subscription the nonce, the generation of its claims and the member's tags; of an assignment the
error code, what it answers, and the revoked partitions. Numbers are big-endian, as Kafka's are.

Later versions of the layout only add fields at the end, so what is there is read as V1.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable
from hashlib import blake2b

import attrs

from streamlet.errors import GroupError
from streamlet.types import TopicPartition

#: Gives everything up before it joins; keeps what it has and revokes what the leader asks for.
V0_EAGER, V1_COOPERATIVE = 0, 1

_MAGIC = b"SLP1"
_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_IDENTITY_BYTES = 8


class PartitionsWireError(GroupError):
    """Bytes of another member that are no subscription or assignment of the consumer protocol."""


class PartitionsError(enum.IntEnum):
    """What a leader has to say besides the partitions."""

    NONE = 0
    INCOMPATIBLE = 1  # members of V0 and V1 are in the group at the same time
    UNREADABLE = 2  # fatal: the leader cannot read what this member says


@attrs.frozen
class Subscription:
    """What a member says when it joins.

    ``owned`` are its claims, none at V0; ``generation`` is that of the assignment they come from,
    -1 for none. ``nonce`` changes to force a rebalance.
    """

    version: int
    topics: tuple[str, ...]
    owned: frozenset[TopicPartition] = frozenset()
    nonce: int = 0
    generation: int = -1
    tags: dict[str, str] = attrs.field(factory=dict)

    @property
    def identity(self) -> bytes:
        """Tells apart members whose answers differ though they own the same."""
        said = (self.version, self.topics, sorted(self.tags.items()))
        return blake2b(repr(said).encode(), digest_size=_IDENTITY_BYTES).digest()


@attrs.frozen
class Assignment:
    """The leader's answer. ``answers`` and ``identity`` are the subscription's it was made for."""

    version: int
    assigned: frozenset[TopicPartition] = frozenset()
    revoked: frozenset[TopicPartition] = frozenset()
    error: int = PartitionsError.NONE
    answers: int = 0
    identity: bytes = bytes(_IDENTITY_BYTES)


def encode_subscription(said: Subscription) -> bytes:
    """Write a subscription in the layout of its version."""
    ours = _MAGIC + _LONG.pack(said.nonce) + _INT.pack(said.generation) + _INT.pack(len(said.tags))
    ours += b"".join(_text(name) + _text(value) for name, value in sorted(said.tags.items()))
    topics = b"".join(map(_text, said.topics))
    data = _SHORT.pack(said.version) + _INT.pack(len(said.topics)) + topics + _sized(ours)
    return data if said.version == V0_EAGER else data + _partitions(said.owned)


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription, also one of another client.

    Raises:
        PartitionsWireError: if the bytes are malformed.
    """
    reader = _Reader(data)
    version = min(reader.version(), V1_COOPERATIVE)
    topics = tuple(reader.text() for _ in range(reader.count()))
    ours = _Reader(reader.sized())
    owned = reader.partitions() if version == V1_COOPERATIVE else frozenset()
    if not ours.skip(_MAGIC):
        return Subscription(version, topics, owned)
    nonce, generation = ours.number(_LONG), ours.number(_INT)
    tags = {ours.text(): ours.text() for _ in range(ours.count())}
    return Subscription(version, topics, owned, nonce, generation, tags)


def encode_assignment(answer: Assignment) -> bytes:
    """Write an assignment."""
    ours = _MAGIC + _SHORT.pack(answer.error) + _LONG.pack(answer.answers) + answer.identity
    ours += _partitions(answer.revoked)
    return _SHORT.pack(answer.version) + _partitions(answer.assigned) + _sized(ours)


def decode_assignment(data: bytes) -> Assignment:
    """Read an assignment; no bytes at all are an empty one.

    Raises:
        PartitionsWireError: if the bytes are malformed.
    """
    if not data:
        return Assignment(V0_EAGER)
    reader = _Reader(data)
    version = min(reader.version(), V1_COOPERATIVE)
    assigned = reader.partitions()
    ours = _Reader(reader.sized())
    if not ours.skip(_MAGIC):
        return Assignment(version, assigned)
    error, answers = ours.number(_SHORT), ours.number(_LONG)
    identity = ours.take(_IDENTITY_BYTES)
    return Assignment(version, assigned, ours.partitions(), error, answers, identity)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _SHORT.pack(len(raw)) + raw


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts.append(_text(topic) + _INT.pack(len(numbers)) + b"".join(map(_INT.pack, numbers)))
    return b"".join(parts)


class _Reader:
    """Reads on from where it stands; every shortage is a ``PartitionsWireError``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise PartitionsWireError(f"cut short at byte {self._at} of {len(self._data)}")
        found, self._at = self._data[self._at : end], end
        return found

    def skip(self, expected: bytes) -> bool:
        if not self._data.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def number(self, kind: struct.Struct) -> int:
        return int(kind.unpack(self.take(kind.size))[0])

    def version(self) -> int:
        version = self.number(_SHORT)
        if version < V0_EAGER:
            raise PartitionsWireError(f"version {version}")
        return version

    def count(self) -> int:
        return max(self.number(_INT), 0)  # Kafka writes a missing list as -1

    def text(self) -> str:
        raw = self.take(self.number(_SHORT))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise PartitionsWireError(f"no text at byte {self._at}") from error

    def sized(self) -> bytes:
        return self.take(self.count())

    def partitions(self) -> frozenset[TopicPartition]:
        found: set[TopicPartition] = set()
        for _ in range(self.count()):
            topic = self.text()
            found.update(TopicPartition(topic, self.number(_INT)) for _ in range(self.count()))
        return frozenset(found)
