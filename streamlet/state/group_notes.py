"""The notes of a store of the groups of a table: what a group's row lacks.

A value that could not be added to its group is not in the group's row, so it must not be taken out
when the table's row changes. It *stands for* the value that is still in there, or for none. These
notes are rows of the store, so they go wherever the rows go: one for each group that has any, under
the group's key with a mark before it. Readers of the store never see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import msgspec

from streamlet.state.backing import Backing, end_of_prefix
from streamlet.state.beside import Beside
from streamlet.state.rows import TIME_BYTES, UNTIMED
from streamlet.state.unreadable import rows_of_store

#: Begins the keys of notes; no key of a group begins so, but for bytes that are made to.
NOTE_PREFIX = b"\xff\xfe\xffstreamlet-not-added\xff"
#: For each value, those that it stands for, one for each row of the table.
Notes = dict[bytes, list[bytes | None]]

_END = end_of_prefix(NOTE_PREFIX)


@attrs.frozen
class _WithoutNotes:
    """The rows of a medium that are no notes."""

    inner: Backing

    def get(self, key: bytes) -> bytes | None:
        """The value, or None."""
        return self.inner.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of several keys, in their order."""
        return self.inner.get_many(keys)

    def scan(
        self, low: bytes | None, high: bytes | None, *, backward: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Entries from ``low`` (inclusive) to ``high`` (exclusive), by key, as they are now."""
        rows = self.inner.scan(low, high, backward=backward)
        return (row for row in rows if not row[0].startswith(NOTE_PREFIX))


class GroupNotes(Beside):
    """The notes of a store of groups.

    Args:
        backing: where the bytes are.
    """

    def __init__(self, store: str, backing: Backing) -> None:
        self._store, self._backing = store, backing
        self._notes: dict[bytes, Notes] | None = None  # None: not read yet
        self._changed: set[bytes] = set()
        self._pinned: set[bytes] = set()

    @property
    def by_group(self) -> dict[bytes, Notes]:
        """The notes by the key of their group, bytes; groups without any are left out."""
        if self._notes is None:
            rows = self._backing.scan(NOTE_PREFIX, _END)
            with rows_of_store(self._store):
                self._notes = {key[len(NOTE_PREFIX) :]: _read(raw) for key, raw in rows}
        return self._notes

    def add(self, group: bytes, value: bytes, stands_for: bytes | None) -> None:
        """Note that a value is not in the row of its group, and which one is in its place."""
        self.by_group.setdefault(group, {}).setdefault(value, []).append(stands_for)
        self._changed.add(group)

    def remove(self, group: bytes, value: bytes) -> None:
        """Take out a note of a value that has left its group."""
        notes = self.by_group[group]
        notes[value].pop()
        if not notes[value]:
            del notes[value]
        if not notes:
            del self.by_group[group]
        self._changed.add(group)

    # What the store does with them.

    def rows_of(self, backing: Backing) -> Backing:
        """The medium without notes."""
        return _WithoutNotes(backing)

    def has_changes(self) -> bool:
        """True if notes have changed."""
        return bool(self._changed)

    def drain(self, again: Sequence[bytes]) -> tuple[list[bytes], list[bytes | None]]:
        """The notes of groups that have changed; the store writes others again, like its rows."""
        groups = list(self._changed)
        found = [self.by_group.get(group) for group in groups]
        self._pinned, self._changed = self._changed, set()
        rows = [None if notes is None else _written(notes) for notes in found]
        return [NOTE_PREFIX + group for group in groups], rows

    def undo_drain(self) -> None:
        """Undo a drain whose commit failed: its notes count as changed again."""
        self._changed |= self._pinned

    def written(self) -> None:
        """Note that a drain is on the medium."""
        self._pinned = set()

    def forget(self) -> None:
        """Forget cached notes, because the medium has changed."""
        self._notes = None

    def reset(self, backing: Backing) -> None:
        """Forget the changes; this is the medium now."""
        self._backing, self._changed = backing, set()


def _read(raw: bytes) -> Notes:
    return msgspec.msgpack.decode(raw[TIME_BYTES:], type=Notes)


def _written(notes: Notes) -> bytes:
    return UNTIMED + msgspec.msgpack.encode(notes)
