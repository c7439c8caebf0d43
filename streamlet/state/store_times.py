"""The times that a store has come to, as a row of it, written with each commit that changed them.

They are the stream time of its operator and the latest time that was put (``WindowProgress``), and
go wherever the rows go. The keys of such a store's rows begin with a time: rows that are later than
all that the medium has are not looked for there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from streamlet.state.backing import Backing
from streamlet.state.beside import Beside
from streamlet.state.rows import NO_TIME
from streamlet.state.unreadable import rows_of_store
from streamlet.state.window_rows import PROGRESS_KEY, WindowProgress

#: Below all times.
EVER = -(1 << 63)


class StoreTimes(Beside):
    """The stream times that a store has reached, and their row on disk.

    Args:
        store: its name.
        backing: where the bytes are.
    """

    def __init__(self, store: str, backing: Backing) -> None:
        self._now: WindowProgress | None = None  # None: not read yet
        self._store, self._backing = store, backing
        self._written = WindowProgress()
        self._pinned: WindowProgress | None = None
        #: Rows above this time are in memory, all there are.
        self.complete_above = EVER

    @property
    def progress(self) -> WindowProgress:
        """The stream times that the store has reached."""
        return self._now or self._read()

    def _read(self) -> WindowProgress:
        with rows_of_store(self._store):
            now = WindowProgress.from_row(self._backing.get(PROGRESS_KEY))
        self._now = self._written = now
        self.complete_above = now.highest  # later rows are all written by this store
        return now

    def advance(self, observed: int, highest: int = NO_TIME, emitted: bytes | None = None) -> None:
        """Raise the stream time and the latest time that was put, and note what was emitted."""
        now = self.progress
        self._now = WindowProgress(
            max(now.observed, observed),
            max(now.highest, highest),
            now.emitted if emitted is None else emitted,
        )

    def observed(self, stream: int) -> int:
        """The stream time of one of the streams whose operators share the store."""
        if not stream:
            return self.progress.observed
        times = _times(self.progress.emitted)
        return times[stream - 1] if stream <= len(times) else NO_TIME

    def observe(self, stream: int, observed: int, highest: int) -> None:
        """Raise the stream time of one stream, and the latest time that was put."""
        if not stream:
            self.advance(observed, highest)
            return
        times = _times(self.progress.emitted)
        times += [NO_TIME] * (stream - len(times))
        times[stream - 1] = max(times[stream - 1], observed)
        self.advance(NO_TIME, highest, struct.pack(f">{len(times)}q", *times))

    # Rows by their times.

    def is_new(self, time: int) -> bool:
        """True if rows of the time are in memory, if there are any."""
        return self._now is not None and time > self.complete_above

    def left(self, ckeys: Iterable[Any]) -> None:
        """Take note of rows that are no longer in memory."""
        latest = max(map(itemgetter(0), ckeys), default=EVER)
        self.complete_above = max(self.complete_above, latest)

    # The row, beside those of the keys.

    @property
    def drained(self) -> WindowProgress:
        """The times as of the drain under way, if there is one, else the present ones."""
        return self._pinned or self.progress

    def has_changes(self) -> bool:
        """True if the row is to be written."""
        return self.progress != self._written

    def drain(self, again: Sequence[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """The row, if it has changed or is asked for."""
        wanted = self.has_changes() or PROGRESS_KEY in again
        self._pinned = self.progress
        return ([PROGRESS_KEY], [self._pinned.to_row()]) if wanted else ([], [])

    def undo_drain(self) -> None:
        """Take back a drain: the row has changed again."""
        self._pinned = None

    def written(self) -> None:
        """Note that a drain is on the medium."""
        if self._pinned is not None:
            self._written = self._pinned
        self._pinned = None

    def forget(self) -> None:
        """Read the row again: the medium has changed."""
        self._now = None

    def reset(self, backing: Backing) -> None:
        """Forget the times that are not on the medium, which is this one now."""
        self._pinned, self._backing = None, backing
        self.forget()


class StoreWithTimes:
    """A store that keeps the times that it has come to."""

    times: StoreTimes

    @property
    def progress(self) -> WindowProgress:
        """The stream times that the store has reached."""
        return self.times.progress


def _times(noted: bytes) -> list[int]:
    """The stream times of all streams but the first."""
    return list(struct.unpack(f">{len(noted) // 8}q", noted))
