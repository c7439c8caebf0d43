"""Operators that group a table by other keys, and fold it: rows come, change and go.

A change of a row is its new value and its old one. ``Regroup`` sends it to the group of the row,
or takes the old value from one group and gives the new one to another. ``TableFold`` subtracts old
values from a group's row and adds new ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch, OperatorFailed, joined
from streamlet.dsl.folds.stream_folds import aggregated, stored
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import collect, finished
from streamlet.dsl.operators.hot_store import keeper, keyed, reader
from streamlet.dsl.operators.pairs import pair
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.serdes import Serde
from streamlet.serdes.copies import own
from streamlet.serdes.serde import build
from streamlet.state.group_notes import GroupNotes
from streamlet.state.store import CachedStore

Function = Callable[..., Any]

#: New value and old value of a row; None: there is none.
Change: TypeAlias = tuple[Any, Any]

_LENGTHS = struct.Struct(">ii")
#: Stands for the length of a value that is not there.
_NONE = -1


def changes_of(value: Serde[Any]) -> Serde[Change]:
    """The serde of changes of values of a serde: two lengths, then the bytes of each value."""

    def encode(change: Change) -> bytes:
        new, old = (None if one is None else value.encode(one) for one in change)
        lengths = (_NONE if one is None else len(one) for one in (new, old))
        return _LENGTHS.pack(*lengths) + (new or b"") + (old or b"")

    def decode(raw: bytes) -> Change:
        new, old = _LENGTHS.unpack_from(raw)
        middle = _LENGTHS.size + max(0, new)
        return (
            None if new == _NONE else value.decode(raw[_LENGTHS.size : middle]),
            None if old == _NONE else value.decode(raw[middle:]),
        )

    return build(f"changes of {value.name}", encode, decode, accepts=frozenset({tuple}))


@attrs.frozen
class Regroup:
    """Changes of a table by the key of their group, which ``function(key, value)`` gives.

    It returns ``(key, value)``. A row whose group stays is one change, else the old value goes to
    the old group first. A row whose new key or value is None is in no group, nor is one for which
    the function returns None, or fails. ``key`` is the serde of groups, which their bytes tell
    apart.
    """

    function: Function
    key: Serde[Any]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails, or returns no pair."""
        out, olds = ResultColumns(), batch.olds
        assert olds is not None, "a table that is grouped sends its old values"
        error: BaseException | None = None
        done = 0
        try:
            columns = batch.keys, batch.values, olds, batch.timestamps
            for key, new, old, time in zip(*columns, strict=True):
                for group, change in self._changes(key, new, old):
                    out.add(done, group, change, time)
                done += 1
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # an exit is an error like any other
            error = failure
        sent = out.batch(batch)
        if error is not None:
            raise self._failed(batch.slice(done, done + 1), done, sent) from error
        return sent

    def _failed(self, one: Batch, index: int, done: Batch) -> OperatorFailed:
        """The failure on a record: a row that the function fails on is in no group."""
        assert one.olds is not None
        key, new, old = one.keys[0], one.values[0], one.olds[0]
        before, _ = collect(map(self._writable, [key], [old]), 1)
        after, error = collect(map(self._writable, [key], [new]), 1)
        out = ResultColumns()
        for group, change in self._moved(*(before or [None]), *(after or [None])):
            out.add(0, group, change, one.timestamps[0])
        instead = out.batch(one)
        return OperatorFailed(index, done, again=True, instead=instead, of_row=error is None)

    def _writable(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        """The place of a row, for a group whose key has bytes."""
        place = self._place(key, value)
        if place is not None:
            self.key.encode(place[0])
        return place

    def _changes(self, key: Any, new: Any, old: Any) -> list[tuple[Any, Change]]:
        """The groups that a change concerns, and what changes in each."""
        return self._moved(self._place(key, old), self._place(key, new))

    def _moved(
        self, before: tuple[Any, Any] | None, after: tuple[Any, Any] | None
    ) -> list[tuple[Any, Change]]:
        """The groups that change, by the places of the old value and the new one."""
        if before is not None and after is not None and _same(self.key, before[0], after[0]):
            return [(after[0], (after[1], before[1]))]
        found: list[tuple[Any, Change]] = []
        if before is not None:
            found.append((before[0], (None, before[1])))
        if after is not None:
            found.append((after[0], (after[1], None)))
        return found

    def _place(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        """Group and value of a row; None: it is in no group."""
        if value is None:
            return None
        place = own(self.function(key, value))
        if place is None:
            return None
        group, found = pair(place, "expected a pair (key, value), or None for no group")
        return None if group is None or found is None else (group, found)


def _same(key: Serde[Any], one: Any, other: Any) -> bool:
    """True for keys with the same bytes: ``[1]`` and ``[True]`` are equal, and two record keys."""
    if key.exact is not None and type(one) is type(other) is key.exact:
        return bool(one == other)
    return one is other or key.encode(one) == key.encode(other)


@attrs.frozen
class TableFolding:
    """The functions of a fold: ``first()``, and how a value is added and subtracted.

    Both take ``(key, value, aggregate)``.
    """

    first: Callable[[], Any]
    add: Function
    subtract: Function


def counting_rows() -> TableFolding:
    """Number of rows."""
    return TableFolding(lambda: 0, lambda _key, _value, n: n + 1, lambda _key, _value, n: n - 1)


def reducing_rows(adder: Function, subtractor: Function) -> TableFolding:
    """``adder(aggregate, value)`` and ``subtractor(aggregate, value)``, beginning with a value."""

    def add(_key: Any, value: Any, so_far: Any) -> Any:
        return value if so_far is None else adder(so_far, value)

    return TableFolding(lambda: None, add, lambda _key, value, so_far: subtractor(so_far, value))


@attrs.frozen
class TableFold:
    """The row of each group, from which old values are subtracted and to which new ones are added.

    A change on which a function fails leaves the row as it was. Where the policy leaves it out, the
    store notes that the new value stands for the old one (``state.group_notes``), which is taken
    out in its place later. So a row has what was added and was not taken out, whatever was refused.
    A value that cannot be taken out at a second attempt either stays in for good.

    Args:
        store: of the groups.
        folding: the functions.
        value: serde of the groups' values.
        change: serde of the changes.
        use: what is noted of the table.
    """

    store: CachedStore
    folding: TableFolding
    value: Serde[Any]
    change: Serde[Change]
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a function fails or returns what the serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        noted = self._notes.by_group
        if noted and any(self._group(ckey) in noted for ckey in ckeys):
            return self._one_by_one(batch, ckeys, error)
        return self._folded(batch, ckeys, batch.values, error)

    def _folded(
        self, batch: Batch, ckeys: list[Any], sent: list[Any], error: BaseException | None
    ) -> Batch:
        """Fold changes, which were ``sent`` as these; raises as ``process``."""
        step = _no_row, self._changed, reader(self.value), keeper(self.value, "result")
        out, olds, failure = aggregated(self.store, batch, ckeys, *step)
        at = len(out)
        if failure is None:
            return stored(self.store, self.use, batch, ckeys, out, olds, error)
        try:
            stored(self.store, self.use, batch, ckeys, out, olds, failure)
        except OperatorFailed as failed:
            (new, _), (_, old) = sent[at], batch.values[at]
            failed.left_out = partial(self._left_out, ckeys[at], new, old)
            raise
        raise AssertionError("a failure is raised")

    @property
    def _notes(self) -> GroupNotes:
        notes = self.store.commits.beside
        assert isinstance(notes, GroupNotes), notes
        return notes

    def _group(self, ckey: Any) -> bytes:
        """The key of a group, bytes, of a cache key."""
        return self.store.commits.to_bytes([ckey])[0]

    def _one_by_one(self, batch: Batch, ckeys: list[Any], error: BaseException | None) -> Batch:
        """Fold changes of groups of which some have notes; raises as ``process``."""
        done = [batch.slice(0, 0)]
        for index, (ckey, change) in enumerate(zip(ckeys, batch.values, strict=True)):
            group, raw, used = self._group(ckey), self._bytes(change[1]), change
            notes = self._notes.by_group.get(group, {}).get(raw) if raw is not None else None
            if notes:
                used = change[0], self._still_there(batch.keys[index], ckey, notes[-1])
            one = batch.slice(index, index + 1).with_values([used])
            try:
                done.append(self._folded(one, [ckey], [change], None))
            except OperatorFailed as failed:
                moved = failed.at(index, joined([*done, failed.done]))
                if notes and raw is not None:
                    moved.left_out = partial(self._replace_note, failed.left_out, group, raw)
                raise moved from failed.__cause__
            if notes and raw is not None:
                self._notes.remove(group, raw)
        return finished(joined(done), error)

    def _changed(self, key: Any, change: Change, row: Any) -> Any:
        """The row after a change, which may have to be noted as it was sent."""
        new, old = change
        if old is not None and row is not None:
            row = self.folding.subtract(key, own(old), row)
        if new is not None:
            row = own(self.folding.first()) if row is None else row
            row = self.folding.add(key, own(new), row)
        return row

    def _still_there(self, key: Any, ckey: Any, raw: bytes | None) -> Any:
        """The noted old value if it can be subtracted now; None if subtracting fails again."""
        if raw is None:
            return None
        old, _ = self.change.decode(raw)
        copy, row = reader(self.value), self.store.load(ckey)
        if row is None:
            return old
        before = copy(row) if copy else row
        _, error = collect(map(self.folding.subtract, [key], [own(old)], [before]), 1)
        return old if error is None else None

    def _left_out(self, ckey: Any, new: Any, old: Any) -> None:
        """Note that a failed change left the old value in its group and the new one out."""
        raw = self._bytes(new)
        if raw is not None:
            self._notes.add(self._group(ckey), raw, self._bytes(old))

    def _replace_note(self, note: Callable[[], None] | None, group: bytes, raw: bytes) -> None:
        """Note a value in place of one that was there before it."""
        self._notes.remove(group, raw)
        if note is not None:
            note()

    def _bytes(self, value: Any) -> bytes | None:
        return None if value is None else self.change.encode((value, None))


def _no_row() -> None:
    """The row of a group that has none."""
