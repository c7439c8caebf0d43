"""A store of the groups of a table, which also keeps what a group's row lacks.

A value that could not be added to its group is not in the group's row, so it must not be taken out
when the table's row changes. It *stands for* the value that is still in there, or for none. These
notes are rows of the store, so they go wherever the rows go: one for each group that has any, under
the group's key with a mark before it. Readers of the store never see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import msgspec

from streamlet.serdes import Serde
from streamlet.state.backing import Backing, Columns, end_of_prefix
from streamlet.state.rows import TIME_BYTES
from streamlet.state.store import CachedStore

#: Begins the keys of notes; no key of a group begins so, but for bytes that are made to.
NOTE_PREFIX = b"\xff\xfe\xffstreamlet-not-added\xff"
#: For each value, those that it stands for, one for each row of the table.
Notes = dict[bytes, list[bytes | None]]

_UNTIMED = bytes(TIME_BYTES)
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


class GroupStore(CachedStore):
    """A ``CachedStore`` with notes.

    Args:
        name: of the store.
        key: serde of the keys.
        value: serde of the values.
        backing: where the bytes are.
    """

    def __init__(self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing) -> None:
        super().__init__(name, key, value, _WithoutNotes(backing))
        self._medium = backing
        self._notes: dict[bytes, Notes] | None = None  # None: not read yet
        self._changed: set[bytes] = set()
        self._pinned_changed: set[bytes] = set()

    @property
    def noted(self) -> dict[bytes, Notes]:
        """The notes by the key of their group, bytes; groups without any are left out."""
        if self._notes is None:
            rows = self._medium.scan(NOTE_PREFIX, _END)
            self._notes = {key[len(NOTE_PREFIX) :]: _read(raw) for key, raw in rows}
        return self._notes

    def group(self, ckey: Any) -> bytes:
        """The key of a group, bytes, of a cache key."""
        return self._to_bytes([ckey])[0]

    def note(self, group: bytes, value: bytes, stands_for: bytes | None) -> None:
        """Note that a value is not in the row of its group, and which one is in its place."""
        self.noted.setdefault(group, {}).setdefault(value, []).append(stands_for)
        self._changed.add(group)

    def forget_note(self, group: bytes, value: bytes) -> None:
        """Take out a note of a value that has left its group."""
        notes = self.noted[group]
        notes[value].pop()
        if not notes[value]:
            del notes[value]
        if not notes:
            del self.noted[group]
        self._changed.add(group)

    # What the task's state does with it.

    def has_changes(self) -> bool:
        """True if a drain would return anything."""
        return super().has_changes() or bool(self._changed)

    def drain(self, again: Iterable[bytes] = ()) -> Columns:
        """Encode the dirty entries and the notes that changed."""
        keys = {NOTE_PREFIX + group: group for group in self._changed}
        columns = super().drain([key for key in again if key not in keys])
        rows = [self.noted.get(group) for group in keys.values()]
        raws = [None if notes is None else _written(notes) for notes in rows]
        self._pinned_changed, self._changed = self._changed, set()
        return attrs.evolve(columns, keys=[*columns.keys, *keys], values=[*columns.values, *raws])

    def undo_drain(self) -> None:
        """Take back a drain: the entries are dirty again."""
        self._changed |= self._pinned_changed
        super().undo_drain()

    def written(self) -> dict[Any, int]:
        """Note that a drain is on the medium; its cache keys need not stay in the cache."""
        self._pinned_changed = set()
        return super().written()

    def reset(self, backing: Backing) -> None:
        """Forget everything that is not on the medium, which is this one now."""
        self._medium = backing
        self._changed = set()
        super().reset(_WithoutNotes(backing))

    def forget(self) -> None:
        """Empty the cache: what is on the medium has changed."""
        super().forget()
        self._notes = None


def _read(raw: bytes) -> Notes:
    return msgspec.msgpack.decode(raw[TIME_BYTES:], type=Notes)


def _written(notes: Notes) -> bytes:
    return _UNTIMED + msgspec.msgpack.encode(notes)
