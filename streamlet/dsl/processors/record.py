"""``Record``: a record as processors and state functions see it, and make it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Generic, TypeVar

import attrs
import msgspec

from streamlet.absent import explained_in_errors
from streamlet.batch import Batch
from streamlet.dsl.graph.record_context import checked_header
from streamlet.types import LATEST_MS, is_time
from streamlet.user_code import plain_hint, shown

K = TypeVar("K", covariant=True)
V = TypeVar("V", covariant=True)
K2 = TypeVar("K2")
V2 = TypeVar("V2")

#: Headers in order; a name may be there several times.
RecordHeaders = tuple[tuple[str, bytes | None], ...]


_NO_HEADERS = "expected headers as pairs of a name and bytes, such as [('id', b'7')], got "


@explained_in_errors
class Record(msgspec.Struct, Generic[K, V], frozen=True):
    """A record: key, value, timestamp (ms since the epoch) and headers. It never changes.

    The methods return another record, as Kafka Streams' ``Record.withValue`` does.
    """

    key: K
    value: V
    timestamp: int
    headers: RecordHeaders = ()

    def with_key(self, key: K2) -> Record[K2, V]:
        """The record with another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """The record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """The record at another time, ms since the epoch."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> Record[K, V]:
        """The record with these headers in place of its own."""
        if isinstance(headers, dict):  # its keys alone would go on
            raise TypeError(_NO_HEADERS + shown(headers))
        try:
            return Record(self.key, self.value, self.timestamp, tuple(headers))
        except TypeError as error:
            raise TypeError(_NO_HEADERS + shown(headers)) from error

    def with_header(self, name: str, value: bytes | None) -> Record[K, V]:
        """The record with a header behind its own."""
        return self.with_headers((*self.headers, (name, value)))

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this name; None without one."""
        return next((value for other, value in reversed(self.headers) if other == name), None)


def _refuse_change(record: Record[Any, Any], *_: object) -> None:
    raise AttributeError(
        "a Record never changes: with_key(), with_value(), with_timestamp(), with_headers() and "
        "with_header() give another one"
    )


for _change in ("__setattr__", "__delattr__"):  # msgspec's own have no word on what to do
    setattr(Record, _change, _refuse_change)


@explained_in_errors
@attrs.frozen
class RecordMetadata:
    """The place where a record was read: behind a ``repartition()`` the internal topic."""

    topic: str
    partition: int
    offset: int


def checked_time(given: object, what: str) -> int:
    """A time that the user's code gave.

    Raises:
        TypeError: it is no int of ms since the epoch, or beyond what can be kept.
    """
    if is_time(given):
        return given
    span = f"ms since the epoch as an int from 0 to {LATEST_MS}"
    raise TypeError(f"expected {what} in {span}, got {shown(given)}{plain_hint(given)}")


def check_record(record: Record[Any, Any]) -> None:
    """Refuse a record that Kafka cannot keep.

    Raises:
        TypeError: its time is no int from 0 to ``LATEST_MS``, or a header is no pair of a name and
            bytes.
    """
    time = record.timestamp
    checked_time(time, "a timestamp")
    if not isinstance(record.headers, tuple | list):
        raise TypeError(_NO_HEADERS + shown(record.headers))
    for header in record.headers:
        checked_header(header)


def records_of(batch: Batch) -> Iterator[Record[Any, Any]]:
    """The records of a batch, in their order."""
    heads: Any = repeat(()) if batch.headers is None else map(_tuple, batch.headers)
    return map(Record, batch.keys, batch.values, batch.timestamps, heads)


def _tuple(headers: Any) -> tuple[Any, ...]:
    return tuple(headers) if headers else ()
