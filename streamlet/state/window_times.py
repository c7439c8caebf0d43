"""The times of a store of windows: which of them are shown, and which have expired.

A record that was late stays late on any host, for the times go with the rows (``store_times``).
Windows older than the retention are not shown. They leave the memory, and the medium with the next
commit, by one range deletion. Nothing about them is written to the changelog: a reader deletes them
by the times in the progress row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import attrs

from streamlet.serdes.windowed import NO_END
from streamlet.state.backing import Backing, Columns
from streamlet.state.rows import NO_TIME
from streamlet.state.store_parts import Steps
from streamlet.state.store_specs import WindowSpec
from streamlet.state.store_times import EVER, StoreTimes
from streamlet.state.window_rows import (
    FIRST_KEY,
    PROGRESS_KEY,
    WindowProgress,
    time_bytes,
)

#: Expired rows that leave the memory in one call, at most; a later call takes the next.
FORGET_ROWS = 5_000


class WindowTimes:
    """The times of a store of windows.

    Args:
        name: of the store.
        layout: keys, retention and size of the windows.
        backing: where the bytes are.
        forget: takes up to so many expired rows out of memory, and sets ``forgotten`` once all are.
    """

    def __init__(
        self, name: str, layout: WindowSpec, backing: Backing, forget: Callable[[int], None]
    ) -> None:
        self.layout, self._forget = layout, forget
        self.row = StoreTimes(name, backing)
        #: Rows below this time are out of memory; those of the medium below the next one are
        #: deleted.
        self.forgotten = EVER
        self._deleted = EVER
        self._pinned_deleted: int | None = None
        #: Rows from this time on must be kept although they have expired; None: there are none.
        self.needed_from: int | None = None

    @property
    def progress(self) -> WindowProgress:
        """The stream times that the store has reached."""
        return self.row.progress

    @property
    def shown_from(self) -> int:
        """The earliest time of a window that may be shown, ms; all earlier ones have expired."""
        return self._shown_from(self.row.progress)

    @property
    def kept_from(self) -> int:
        """The time below which rows hold nothing that is shown or needed, ms."""
        return self.row_time(self.items_from)

    @property
    def drained_highest(self) -> int:
        """The latest window put before the last drain, ms."""
        return self.row.drained.highest

    def _shown_from(self, progress: WindowProgress) -> int:
        retention = self.layout.retention_ms
        if retention is None or progress.highest == NO_TIME:
            return EVER
        return progress.highest - retention + 1

    @property
    def items_from(self) -> int:
        """Windows before this time are neither shown nor needed."""
        kept, needed = self._kept(self.row.progress), self.needed_from
        return kept if needed is None else min(kept, needed)

    def advance(self, observed: int, highest: int = NO_TIME, emitted: bytes | None = None) -> None:
        """Raise the stream time and the latest time that was put, and note what was emitted."""
        self.row.advance(observed, highest, emitted)
        self._forget_some()

    def observe(self, stream: int, observed: int, highest: int) -> None:
        """Raise the stream time of one stream, and the latest time that was put."""
        self.row.observe(stream, observed, highest)
        self._forget_some()

    def _forget_some(self) -> None:
        if self.kept_from > self.forgotten:
            self._forget(FORGET_ROWS)

    def _forget_all(self) -> None:
        self._forget(sys.maxsize)

    def row_time(self, time: int) -> int:
        """The time in the key of the row that a window of this time is in."""
        bucket = self.layout.bucket_ms
        return time if bucket == 0 or time == EVER else time - time % bucket

    def end(self, start: int) -> int:
        """The end of the window that begins at a time."""
        size, end_of = self.layout.size_ms, self.layout.end_of
        if end_of is not None:
            return end_of(start)
        return NO_END if size is None else start + size

    def keep_expired(self, keep: bool) -> None:
        """Have changes tell of rows that expire from now on, or no more."""
        if not keep:
            self.needed_from = None
        elif self.needed_from is None:
            self.needed_from = self.shown_from

    # Commits.

    @property
    def steps(self) -> Steps:
        """The deletion of expired rows with commits."""
        return Steps(
            before_drain=self._forget_all,
            drained=self._drained,
            undone=self._undone,
            written=self._written,
            forgotten=self._forgotten,
            read=self._with_expired,
        )

    def _drained(self, columns: Columns) -> Columns:
        kept_from = self.kept_from
        if not columns.keys or kept_from <= self._deleted:
            return columns
        self._pinned_deleted = kept_from
        return attrs.evolve(columns, expired=_range(self._deleted, kept_from))

    def _undone(self) -> None:
        self._pinned_deleted = None

    def _written(self) -> None:
        if self._pinned_deleted is not None:
            self._deleted = self._pinned_deleted
        self._pinned_deleted = None

    def _forgotten(self) -> None:
        self.forgotten = self._deleted = EVER

    def _with_expired(self, columns: Columns) -> Columns:
        """Entries from the changelog with the range of rows that expire with them."""
        row = dict(zip(columns.keys, columns.values, strict=True)).get(PROGRESS_KEY)
        kept_from = self._kept(WindowProgress.from_row(row))
        if kept_from == EVER:
            return columns
        return attrs.evolve(columns, expired=_range(EVER, self.row_time(kept_from)))

    def _kept(self, progress: WindowProgress) -> int:
        """The time from which on windows are shown, or still to be sent."""
        shown = self._shown_from(progress)
        return min(shown, progress.sent + 1) if self.layout.final else shown


def _range(low: int, high: int) -> tuple[bytes, bytes]:
    """The rows from one time to another (exclusive); never the progress row."""
    return FIRST_KEY if low == EVER else time_bytes(low), time_bytes(high)


class StoreOfWindows:
    """A store of rows that expire by their times."""

    times: WindowTimes

    @property
    def progress(self) -> WindowProgress:
        """The stream times that the store has reached."""
        return self.times.progress

    @property
    def shown_from(self) -> int:
        """The earliest time of a row that may be shown, ms; all earlier ones have expired."""
        return self.times.shown_from
