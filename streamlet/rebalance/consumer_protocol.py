"""Kafka's own ConsumerProtocol, the layout that every Kafka tool can read.

::

    subscription  V0: version topics user_data    V1: … owned_partitions
                  V2: … generation                V3: … rack
    assignment    all: version assigned_partitions user_data

What else the members of a group have to say to each other travels in ``user_data``. Numbers are
big-endian, a missing list or text has length -1. Later versions only add fields at the end, so what
is there is read as V3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import attrs

from streamlet.errors import GroupError
from streamlet.types import TopicPartition

#: Says nothing of what it owns, because it gives everything up before it joins.
V0 = 0
#: Keeps what it owns while it joins, and says what that is.
V1 = 1
#: The latest that is written here.
V3 = 3

_SHORT, _INT, _LONG = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class ConsumerProtocolError(GroupError):
    """Bytes of another member that are no subscription or assignment of the consumer protocol."""


@attrs.frozen
class ConsumerSubscription:
    """A member's subscription; ``generation`` is that of what it owns, -1 for none."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    rack: str | None = None


@attrs.frozen
class ConsumerAssignment:
    """The partitions that a member is given."""

    version: int
    assigned: frozenset[TopicPartition] = frozenset()
    user_data: bytes = b""


def encode_subscription(subscription: ConsumerSubscription) -> bytes:
    """Write a subscription in the layout of its version."""
    data = _SHORT.pack(subscription.version) + _INT.pack(len(subscription.topics))
    data += b"".join(map(text, subscription.topics)) + sized(subscription.user_data)
    if subscription.version >= 1:
        data += partitions(subscription.owned)
    if subscription.version >= 2:
        data += _INT.pack(subscription.generation)
    if subscription.version >= 3:
        data += _SHORT.pack(-1) if subscription.rack is None else text(subscription.rack)
    return data


def decode_subscription(data: bytes) -> ConsumerSubscription:
    """Read a subscription, also one of another client.

    Raises:
        ConsumerProtocolError: if the bytes are malformed.
    """
    reader = ByteReader(data)
    version = reader.version()
    topics = tuple(reader.text() for _ in range(reader.count()))
    user_data = reader.sized()
    return ConsumerSubscription(
        version,
        topics,
        user_data,
        reader.partitions() if version >= 1 else frozenset(),
        reader.number(_INT) if version >= 2 else -1,
        reader.optional_text() if version >= 3 else None,
    )


def encode_assignment(given: ConsumerAssignment) -> bytes:
    """Write an assignment; its layout is the same in all versions."""
    return _SHORT.pack(given.version) + partitions(given.assigned) + sized(given.user_data)


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """Read an assignment; no bytes at all are an empty one.

    Raises:
        ConsumerProtocolError: if the bytes are malformed.
    """
    if not data:
        return ConsumerAssignment(V0)
    reader = ByteReader(data)
    return ConsumerAssignment(reader.version(), reader.partitions(), reader.sized())


def text(value: str) -> bytes:
    """Write a text."""
    raw = value.encode()
    return _SHORT.pack(len(raw)) + raw


def sized(data: bytes) -> bytes:
    """Write bytes with their number in front."""
    return _INT.pack(len(data)) + data


def partitions(owned: Iterable[TopicPartition]) -> bytes:
    """Write partitions, by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts.append(text(topic) + _INT.pack(len(numbers)) + b"".join(map(_INT.pack, numbers)))
    return b"".join(parts)


class ByteReader:
    """Reads fields one after another; raises ``ConsumerProtocolError`` when bytes run out."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ConsumerProtocolError(f"cut short at byte {self._at} of {len(self._data)}")
        found, self._at = self._data[self._at : end], end
        return found

    def skip(self, expected: bytes) -> bool:
        """Skip these bytes if they are next; True if they were."""
        if not self._data.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def number(self, kind: struct.Struct) -> int:
        """A number."""
        return int(kind.unpack(self.take(kind.size))[0])

    def version(self) -> int:
        """A version, as it stands at the beginning."""
        version = self.number(_SHORT)
        if version < V0:
            raise ConsumerProtocolError(f"version {version}")
        return version

    def count(self) -> int:
        """The length of a list."""
        return max(self.number(_INT), 0)

    def text(self) -> str:
        """A text."""
        return self._decoded(self.take(self.number(_SHORT)))

    def optional_text(self) -> str | None:
        """A text, or none."""
        size = self.number(_SHORT)
        return None if size < 0 else self._decoded(self.take(size))

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise ConsumerProtocolError(f"no text before byte {self._at}") from error

    def sized(self) -> bytes:
        """Bytes with their number in front."""
        return self.take(self.count())

    def partitions(self) -> frozenset[TopicPartition]:
        """Partitions, by topic."""
        found: set[TopicPartition] = set()
        for _ in range(self.count()):
            topic = self.text()
            found.update(TopicPartition(topic, self.number(_INT)) for _ in range(self.count()))
        return frozenset(found)
