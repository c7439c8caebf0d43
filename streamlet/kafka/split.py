"""Sorts what one poll returned by partition, and reads its headers; knows no client's messages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, islice
from typing import Any, Protocol, TypeVar

from streamlet.user_code import text_of


class MessageWithOffset(Protocol):
    """A message of a client."""

    def offset(self) -> int | None:
        """Its offset."""
        ...


M = TypeVar("M")
W = TypeVar("W", bound=MessageWithOffset)


def split(
    messages: list[M],
    topics: int,
    topic_of: Callable[[M], str | None],
    partition_of: Callable[[M], int | None],
) -> list[tuple[str, int, list[M]]]:
    """Messages by topic and partition, order kept; looks at topics only where there are several."""
    parts: list[tuple[str, int, list[M]]] = []
    if not messages:
        return parts
    by_topic: dict[str, list[M]] = {}
    if topics > 1:
        for name, run in groupby(messages, topic_of):
            by_topic.setdefault(str(name), []).extend(run)
    else:
        by_topic[str(topic_of(messages[0]))] = messages
    for topic, same in by_topic.items():
        by_partition: dict[int, list[M]] = {}
        for number, run in groupby(same, partition_of):
            by_partition.setdefault(int(number or 0), []).extend(run)
        parts.extend((topic, partition, run) for partition, run in by_partition.items())
    return parts


def read_headers(
    run: list[W], headers_of: Callable[[W], Any]
) -> tuple[list[Any], dict[int, str] | None]:
    """The headers of messages, and of those whose headers the client cannot read, the reason.

    A name that is no UTF-8 is a ``SystemError`` of confluent-kafka. No message is asked twice: the
    second answer has a hole where the name should be, which ends the process when it is looked at.
    """
    headers: list[Any] = []
    unreadable: dict[int, str] = {}
    while len(headers) < len(run):
        try:
            headers.extend(map(headers_of, islice(run, len(headers), None)))
        except Exception as error:  # whatever a version of the client makes of it
            unreadable[run[len(headers)].offset() or 0] = _why(error)
            headers.append(None)
    return headers, unreadable or None


def _why(error: Exception) -> str:
    """The error behind a client's exception, which may wrap it."""
    cause = error.__cause__ if isinstance(error, SystemError) else None
    known = error if cause is None else cause
    return f"{type(known).__name__}: {text_of(known)}"
