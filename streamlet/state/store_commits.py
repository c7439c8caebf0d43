"""The rows of a store on their way through commits: bytes, and what is dirty, pinned and written.

    in memory  ── drain ──▶  pinned (on its way to the changelog)  ── written ──▶  the medium

Every store has one, whatever it keeps its rows in (``HeldRows``): a dict (``store.CachedStore``) or
the windows of ``time_window_store``. What else happens with a commit is told it as ``Steps``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from streamlet.errors import SerdeError, StateError
from streamlet.serdes import ColumnError, Serde
from streamlet.state.backing import Backing, Columns, MeasuredBacking, StoreFigures
from streamlet.state.beside import Beside
from streamlet.state.checked import EntryCheck, unwritable
from streamlet.state.headed_parts import PartHeaders
from streamlet.state.headed_rows import HeadedRows, OfRecords
from streamlet.state.overlay import Overlay, merged
from streamlet.state.rows import NO_TIME, TIME_BYTES, Changes, rows_of, time_of_row
from streamlet.state.sizes import EntrySize
from streamlet.state.source_times import SourceTimes
from streamlet.state.store_parts import HeldRows, Steps, TimedRow
from streamlet.state.unreadable import rows_of_store


class StoreCommits:
    """The part of a store that its task's state deals with.

    Args:
        name: of the store.
        key: serde of the cache keys.
        value: serde of the values.
        backing: where the bytes are.
        held: the rows in memory.
        beside: what it keeps beside the rows of its keys.
        steps: of the other parts of the store.
    """

    def __init__(
        self,
        name: str,
        key: Serde[Any],
        value: Serde[Any],
        backing: Backing,
        held: HeldRows,
        beside: Beside | None,
        steps: Sequence[Steps],
    ) -> None:
        self.name = name
        self.key, self.value, self.exact_keys = key, value, key.exact is not None
        #: Cache keys written since the last drain, oldest first, with the time of the row, ms; one
        #: dict all along.
        self.dirty: dict[Any, int] = {}
        #: Those that were drained, and are not yet written.
        self.pinned: dict[Any, int] = {}
        #: No row is younger than this, ms; -1 where there is none.
        self.latest = NO_TIME
        #: Of a topic that it is restored from.
        self.source_times = SourceTimes(None)
        self.beside = beside or Beside()
        self._medium, self.backing = backing, self.beside.rows_of(backing)
        #: The headers that rows bear; None: they bear none.
        self.headed: HeadedRows | None = None
        #: Those that the windows or versions in rows bear; None: they bear none.
        self.parts: PartHeaders | None = None
        #: Rows put on the medium, and asked of it.
        self._written = self._read = 0
        self._held, self._steps = held, list(steps)
        self._overlay = Overlay(self.to_bytes)
        self._entry_size = EntrySize(held.sampled_bytes)

    @property
    def keeps_headers(self) -> bool:
        """True if rows, or what is in them, bear the headers of the records that change them."""
        return self.headed is not None or self.parts is not None

    def keep_headers(self, *, in_parts: bool) -> None:
        """Let rows bear the headers of the records that change them; for a store just made.

        ``in_parts``: each window or version in a row bears those of its own.
        """
        if in_parts:
            self.parts = PartHeaders()
            return
        self.headed = HeadedRows(self.name)
        self.backing = self.headed.bare_rows(self.backing, self._medium)

    def add(self, steps: Steps) -> None:
        """Add the steps of another part of the store."""
        self._steps.append(steps)

    def reached(self, time_ms: int) -> None:
        """Note that a row of this time was written, ms."""
        if time_ms > self.latest:
            self.latest = time_ms

    # Keys and values as bytes.

    def key_bytes(self, key: Any) -> bytes:
        """The bytes of a key; raises ``StateError`` for None, ``SerdeError`` for a wrong type."""
        if key is None:
            raise StateError(f"store {self.name}: a key cannot be None")
        return self.key.encode(key)

    def to_bytes(self, ckeys: list[Any]) -> list[bytes]:
        """The bytes of cache keys."""
        return self.encoded(ckeys) if self.exact_keys else list(ckeys)

    def encoded(self, keys: list[Any]) -> list[bytes]:
        """The bytes of a column of keys."""
        raws = self.key.encode_column(keys)
        if None in raws:
            raise StateError(f"store {self.name}: a key cannot be None")
        return raws  # type: ignore[return-value]

    def stored(self, ckey: Any) -> bytes | None:
        """The row of a cache key on the medium."""
        self._read += 1
        return self.backing.get(self.key.encode(ckey) if self.exact_keys else ckey)

    def stored_many(self, ckeys: list[Any]) -> list[bytes | None]:
        """The rows of cache keys on the medium; one call for all."""
        self._read += len(ckeys)
        return self.backing.get_many(self.to_bytes(ckeys))

    def decoded(self, raw: bytes) -> Any:
        """The value in a row."""
        try:
            return self.value.decode(raw[TIME_BYTES:])
        except SerdeError as error:
            raise StateError(f"store {self.name}: {error}") from error

    def decoded_all(self, raws: list[bytes | None]) -> list[Any]:
        """The values in rows, None where there is none."""
        try:
            return self.value.decode_column([raw and raw[TIME_BYTES:] for raw in raws])
        except ColumnError as error:
            raise StateError(f"store {self.name}: {error.cause}") from error.cause

    def taken(
        self, keys: list[bytes], values: list[bytes | None], times: list[int], headers: OfRecords
    ) -> tuple[list[bytes], list[bytes | None]]:
        """Records of other writers that this store took, as keys and rows that it would write.

        A record that the serdes cannot read, or that has no time, never came through; a restore
        must leave it out as well, or the row would be unreadable, where it was missing or an older
        one before.
        """
        headers = None if self.headed is None else headers
        return self.source_times.taken(self.key, self.value, keys, values, times, headers)

    def check_entries(self, most: int | None) -> None:
        """Refuse from now on what has no bytes, or makes a record of more than so many bytes."""
        if self.headed is not None:
            self.headed.most = most
        self._held.refuse(EntryCheck(self.name, self._size, most))

    def _size(self, ckey: Any, value: Any) -> int:
        key = self.key.encode(ckey) if self.exact_keys else ckey
        row = 0 if value is None else len(self.value.encode(value))
        return len(key) + TIME_BYTES + row

    # Scans.

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[TimedRow]:
        """Rows as they are now, with their times; scanned values do not fill the memory."""
        entry = self._held.entry
        with rows_of_store(self.name):
            for key, ckey, raw in self.raw_rows(low, high, backward=backward):
                found = entry(ckey)
                if found is None:
                    raw = self.backing.get(key) if raw is None else raw
                    found = None if raw is None else (self.decoded(raw), time_of_row(raw))
                if found is not None and found[0] is not None:
                    yield ckey, *found

    def raw_rows(
        self, low: bytes | None, high: bytes | None, *, backward: bool
    ) -> Iterator[tuple[bytes, Any, bytes | None]]:
        """The medium's rows with what was written since laid over them (``merged``)."""
        newer = self._overlay.between(self.pinned, self.dirty, low, high, backward=backward)
        older = self.backing.scan(low, high, backward=backward)
        is_bytes = not self.exact_keys or self.key.exact is bytes
        return merged(older, newer, None if is_bytes else self.key.decode, backward=backward)

    def index_some(self, most: int) -> bool:
        """Do a part of what the next scan does first; False: nothing is left to do.

        ``most`` is a number of rows that were written since the last scan.
        """
        return self._overlay.index_some(self.pinned, self.dirty, most)

    def unmark(self, ckeys: Sequence[Any]) -> None:
        """Take back that rows were written; they are not in memory any more."""
        for marked in (self.dirty, self.pinned):
            gone = list(filter(marked.__contains__, ckeys)) if marked else []
            for ckey in gone:
                marked.pop(ckey, None)
            if gone:
                self._overlay.written()  # it counts on dicts that only grow

    # One commit.

    def changes(self, olds: bool, keys_of: Callable[[list[Any]], list[Any]]) -> Changes:
        """The rows that were written since the last commit, and if ``olds``, what they were then.

        All commits before must be on the medium. ``keys_of`` gives the keys of cache keys.
        """
        ckeys = list(self.dirty)
        values, times = self._held.columns(ckeys)
        assert not olds or not self.pinned, f"{self.name}: the medium is not as of the last commit"
        before = None
        if olds:
            before = self.decoded_all(self.stored_many(ckeys)) if ckeys else []
        return Changes(keys_of(ckeys), values, before, times)

    def has_changes(self) -> bool:
        """True if a drain would return anything."""
        return bool(self.dirty) or self.beside.has_changes()

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode what has changed, and the present values of the keys in ``again``.

        The entries are pinned until ``written``.

        Raises:
            SerdeError: a value cannot be encoded; nothing has changed then.
        """
        assert not self.pinned, f"{self.name}: drained twice without a write"
        for one in self._steps:
            if one.before_drain is not None:
                one.before_drain()
        keys, rows = self._encoded_rows(list(self.dirty))
        rest = list(dict.fromkeys(again)) if again else []
        beside_keys, beside_rows = self.beside.drain(rest)
        keys, rows = beside_keys + keys, beside_rows + rows
        if rest:
            covered = set(keys)
            rest = [key for key in rest if key not in covered]
            keys, rows = keys + rest, rows + self.backing.get_many(rest)
        columns = Columns(self.name, keys, rows)
        self._entry_size.changed(len(self.dirty))
        self.pinned = dict(self.dirty)
        self.dirty.clear()
        self._overlay.drained()
        self._held.drained()
        for one in self._steps:
            if one.drained is not None:
                columns = one.drained(columns)
        return columns

    def _encoded_rows(self, ckeys: list[Any]) -> tuple[list[bytes], list[bytes | None]]:
        values, times = self._held.columns(ckeys)
        try:
            raws = self.value.encode_rows(values)
            keys = self.to_bytes(ckeys)
        except ColumnError as error:
            raise unwritable(self.name, ckeys[error.index], error.cause) from error
        if self.value.encode_all is None and None in raws:  # a serde that writes None deletes
            for ckey, raw in zip(ckeys, raws, strict=True):
                if raw is None:
                    self._held.delete(ckey)
        return keys, rows_of(raws, times)

    def undo_drain(self) -> None:
        """Take back a drain: the entries are dirty again."""
        self._undone()
        self.beside.undo_drain()
        self._held.undone()
        newer = dict(self.dirty)
        self.dirty.clear()
        self.dirty.update(self.pinned)
        self.dirty.update(newer)
        self.written()

    def written(self) -> dict[Any, int]:
        """Note that a drain is on the medium; its cache keys need not stay in memory."""
        done, self.pinned = self.pinned, {}
        self._written += len(done)
        self._held.written(done)
        self._overlay.written()
        self.beside.written()
        for one in self._steps:
            if one.written is not None:
                one.written()
        return done

    def figures(self) -> StoreFigures:
        """Counts and sizes, for the thread of the task."""
        medium: dict[str, int] = {}
        if isinstance(self._medium, MeasuredBacking):
            with suppress(StateError):  # who uses the store meets it too
                medium = self._medium.figures()
        return StoreFigures(self._written, self._read, self.cache_bytes(), medium)

    def reset(self, backing: Backing) -> None:
        """Forget everything that is not on the medium, which is this one now."""
        self._undone()
        self.dirty.clear()
        self.written()
        self.backing = self.beside.rows_of(backing)
        if self.headed is not None:
            self.backing = self.headed.bare_rows(self.backing, backing)
        self.beside.reset(backing)
        self.forget()

    def _undone(self) -> None:
        for one in self._steps:
            if one.undone is not None:
                one.undone()

    def forget(self) -> None:
        """Empty the memory: what is on the medium has changed."""
        self._held.clear()
        self.beside.forget()
        for one in self._steps:
            if one.forgotten is not None:
                one.forgotten()

    def read(self, columns: Columns) -> Columns:
        """Entries from the changelog with the range of rows that expire with them."""
        for one in self._steps:
            if one.read is not None:
                columns = one.read(columns)
        return columns

    # Memory.

    @property
    def row_bytes(self) -> float:
        """Estimate of what a row takes in memory."""
        return self._entry_size.of(self._held.count())

    @property
    def held_bytes(self) -> int:
        """Estimate of what dirty and pinned rows take beside their entries, bytes."""
        headers = 0 if self.headed is None else self.headed.held_bytes()
        return (len(self.dirty) + len(self.pinned)) * self._held.dirty_row_bytes + headers

    def cache_bytes(self) -> int:
        """Estimate of what the rows take in memory."""
        return int(self._held.count() * self.row_bytes) + self.held_bytes

    def dirty_bytes(self) -> int:
        """Estimate of what the rows take that cannot be evicted."""
        return int((len(self.dirty) + len(self.pinned)) * self.row_bytes) + self.held_bytes

    def evict(self, limit_bytes: int, recent: Iterable[Any] = ()) -> None:
        """Drop clean rows until they take less than the limit: oldest first, ``recent`` last."""
        if self.cache_bytes() > limit_bytes:
            self._held.evict(limit_bytes, recent)

    def check_invariants(self) -> None:
        """Assert what must hold between two calls; for tests."""
        self._held.check_invariants()
        for one in self._steps:
            if one.check_invariants is not None:
                one.check_invariants()


class TaskStore(Protocol):
    """A store as its task sees it; what operators see depends on its kind."""

    @property
    def commits(self) -> StoreCommits:
        """Its rows on their way through commits."""
        ...


@runtime_checkable
class TimedStore(TaskStore, Protocol):
    """A store that keeps the stream time of its operators."""

    def advance(self, observed: int) -> None:
        """Raise the stream time, ms."""
        ...
