"""The bytes of a foreign-key join: subscriptions, their rows in a store, and answers.

Only the two sides of one join read them, so keys and values are bytes here already: each is encoded
once, however many rows it meets.

    subscription   version, instruction, [digest], primary key, partition     key: foreign key
    row            digest, partition        key: length of the foreign key, foreign key, primary key
    answer         partition, version, source, [digest], [value]              key: primary key
    copy           partition, whether there is a row, [value]                 key: that of the row

Answers of version 1 have no source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import eq
from typing import Any, TypeAlias

import attrs
import msgspec

from streamlet.columnwise import all_of, blake2b_column
from streamlet.dsl.operators.columns import converted
from streamlet.serdes import Serde
from streamlet.serdes.basic import binary
from streamlet.serdes.json_serde import json
from streamlet.serdes.pydantic_models import is_pydantic

#: Instructions, with the numbers of Kafka Streams. To unsubscribe, without an answer or with one
#: that there is no foreign row; to subscribe, with an answer in any case or if the row is there.
UNSUBSCRIBE = 0
UNSUBSCRIBE_AND_ANSWER = 1
SUBSCRIBE = 2
SUBSCRIBE_IF_THERE = 3

#: A digest, one of its halves, and a partition or a length.
DIGEST_BYTES = 16
HALF = DIGEST_BYTES // 2
INT_BYTES = 4

_VERSION = 1
_NO_DIGEST = 0x80
_NO_VALUE = 0x40
_ANSWER_VERSION = 2
_ANSWER_HEAD = bytes((_ANSWER_VERSION,))
_SOURCE_BYTES = 2 * INT_BYTES
#: Of an answer that there is no foreign row.
_HEAD_OF_NONE = bytes((_ANSWER_VERSION | _NO_VALUE,))
_SOURCE_START = INT_BYTES + 1
_SOURCE_END = _SOURCE_START + _SOURCE_BYTES
_USUAL_START = _SOURCE_END + DIGEST_BYTES
_HEADS = [bytes((_VERSION, instruction)) for instruction in range(4)]
_KEY_START = 2 + DIGEST_BYTES
_SHORTEST = _KEY_START + INT_BYTES

#: Digests of a column of rows, which fail on the first that has none.
Digests: TypeAlias = Callable[[Iterable[Any]], Iterator[bytes | None]]
#: Instruction, digest of the left row (None: it was deleted), its key, and its partition.
RowSubscription: TypeAlias = tuple[int, bytes | None, bytes, bytes]

#: Formats whose values are written again as they were.
_STEADY_FORMATS = frozenset({"str", "int", "float", "bytes", "bool", "uuid"})
_STEADY = msgspec.json.Encoder(order="deterministic")
#: The same for documents, in which objects with fields return as dicts.
_DOCUMENT = msgspec.json.Encoder(order="sorted")


def opaque(text: str) -> Serde[bytes]:
    """A serde of bytes whose name tells readers of a topology what they are."""
    return attrs.evolve(binary(), name=text)


def digests(value: Serde[Any]) -> Digests:
    """A function from a column of row values to their digests (bytes); None stays None.

    They are the same before a value is written and after it was read again, in whatever process: an
    int where a float is declared returns as a float, and a set in another order. So a value is
    written, read, and written in a fixed order; a document at once in that order.
    """
    encode, decode, accepts, last = value.encode, value.decode, value.accepts, _last_form(value)
    steady = value.format in _STEADY_FORMATS

    def steadily(one: Any) -> bytes | None:
        return None if one is None else last(decode(encode(one)))

    if steady:
        return lambda column: _digested(*converted(value.encode_column, list(column)))
    if value.format != "json":
        return lambda column: _digested(*_collected(map(steadily, column)))
    write = _DOCUMENT.encode

    def steadily_written(one: Any) -> bytes | None:
        return None if one is None else write(decode(encode(one)))

    def quick(one: Any) -> bytes | None:
        if accepts and type(one) not in accepts:
            return steadily(one)
        return None if one is None else write(one)

    def of_documents(column: Iterable[Any]) -> Iterator[bytes | None]:
        # What no document can hold is in all of them, as a column's serde has it: the first tells.
        rows = list(column)
        first = next((at + 1 for at, one in enumerate(rows) if one is not None), len(rows))
        rest = rows[first:]
        one_by_one = write if dict in accepts and all_of(rest, dict) else quick
        texts = map(steadily_written, rows[:first]), map(one_by_one, rest)
        return _digested(*_collected(chain.from_iterable(texts)))

    return of_documents


def _last_form(value: Serde[Any]) -> Callable[[Any], bytes]:
    """A function that writes a value in a fixed order, and without the id of a schema."""
    if is_pydantic(value.declared):  # which writes itself; its form of keys is the fixed one
        return json(value.declared).encode
    if value.format != "registry":
        return _STEADY.encode if value.format == "json of a type" else value.encode

    def framed(one: Any) -> bytes:
        try:
            return _STEADY.encode(one)
        except TypeError:  # a message of Protobuf, whose bytes have one order
            return value.encode(one)

    return framed


def _collected(texts: Iterable[bytes | None]) -> tuple[list[bytes | None], BaseException | None]:
    """Texts as far as they can be had, and what the next one failed on."""
    found: list[bytes | None] = []
    try:
        found.extend(texts)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a serde of the user's
        return found, error
    return found, None


def _digested(texts: list[bytes | None], error: BaseException | None) -> Iterator[bytes | None]:
    """The digests of texts, and the failure behind them, if there is one."""
    digests = blake2b_column(texts, DIGEST_BYTES)
    return iter(digests) if error is None else chain(digests, _raised(error))


def _raised(error: BaseException) -> Iterator[bytes | None]:
    """An iterator that fails at once."""
    yield from ()
    raise error


def are_digests_of(
    digests: list[bytes | None], contents: list[bytes | None], own: list[bytes | None]
) -> list[bool]:
    """True of answers for rows: their digests are ``own``, or those of the values alone.

    These earlier versions sent. As far as there are digests.
    """
    if digests == own:
        return [True] * len(own)
    same = list(map(eq, digests, own))
    for at in [at for at, one in enumerate(same) if not one]:
        same[at] = digests[at] == contents[at]
    return same


def has_value_of(digest: bytes | None, content: bytes | None) -> bool:
    """True if an answer is to a row with this value."""
    if digest is None or content is None:
        return digest is content
    return digest[:HALF] == content[:HALF]


def names_the_same(digest: bytes | None, own: bytes | None) -> bool:
    """True if both digests are of rows with the same foreign key."""
    if digest is None or own is None:
        return False
    return digest[HALF:] == own[HALF:]


def subscription(instruction: int, digest: bytes | None, key: bytes, partition: bytes) -> bytes:
    """The bytes of a subscription: the message of a left row to the task of the right one.

    ``digest`` is of the left row, None if it was deleted. ``key`` is its key, and ``partition`` the
    one of the task that has it (``partition_bytes``).
    """
    if digest is None:
        return bytes((_VERSION | _NO_DIGEST, instruction)) + key + partition
    return _HEADS[instruction] + digest + key + partition


def subscribed(raw: bytes | None) -> RowSubscription:
    """Instruction, digest, key and partition of a subscription.

    Raises:
        ValueError: another version wrote it, or it is cut off.
    """
    raw = raw or b""
    if len(raw) < _SHORTEST and (raw[:1] == _HEADS[0][:1] or len(raw) < 2 + INT_BYTES):
        raise ValueError(f"a subscription of a foreign-key join of {len(raw)} bytes is cut off")
    if raw[0] != _VERSION:
        _check_version(raw[0], _VERSION)
        return raw[1], None, raw[2:-INT_BYTES], raw[-INT_BYTES:]
    return raw[1], raw[2:_KEY_START], raw[_KEY_START:-INT_BYTES], raw[-INT_BYTES:]


def partition_bytes(partition: int) -> bytes:
    """A partition as messages and rows have it."""
    return partition.to_bytes(INT_BYTES, "big")


def row_key(foreign: bytes, primary: bytes = b"") -> bytes:
    """The key of a subscription's row, or without a primary key the prefix of a foreign key."""
    return len(foreign).to_bytes(INT_BYTES, "big") + foreign + primary


