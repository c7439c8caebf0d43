"""The progress of a store: stream time and the latest time that was put, as a row of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamlet.state.backing import Backing
from streamlet.state.unreadable import rows_of_store
from streamlet.state.window_rows import PROGRESS_KEY, WindowProgress


class ProgressRow:
    """The progress of a store, which is written with every commit that changed it.

    Args:
        store: its name.
        backing: where the bytes are.
        begun: called with the times when they were read from there.
    """

    def __init__(
        self, store: str, backing: Backing, begun: Callable[[WindowProgress], None]
    ) -> None:
        #: The times that the store has come to; None: they were not read yet.
        self.now: WindowProgress | None = None
        self._store, self._backing, self._begun = store, backing, begun
        self._written = WindowProgress()
        self._pinned: WindowProgress | None = None

    def read(self) -> WindowProgress:
        """The times, from the medium if they were not read yet."""
        if self.now is None:
            with rows_of_store(self._store):
                self.now = self._written = WindowProgress.from_row(self._backing.get(PROGRESS_KEY))
            self._begun(self.now)
        return self.now

    @property
    def drained(self) -> WindowProgress:
        """The times as of the drain that is on its way, else as they are."""
        return self._pinned or self.read()

    def has_changes(self) -> bool:
        """True if the row is to be written."""
        return self.read() != self._written

    def drain(self, again: Sequence[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """The row, if it has changed or is asked for."""
        wanted = self.has_changes() or PROGRESS_KEY in again
        self._pinned = self.read()
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
        self.now = None

    def reset(self, backing: Backing) -> None:
        """Forget the times that are not on the medium, which is this one now."""
        self._pinned, self._backing = None, backing
        self.forget()
