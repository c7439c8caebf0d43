"""The bytes of a foreign-key join: subscriptions, their rows in a store, and answers.

Only the two sides of one join read them, so keys and values are bytes here already: each is encoded
once, however many rows it meets.

    subscription   version, instruction, [digest], primary key, partition     key: foreign key
    row            digest, partition        key: length of the foreign key, foreign key, primary key
    answer         partition, version, [digest], [value]                      key: primary key
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import msgspec

from streamlet.serdes import Serde
from streamlet.serdes.basic import binary

#: Instructions, with the numbers of Kafka Streams. To unsubscribe, without an answer or with one
#: that there is no foreign row; to subscribe, with an answer in any case or if the row is there.
UNSUBSCRIBE = 0
UNSUBSCRIBE_AND_ANSWER = 1
SUBSCRIBE = 2
SUBSCRIBE_IF_THERE = 3

_VERSION = 1
_NO_DIGEST = 0x80
_NO_VALUE = 0x40
_DIGEST_BYTES = 16
_INT_BYTES = 4

#: Names of serdes that write what they have read as it was, and of those that write JSON.
_STEADY_TYPES = frozenset({"str", "int", "float", "bytes", "bool", "uuid"})
_DOCUMENTS = frozenset({"dict", "list", "json"})
_STEADY = msgspec.json.Encoder(order="deterministic")


def opaque(text: str) -> Serde[bytes]:
    """A serde of bytes whose name tells readers of a topology what they are."""
    return attrs.evolve(binary(), name=text)


def digests(value: Serde[Any]) -> Callable[[Any], bytes | None]:
    """A function that returns a digest of a row's value, bytes; None of None.

    They are the same before a value is written and after it was read again, in whatever process: an
    int where a float is declared returns as a float, and a set in another order. So a value is
    written, read, and written in a fixed order.
    """
    encode, decode, last = value.encode, value.decode, value.encode
    if value.name in _DOCUMENTS or value.name.startswith("json("):
        last = _STEADY.encode
    steady = value.name in _STEADY_TYPES

    def digest(one: Any) -> bytes | None:
        if one is None:
            return None
        raw = encode(one)
        if not steady:
            raw = last(decode(raw))
        return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()

    return digest


class RowSubscription(NamedTuple):
    """The message of a left row to the partition of the right row that it names.

    ``digest`` is of the left row, None if it was deleted. ``key`` is its key, and ``partition`` the
    one of the task that has it.
    """

    instruction: int
    digest: bytes | None
    key: bytes
    partition: int

    def packed(self) -> bytes:
        """Its bytes."""
        head = _VERSION if self.digest is not None else _VERSION | _NO_DIGEST
        tail = self.key + self.partition.to_bytes(_INT_BYTES, "big")
        return bytes((head, self.instruction)) + (self.digest or b"") + tail

    @classmethod
    def unpacked(cls, raw: bytes) -> RowSubscription:
        """Of bytes.

        Raises:
            ValueError: another version wrote them.
        """
        _check_version(raw[0])
        start = 2 if raw[0] & _NO_DIGEST else 2 + _DIGEST_BYTES
        partition = int.from_bytes(raw[-_INT_BYTES:], "big")
        return cls(raw[1], raw[2:start] or None, raw[start:-_INT_BYTES], partition)


def row_key(foreign: bytes, primary: bytes = b"") -> bytes:
    """The key of a subscription's row; without a primary key what those of a foreign key share."""
    return len(foreign).to_bytes(_INT_BYTES, "big") + foreign + primary


def row_of(digest: bytes, partition: int) -> bytes:
    """A subscription's row."""
    return digest + partition.to_bytes(_INT_BYTES, "big")


def parts_of_row(row: bytes) -> tuple[bytes, int]:
    """Digest and partition of a subscription's row."""
    return row[:_DIGEST_BYTES], int.from_bytes(row[_DIGEST_BYTES:], "big")


def answer(partition: int, digest: bytes | None, value: bytes | None) -> bytes:
    """The bytes of an answer: the foreign row, or that there is none."""
    head = _VERSION | (_NO_DIGEST if digest is None else 0) | (_NO_VALUE if value is None else 0)
    return partition.to_bytes(_INT_BYTES, "big") + bytes((head,)) + (digest or b"") + (value or b"")


def answered(raw: bytes) -> tuple[bytes | None, bytes | None]:
    """Digest and value of an answer.

    Raises:
        ValueError: another version wrote it.
    """
    head = raw[_INT_BYTES]
    _check_version(head)
    start = _INT_BYTES + 1
    end = start if head & _NO_DIGEST else start + _DIGEST_BYTES
    return raw[start:end] or None, None if head & _NO_VALUE else raw[end:]


def partition_of_answer(key: bytes, raw: bytes, partitions: int) -> int:
    """The partition that an answer is for: the task that asked, however its input is partitioned.

    Both topics have as many partitions as that input.
    """
    return int.from_bytes(raw[:_INT_BYTES], "big")


def _check_version(head: int) -> None:
    version = head & ~(_NO_DIGEST | _NO_VALUE)
    if version != _VERSION:
        raise ValueError(f"a foreign-key join of version {version} wrote this, not {_VERSION}")
