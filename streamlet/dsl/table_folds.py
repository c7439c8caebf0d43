"""Operators that group a table by other keys, and fold it: rows come, change and go.

A change of a row is its new value and its old one. ``Regroup`` sends it to the group of the row,
or takes the old value from one group and gives the new one to another. ``TableFold`` subtracts old
values from a group's row and adds new ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import HotStore, accepting, aggregated, copier, keyed, stored
from streamlet.dsl.uses import TableUse
from streamlet.dsl.window_updates import taken
from streamlet.serdes import Serde
from streamlet.serdes.serde import build

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
    the old group first. A row whose new key or value is None is in no group. ``key`` is the serde
    of groups, whose bytes tell them apart.
    """

    function: Function
    key: Serde[Any]

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when the function fails, or returns no pair."""
        records: list[int] = []
        keys: list[Any] = []
        values: list[Any] = []
        olds = batch.olds
        assert olds is not None, "a table that is grouped sends its old values"
        error: BaseException | None = None
        done = 0
        try:
            for key, new, old in zip(batch.keys, batch.values, olds, strict=True):
                found = self._changes(key, new, old)
                records += [done] * len(found)
                keys += [group for group, _ in found]
                values += [change for _, change in found]
                done += 1
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # an exit is an error like any other
            error = failure
        out = attrs.evolve(taken(batch, records), keys=keys, values=values, olds=None)
        if error is not None:
            raise OperatorFailed(done, out) from error
        return out

    def _changes(self, key: Any, new: Any, old: Any) -> list[tuple[Any, Change]]:
        """The groups that a change concerns, and what changes in each."""
        before, after = self._place(key, old), self._place(key, new)
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
        group, found = self.function(key, value)
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

    Args:
        store: of the groups.
        folding: the functions.
        value: serde of the groups' values.
        use: what is noted of the table.
    """

    store: HotStore
    folding: TableFolding
    value: Serde[Any]
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a function fails or returns what the serde refuses."""
        batch, ckeys, error = keyed(self.store, batch)
        check, copy = accepting(self.value), copier(self.value)
        send = copy if self.use.shown else None

        def changed(key: Any, change: Change, row: Any) -> Any:
            new = self._changed(key, change, row)
            return copy(new) if copy and new is change[0] else new

        step = _no_row, changed, check, copy, send
        out, olds, failure = aggregated(self.store, batch, ckeys, *step)
        error = error if failure is None else failure
        return stored(self.store, self.use, batch, ckeys, out, olds, error)

    def _changed(self, key: Any, change: Change, row: Any) -> Any:
        """The row after a change."""
        new, old = change
        if old is not None and row is not None:
            row = self.folding.subtract(key, old, row)
        if new is not None:
            row = self.folding.add(key, new, self.folding.first() if row is None else row)
        return row


def _no_row() -> None:
    """The row of a group that has none."""
