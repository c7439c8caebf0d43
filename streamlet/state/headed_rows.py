"""Rows that bear the headers of records: of those that changed them (``Materialized(headers=)``).

    time, its highest bit set · length of the headers, four bytes · headers, MessagePack · value

They are so on the medium and in the changelog, so headers go wherever their row goes. A row without
headers is as in any other store: a store may begin to keep them, and take up what it had before.
Readers of rows get them without headers (``HeadedRows.bare_rows``), and ask for these apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs
import msgspec

from streamlet.kafka.ports import Headers
from streamlet.state.backing import Backing, Columns, StorageEngine
from streamlet.state.headed_parts import in_parts
from streamlet.state.pieces import PIECE_ROWS
from streamlet.state.rows import HEADED_TIME, TIME_BYTES, latest_of, time_of_row
from streamlet.state.sizes import ENTRY_BYTES, SAMPLE, EntrySize, deep_size
from streamlet.state.unreadable import rows_of_store

if TYPE_CHECKING:
    from streamlet.state.store_specs import StoreSpec

#: The headers of a column of records; None: they have none.
OfRecords: TypeAlias = Sequence[Headers | None] | None
#: Headers of more bytes are not kept, in all.
MOST_BYTES = 8_192
#: Names of headers that carry traces, and what the names of streamlet's own begin with.
TRACES = "traceparent", "tracestate"
_OWN = "streamlet."
#: What a header takes beside its name and value, bytes, at most.
_EACH_BYTES = 12
_FLAG = 0x80
_LENGTH = slice(TIME_BYTES, TIME_BYTES + 4)


def users_of(headers: Headers | None) -> Headers:
    """The headers of a record without those of traces and of streamlet."""
    return tuple(
        (name, value)
        for name, value in headers or ()
        if name not in TRACES and not name.startswith(_OWN)
    )


def size_of(headers: Headers) -> int:
    """The bytes that headers take, at most."""
    return sum(len(name.encode()) + len(value or b"") + _EACH_BYTES for name, value in headers)


def headed(row: bytes, headers: Headers) -> bytes:
    """A row with headers."""
    if not headers:
        return row
    block = msgspec.msgpack.encode(headers)
    time = bytes([row[0] | _FLAG]) + row[1:TIME_BYTES]
    return time + len(block).to_bytes(4, "big") + block + row[TIME_BYTES:]


def bare(row: bytes | None) -> bytes | None:
    """A row without its headers."""
    if not row or not row[0] & _FLAG:
        return row
    return bytes([row[0] & ~_FLAG]) + row[1:TIME_BYTES] + row[_block_of(row).stop :]


def headers_of(row: bytes | None) -> Headers:
    """The headers of a row; ``ValueError``: no store has written such a row."""
    if not row or not row[0] & _FLAG:
        return ()
    found: Headers
    found = msgspec.msgpack.decode(row[_block_of(row)], type=tuple[tuple[str, bytes | None], ...])
    return found


def _block_of(row: bytes) -> slice:
    """The place of the headers in a row that has some."""
    return slice(_LENGTH.stop, _LENGTH.stop + int.from_bytes(row[_LENGTH], "big"))


def headed_stores(specs: Iterable[StoreSpec]) -> frozenset[str]:
    """The stores whose rows bear headers; in others of those asked to, windows or versions do."""
    return frozenset(one.name for one in specs if one.headers and not in_parts(one))


def restored(columns: Columns, latest: int, kept: HeadedRows | None) -> tuple[Columns, int]:
    """Rows of a changelog as a store takes them, and the latest of all its times, ms.

    A store that has ``kept`` no headers takes none from owners that do.
    """
    found = latest_of(columns.values)
    if found >= HEADED_TIME:
        rows = list(map(bare, columns.values))
        found = latest_of(rows)
        columns = columns if kept is not None else attrs.evolve(columns, values=rows)
    return columns, max(latest, found)


def strip(disk: StorageEngine, stores: frozenset[str], kept: Iterable[str]) -> frozenset[str]:
    """Take the headers off the rows of stores that keep none any more, some at a time.

    ``stores`` are those whose rows may bear some, ``kept`` those that keep some, and are returned.
    """
    left = frozenset(kept)
    for store in sorted(stores - left):
        rows = disk.backing(store).scan(None, None)
        found = ((key, bare(row)) for key, row in rows if time_of_row(row) >= HEADED_TIME)
        while some := list(islice(found, PIECE_ROWS)):
            disk.write_ahead(Columns(store, [key for key, _ in some], [row for _, row in some]))
    return left


@attrs.frozen
class _BareRows:
    """The rows of a medium without their headers."""

    inner: Backing

    def get(self, key: bytes) -> bytes | None:
        """The row, or None."""
        return bare(self.inner.get(key))

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The rows of several keys, in their order."""
        return list(map(bare, self.inner.get_many(keys)))

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries from ``low`` (inclusive) to ``high`` (exclusive), by key, as they are now."""
        rows = self.inner.scan(low, high, backward=backward)
        return ((key, bare(row) or b"") for key, row in rows)


class RowsUnderWay(Protocol):
    """The rows of a store that are not on the medium yet, by cache key."""

    dirty: dict[Any, int]
    pinned: dict[Any, int]

    def to_bytes(self, ckeys: list[Any]) -> list[bytes]:
        """The bytes of cache keys."""
        ...


class HeadedRows:
    """The headers of the rows of one store.

    Args:
        store: its name.
    """

    _medium: Backing

    def __init__(self, store: str) -> None:
        self._store = store
        #: Those of rows that were written since the last drain, by cache key, and of those that are
        #: on their way; the same dicts all along.
        self.changed: dict[Any, Headers] = {}
        self.pinned: dict[Any, Headers] = {}
        #: The bytes that a record of the changelog may have; None: any number.
        self.most: int | None = None
        self._size = EntrySize(self._sampled_bytes)

    def held_bytes(self) -> int:
        """Estimate of what the headers of rows that are not on the medium yet take, bytes."""
        count = len(self.changed) + len(self.pinned)
        return int(count * self._size.of(count))

    def _sampled_bytes(self) -> float | None:
        newest_first = chain(reversed(self.changed.values()), reversed(self.pinned.values()))
        some = list(islice(newest_first, SAMPLE))
        return ENTRY_BYTES + sum(map(deep_size, some)) / len(some) if some else None

    def bare_rows(self, rows: Backing, medium: Backing) -> Backing:
        """The rows without their headers; these are asked of the medium from now on."""
        self._medium = medium
        return _BareRows(rows)

    def of_row(self, rows: RowsUnderWay, ckey: Any) -> Headers:
        """The headers of a row as it is now, by its cache key.

        Raises:
            StateError: the row cannot be one of the store's.
        """
        for marked, noted in ((rows.dirty, self.changed), (rows.pinned, self.pinned)):
            if ckey in marked:
                return users_of(noted.get(ckey))
        with rows_of_store(self._store):
            (key,) = rows.to_bytes([ckey])
            return headers_of(self._medium.get(key))

    def drained(self, columns: Columns, ckeys: Mapping[bytes, Any]) -> Columns:
        """Rows on their way with their headers; ``ckeys`` are those that were written.

        What is only written again has those that it had.
        """
        self._size.changed(len(ckeys))
        again = [key for key in columns.keys if key not in ckeys]
        had = dict(zip(again, self._medium.get_many(again), strict=True)) if again else {}
        rows = [
            self._again(row, had[key])
            if key in had
            else self._headed(key, row, self.pinned.get(ckeys[key]))
            for key, row in zip(columns.keys, columns.values, strict=True)
        ]
        return attrs.evolve(columns, values=rows)

    @staticmethod
    def _again(row: bytes | None, had: bytes | None) -> bytes | None:
        return had if had is not None and bare(had) == row else row

    def _headed(self, key: bytes, row: bytes | None, headers: Headers | None) -> bytes | None:
        own = users_of(headers)
        if row is None or not own:
            return row
        if self.most is not None and len(key) + len(row) + size_of(own) > self.most:
            return row  # its record would be too large
        return headed(row, own)


def of_source_rows(rows: Sequence[bytes | None], headers: Iterable[Headers | None]) -> list[Any]:
    """Rows of records of a source topic with the headers of these."""
    return [
        row if row is None else headed(row, kept_of(users_of(given)))
        for row, given in zip(rows, headers, strict=True)
    ]


def kept_of(headers: Headers) -> Headers:
    """The headers of a record that its rows keep: none of them where they are too many."""
    return headers if size_of(headers) <= MOST_BYTES else ()
