"""The digests that left rows asked with, so that answers to them need no look at the rows.

A digest is that of an object: a table never changes one that it has, and takes another for a new
value. What is not known here is worked out from the row.
"""

from __future__ import annotations

from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from streamlet.columnwise import put_values
from streamlet.topology.operator import TaskContext

#: Rows that are known at most; once there are more, all are forgotten.
MOST_ROWS = 20_000


@attrs.frozen
class AskedRows:
    """The digests of left rows of one task, by cache key."""

    _rows: dict[Any, Any] = attrs.field(factory=dict, init=False)
    _digests: dict[Any, bytes | None] = attrs.field(factory=dict, init=False)

    def note(self, ckeys: list[Any], rows: list[Any], digests: list[bytes | None]) -> None:
        """Take note of rows that ask."""
        if len(self._rows) > MOST_ROWS:
            self._rows.clear()
            self._digests.clear()
        put_values(self._rows, ckeys, rows)
        put_values(self._digests, ckeys, digests)

    def digests(self, ckeys: list[Any], rows: list[Any]) -> list[bytes | None]:
        """The digests of these rows; None where they are not known."""
        are_these = map(is_, map(self._rows.get, ckeys), rows)
        found = zip(map(self._digests.get, ckeys), are_these, strict=True)
        return [digest if is_this else None for digest, is_this in found]


@attrs.frozen(eq=False)
class AskedTable:
    """The left rows of a join, in each task."""

    _tasks: WeakKeyDictionary[TaskContext, AskedRows] = attrs.field(
        factory=WeakKeyDictionary, init=False
    )

    def rows(self, context: TaskContext) -> AskedRows:
        """The rows of a task that have asked."""
        return self._tasks.setdefault(context, AskedRows())
