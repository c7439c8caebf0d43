"""Columns of messages of a foreign-key join: what ``wire`` says of one of them, for all at once.

Each pass is the extension's where that was built. Messages that are not as usual, as those of
another version, are Python's, which looks at them one by one. Either way gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeAlias

from streamlet.columnwise import (
    blake2b_column,
    foreign_answered,
    foreign_answers,
    foreign_digests,
    foreign_kept,
    foreign_partitions,
    foreign_subscriptions,
)
from streamlet.dsl.foreign_keys import wire
from streamlet.dsl.foreign_keys.wire import DIGEST_BYTES, HALF, INT_BYTES
from streamlet.dsl.operators.columns import collect

#: Indexes of left rows, their foreign keys and subscriptions; how many rows name no right one.
Asked: TypeAlias = tuple[list[int], list[bytes | None], list[bytes], int]
#: Subscriptions; the keys and values of their rows in a store.
Kept: TypeAlias = tuple[list[wire.RowSubscription], list[bytes], list[bytes | None]]
#: Indexes of subscriptions; the keys, values and times of their answers; where these end.
Made: TypeAlias = tuple[list[int], list[bytes], list[bytes], list[int], int]
#: Sources, digests and values of answers, before the first that fails, and its error.
Answered: TypeAlias = tuple[
    list[bytes], list[bytes | None], list[bytes | None], BaseException | None
]

_NAMES_NONE = bytes(DIGEST_BYTES)
_partition = itemgetter(slice(INT_BYTES))
_SUBSCRIBED = (wire.SUBSCRIBE_IF_THERE, wire.SUBSCRIBE)


def plain_digests_of(
    contents: list[bytes | None], foreign: list[bytes | None]
) -> list[bytes | None]:
    """The digests of left rows, of those of their values and their foreign keys; None of no row.

    Their halves are compared apart. A later program may make another value of the same row, for
    which a type has one more field; what the row names stays. One foreign key, which many rows
    have, is hashed once.
    """
    names = list(set(foreign))
    digests = blake2b_column(names, DIGEST_BYTES)
    halves = {one: (raw or _NAMES_NONE)[:HALF] for one, raw in zip(names, digests, strict=True)}
    return [
        None if content is None else content[:HALF] + halves[one]
        for content, one in zip(contents, foreign, strict=True)
    ]


def plain_subscriptions(
    keys: list[bytes],
    digests: list[bytes | None],
    names: list[bytes | None],
    befores: list[bytes | None],
    olds: list[Any],
    partition: bytes,
    left: bool,
) -> Asked:
    """The subscriptions that changes of left rows lead to.

    Args:
        keys: of the rows; the other columns may go on behind the last one.
        digests: of the rows; None: deleted.
        names: their foreign keys.
        befores: the foreign keys that they had.
        olds: the rows before.
        partition: of the task.
        left: whether rows without a match are joined too.
    """
    records: list[int] = []
    to: list[bytes | None] = []
    values: list[bytes] = []
    dropped = 0
    columns = keys, digests, names, befores, olds
    for index, (key, digest, name, before, old) in enumerate(zip(*columns, strict=False)):
        there = digest is not None
        for one, what in _instructions(there, old is not None, name, before, left):
            records.append(index)
            to.append(one)
            values.append(wire.subscription(what, digest, key, partition))
        dropped += not left and there and name is None
    return records, to, values, dropped


def _instructions(
    there: bool, was: bool, new: bytes | None, old: bytes | None, left: bool
) -> list[tuple[bytes | None, int]]:
    """Foreign keys with the instruction for each, by Kafka Streams' rules.

    ``there`` and ``was`` tell whether there is a row now, and was one before.
    """
    moved = old is not None and old != new
    if left:
        away = [(old, wire.UNSUBSCRIBE)] if moved else []
        return [*away, (new, wire.SUBSCRIBE)] if there or was else []
    if new is None:
        return [(old, wire.UNSUBSCRIBE_AND_ANSWER)] if moved else []
    if moved:
        return [(old, wire.UNSUBSCRIBE), (new, wire.SUBSCRIBE)]
    return [(new, wire.SUBSCRIBE_IF_THERE)]


def plain_kept(raws: list[bytes], names: list[bytes | None]) -> Kept:
    """Subscriptions, and their rows in a store: None where one is taken out of it.

    Without rows of those that name no right row. Raises as ``wire.subscribed``.
    """
    found = list(map(wire.subscribed, raws))
    ckeys: list[bytes] = []
    rows: list[bytes | None] = []
    for name, (instruction, digest, key, partition) in zip(names, found, strict=True):
        if name is None:
            continue
        ckeys.append(wire.row_key(name, key))
        stays = digest is not None and instruction in _SUBSCRIBED
        rows.append((digest or b"") + partition if stays else None)
    return found, ckeys, rows


def plain_answers(
    asked: list[wire.RowSubscription],
    ckeys: list[Any],
    times: list[int],
    rows: dict[Any, tuple[bytes | None, int]],
    source: bytes,
) -> Made:
    """The answers to subscriptions, up to one that asks for a row that is not known.

    Args:
        asked: the subscriptions.
        ckeys: of the right rows that they ask for.
        times: of the subscriptions, ms.
        rows: the bytes and the time of each right row; None and -1: there is none.
        source: of the answers.
    """
    records: list[int] = []
    keys: list[bytes] = []
    values: list[bytes] = []
    later: list[int] = []
    columns = zip(asked, ckeys, times, strict=False)
    for index, ((instruction, digest, key, partition), ckey, time) in enumerate(columns):
        if instruction == wire.UNSUBSCRIBE:
            continue
        found = rows.get(ckey)
        if found is None:
            return records, keys, values, later, index
        sent = None if instruction == wire.UNSUBSCRIBE_AND_ANSWER else found[0]
        if sent is None and instruction == wire.SUBSCRIBE_IF_THERE:
            continue
        records.append(index)
        keys.append(key)
        values.append(wire.answer(partition, source, digest, sent))
        later.append(max(time, found[1]))
    return records, keys, values, later, len(asked)


def plain_answered(raws: list[bytes]) -> Answered:
    """A column of answers read as by ``wire.answered``."""
    found, error = collect(map(wire.answered, raws), len(raws))
    sources, digests, values = map(list, zip(*found, strict=True)) if found else ([], [], [])
    return sources, digests, values, error


def plain_partitions_of(raws: list[bytes]) -> list[int]:
    """The partitions that answers or copies are for, however their input is partitioned.

    Answers go to those that asked. The topic has as many partitions as that input.
    """
    return list(map(int.from_bytes, map(_partition, raws)))


def _either(quick: Any, plain: Callable[..., Any]) -> Any:
    """The pass of the extension, and the one of Python for columns that it leaves to that."""
    if quick is None:
        return plain

    def either(*columns: Any) -> Any:
        found = quick(*columns)
        return plain(*columns) if found is None else found

    return either


digests_of: Callable[[list[bytes | None], list[bytes | None]], list[bytes | None]]
digests_of = foreign_digests or plain_digests_of
subscriptions: Callable[..., Asked] = _either(foreign_subscriptions, plain_subscriptions)
kept: Callable[[list[bytes], list[bytes | None]], Kept] = _either(foreign_kept, plain_kept)
made: Callable[..., Made] = _either(foreign_answers, plain_answers)
answered: Callable[[list[bytes]], Answered] = _either(foreign_answered, plain_answered)
partitions_of: Callable[[list[bytes]], list[int]] = foreign_partitions or plain_partitions_of
