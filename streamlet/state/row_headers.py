"""The headers of the records that changed rows last, noted beside a store if asked for.

Those of users are borne by the rows themselves (``state.headed_rows``), or by the windows and the
versions in them (``state.headed_parts``), where the store is to keep them
(``Materialized(headers=True)``).

Contexts of traces are in memory, for a bounded number of rows, and in the headers of the
changelog's records, so a restore and a copy that follows have them, too. A state that is opened
again from its files lacks those of rows that it does not read again. What a record's number says of
its row is not asked for its headers: those of a commit that never happened stay until its records
are processed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, repeat
from typing import Any, Protocol, cast

import attrs

from streamlet.kafka.ports import Headers
from streamlet.logs import get_logger
from streamlet.state.backing import Columns
from streamlet.state.headed_rows import MOST_BYTES, kept_of, users_of
from streamlet.state.store_commits import TaskStore
from streamlet.state.store_parts import Steps
from streamlet.state.store_specs import StoreSpec
from streamlet.state.time_window_store import TimeWindowStore, Unmarked

log = get_logger(__name__)

#: Headers with a longer value are not kept, bytes.
MOST_VALUE = 512
#: Rows of more bytes bear none in the changelog: with them a record might be too large for it.
MOST_ROW = 16_384


@attrs.frozen
class KeptHeaders:
    """The choice of what is kept in memory beside each store of a task.

    Args:
        names: of the headers.
        most: how many rows have some.
    """

    names: frozenset[str]
    most: int

    def of(self, headers: Headers | None) -> Headers:
        """The headers of a record that are kept; empty if one of them is too long."""
        found = tuple(one for one in headers or () if one[0] in self.names)
        return () if any(len(value or b"") > MOST_VALUE for _, value in found) else found


class RowHeaders:
    """The headers kept of the rows of one store.

    Args:
        store: it; what is written to it is noted from now on.
        kept: what is kept in memory and in the headers of the changelog's records; None: nothing.
    """

    def __init__(self, store: TaskStore, kept: KeptHeaders | None) -> None:
        self._commits, self._kept = store.commits, kept
        self._headed, self._parts = store.commits.headed, store.commits.parts
        #: Of rows that were written since the last drain, by cache key.
        self._changed: dict[Any, Headers] = {} if self._headed is None else self._headed.changed
        self._undone_changes: dict[Any, Headers] | None = None
        self._warned = False
        #: Of all others, by the bytes of the key; those that changed last come last.
        self._stored: dict[bytes, Headers] = {}
        self._dirty = _noted(store, self._changed)
        steps = Steps(
            drained=self._drained,
            undone=self._undone,
            written=self._written,
            forgotten=self._changed.clear,
        )
        self._commits.add(steps)

    @property
    def traced(self) -> bool:
        """True if contexts of traces are kept."""
        return self._kept is not None

    @property
    def headed(self) -> bool:
        """True if rows, or what is in them, bear the headers of users."""
        return self._commits.keeps_headers

    def users_of(self, headers: Headers | None) -> Headers:
        """The headers of a record that its rows bear; none of them where they are too many."""
        found = users_of(headers)
        kept = kept_of(found)
        if found and not kept and not self._warned:
            self._warned = True
            log.warning(
                "store %s: a record has more than %d bytes of headers, of which its row keeps "
                "none; this is said once",
                self._commits.name,
                MOST_BYTES,
            )
        return kept

    def begin(self, headers: Headers) -> None:
        """Note from now on what is written as changed by a record with these headers."""
        self._dirty.headers = headers
        if self._parts is not None:
            self._parts.begin(users_of(headers))

    def end(self) -> None:
        """Note nothing of what is written from now on."""
        self._dirty.headers = None
        if self._parts is not None:
            self._parts.begin(())

    def begin_batch(self) -> None:
        """Note from now on which rows are written; ``end_batch`` tells by what."""
        self._dirty.written = {}

    def end_batch(self, keys: Sequence[Any], headers: Sequence[Headers]) -> None:
        """Note what was written since the begin as changed by records with these keys and headers.

        Each has changed no other row than that of its key; of several the last one counts.
        """
        written, self._dirty.written = self._dirty.written or {}, None
        there = [key is not None for key in keys]
        found = list(compress(keys, there))
        ckeys = found if self._commits.exact_keys else self._commits.encoded(found)
        for ckey, own in zip(ckeys, compress(headers, there), strict=True):
            if ckey in written:
                self._changed[ckey] = own

    def of_rows(self, ckeys: list[Any]) -> list[Headers]:
        """The headers of rows by cache key; empty where none are known."""
        changed = list(map(self._changed.get, ckeys))
        if not self._stored or None not in changed:
            return [one or () for one in changed]
        stored = self.of_keys(self._commits.to_bytes(ckeys))
        return [old if new is None else new for new, old in zip(changed, stored, strict=True)]

    def of_keys(self, keys: Iterable[bytes]) -> list[Headers]:
        """The headers of rows as of the last drain, by the bytes of their keys."""
        get = self._stored.get
        return [get(key, ()) for key in keys]

    def added(
        self,
        keys: Sequence[bytes],
        rows: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None,
    ) -> list[Headers | None] | None:
        """The headers of changelog records with those kept of their rows; None: there are none."""
        own = [
            () if row is not None and len(row) > MOST_ROW else found
            for row, found in zip(rows, self.of_keys(keys), strict=True)
        ]
        if not any(own):
            return None if headers is None else list(headers)
        given = headers or [None] * len(keys)
        return [(*(head or ()), *more) or None for head, more in zip(given, own, strict=True)]

    def read(self, keys: Sequence[bytes | None], headers: Sequence[Headers | None] | None) -> None:
        """Take those of records of the changelog."""
        if self._kept is None:
            return
        for key, given in zip(keys, headers or [None] * len(keys), strict=True):
            if key is not None:
                self._store(key, self._kept.of(given), self._kept.most)

    def _store(self, key: bytes, headers: Headers, most: int) -> None:
        self._stored.pop(key, None)
        if headers:
            self._stored[key] = headers
            if len(self._stored) > most:
                del self._stored[next(iter(self._stored))]

    def _drained(self, columns: Columns) -> Columns:
        changed, kept, headed = self._changed, self._kept, self._headed
        if kept is not None:
            for key, headers in zip(
                self._commits.to_bytes(list(changed)), list(changed.values()), strict=True
            ):
                self._store(key, kept.of(headers), kept.most)
        if headed is not None:
            headed.pinned.update(changed)
            written = list(self._commits.pinned)
            ckeys = zip(self._commits.to_bytes(written), written, strict=True)
            columns = headed.drained(columns, dict(ckeys))
        changed.clear()
        return columns

    def _undone(self) -> None:
        if self._headed is not None:
            dirty, pinned = self._commits.dirty, self._headed.pinned
            before = {ckey: one for ckey, one in pinned.items() if ckey not in dirty}
            self._undone_changes = {**before, **self._changed}

    def _written(self) -> None:
        if self._headed is not None:
            self._headed.pinned.clear()
        if self._undone_changes is not None:
            self._changed.clear()
            self._changed.update(self._undone_changes)
            self._undone_changes = None


def row_headers(
    stores: Mapping[str, TaskStore], facts: Iterable[StoreSpec], kept: KeptHeaders | None
) -> dict[str, RowHeaders]:
    """The headers kept beside a task's stores, which were just made; none if not asked for.

    Buffers keep the headers of all they have anyway; timers and the records of joins of streams are
    no rows of a table.
    """
    found: dict[str, RowHeaders] = {}
    for one in facts:
        of = None if one.buffer or one.timers or one.join else kept
        if of is not None or one.headers:
            found[one.name] = RowHeaders(stores[one.name], of)
    return found


class _NotedRows(dict[Any, int]):
    """Dirty rows of a store that note the headers of the record that writes them."""

    def __init__(self, changed: dict[Any, Headers]) -> None:
        super().__init__()
        self._changed = changed
        #: Of the record that writes; None: nothing is to be noted.
        self.headers: Headers | None = None
        #: Rows that are written, without what; None: they are not asked for.
        self.written: dict[Any, None] | None = None

    def __setitem__(self, ckey: Any, time: int) -> None:
        super().__setitem__(ckey, time)
        if self.headers is not None:
            self._changed[ckey] = self.headers
        elif self.written is None:  # no record has changed it
            self._changed.pop(ckey, None)
        if self.written is not None:
            self.written[ckey] = None

    def update(self, rows: Any = (), /, **_: int) -> None:
        """Write rows, given as a dict or as pairs."""
        rows = dict(rows)
        super().update(rows)
        if self.headers is not None:
            self._changed.update(dict.fromkeys(rows, self.headers))
        elif self.written is None:
            deque(map(self._changed.pop, rows, repeat(None)), maxlen=0)
        if self.written is not None:
            self.written.update(dict.fromkeys(rows))


class _WithDirty(Protocol):
    """A part of a store that marks what is dirty."""

    dirty: dict[Any, int]


def _noted(store: TaskStore, changed: dict[Any, Headers]) -> _NotedRows:
    """Replace the dirty rows of a store, which was just made, by some that note headers."""
    before, noted = store.commits.dirty, _NotedRows(changed)
    for part in (store, store.commits, getattr(store, "rows", None)):
        if getattr(part, "dirty", None) is before:
            cast(_WithDirty, part).dirty = noted
    if isinstance(store, TimeWindowStore):
        store.unmarked = Unmarked()
    return noted