def source_of(partition: int, epoch: int) -> bytes:
    """The task that answers, with the epoch of its owner; of one task a later owner's is higher."""
    return partition_bytes(partition) + epoch.to_bytes(INT_BYTES, "big")


def task_of(source: bytes) -> bytes:
    """The task of a source, as bytes that are those of all its owners."""
    return source[:INT_BYTES]


def answer(partition: bytes, source: bytes, digest: bytes | None, value: bytes | None) -> bytes:
    """The bytes of an answer: the foreign row, or a note that there is none."""
    if digest is None or value is None:
        no_digest = _NO_DIGEST if digest is None else 0
        head = bytes((_ANSWER_VERSION | no_digest | (_NO_VALUE if value is None else 0),))
        return partition + head + source + (digest or b"") + (value or b"")
    return partition + _ANSWER_HEAD + source + digest + value


def answers(rows: Iterable[tuple[bytes, bytes]], source: bytes, value: bytes | None) -> list[bytes]:
    """The answers to subscriptions of one foreign key, with their keys and rows in the store."""
    head = (_ANSWER_HEAD if value is not None else _HEAD_OF_NONE) + source
    sent = value or b""
    return [row[DIGEST_BYTES:] + head + row[:DIGEST_BYTES] + sent for _, row in rows]


def answered(raw: bytes | None) -> tuple[bytes, bytes | None, bytes | None]:
    """Source, digest and value of an answer; the source is empty where an older version wrote it.

    Raises:
        ValueError: a version that is not known wrote it, or it is cut off.
    """
    raw = raw or b""
    head = raw[INT_BYTES] if len(raw) > INT_BYTES else _ANSWER_VERSION
    at, start, end = _SOURCE_START, _SOURCE_END, _USUAL_START
    if head & ~(_NO_DIGEST | _NO_VALUE) == _VERSION:
        start, end = at, at + DIGEST_BYTES
    else:
        _check_version(head, _ANSWER_VERSION)
    end = start if head & _NO_DIGEST else end
    if len(raw) < end:
        raise ValueError(f"an answer of a foreign-key join of {len(raw)} bytes is cut off")
    return raw[at:start], raw[start:end] or None, None if head & _NO_VALUE else raw[end:]


def copy_of(partition: bytes, value: bytes | None) -> bytes:
    """The bytes of a copy of a row, for the task of the same partition."""
    return partition + (b"\0" if value is None else b"\1" + value)


def copied(raw: bytes | None) -> bytes | None:
    """The value of a row that was copied.

    Raises:
        ValueError: it is cut off.
    """
    raw = raw or b""
    if len(raw) <= INT_BYTES:
        raise ValueError(f"a copy of a row of {len(raw)} bytes is cut off")
    return raw[INT_BYTES + 1 :] if raw[INT_BYTES] else None


def _check_version(head: int, known: int) -> None:
    version = head & ~(_NO_DIGEST | _NO_VALUE)
    if version != known:
        raise ValueError(f"a foreign-key join of version {version} wrote this, not {known}")
