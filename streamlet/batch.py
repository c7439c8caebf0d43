"""The unit of flow: decoded records of one source partition, in columns.

Everything between a source and a sink takes and returns a ``Batch``; the columns are plain lists of
equal length, so that an operator is one C-level pass over one of them. Where a record came from
stays with it (``topic``, ``partition``, ``offsets``), for error messages and dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, compress
from operator import itemgetter
from typing import Any

import attrs


@attrs.define(slots=True)
class Batch:
    """Records in columns.

    ``olds`` is a column of a table's previous values and is None in a stream, and in a table whose
    readers do not need it; between the nodes of one operator it may be a column that one of them
    computes for the others. ``headers`` is None where no record has any. ``behind`` tells of the
    changes of a versioned table which of them are not of the newest version of their row; None:
    all are. Columns may be shared between batches: never change one in place.
    """

    topic: str
    partition: int
    offsets: Sequence[int]
    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    headers: list[Any] | None = None
    olds: list[Any] | None = None
    behind: list[bool] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    # The constructor is called by itself: attrs.evolve() takes five times as long, which counts
    # where batches are short.

    def slice(self, start: int, stop: int) -> Batch:
        """Records ``start`` to ``stop`` (exclusive)."""
        headers, olds, behind = self.headers, self.olds, self.behind
        return Batch(
            self.topic,
            self.partition,
            self.offsets[start:stop],
            self.keys[start:stop],
            self.values[start:stop],
            self.timestamps[start:stop],
            None if headers is None else headers[start:stop],
            None if olds is None else olds[start:stop],
            None if behind is None else behind[start:stop],
        )

    def select(self, mask: Sequence[Any]) -> Batch:
        """Records whose mask entry is true."""
        headers, olds, behind = self.headers, self.olds, self.behind
        return Batch(
            self.topic,
            self.partition,
            list(compress(self.offsets, mask)),
            list(compress(self.keys, mask)),
            list(compress(self.values, mask)),
            list(compress(self.timestamps, mask)),
            None if headers is None else list(compress(headers, mask)),
            None if olds is None else list(compress(olds, mask)),
            None if behind is None else list(compress(behind, mask)),
        )

    def pick(self, indexes: Sequence[int]) -> Batch:
        """The records at these indexes, in their order."""
        if len(indexes) < 2:  # an itemgetter of one index returns no tuple
            return self.slice(*(indexes[0], indexes[0] + 1) if indexes else (0, 0))
        picked = itemgetter(*indexes)

        def column(values: Sequence[Any]) -> list[Any]:
            return list(picked(values))

        headers, olds, behind = self.headers, self.olds, self.behind
        return Batch(
            self.topic,
            self.partition,
            column(self.offsets),
            column(self.keys),
            column(self.values),
            column(self.timestamps),
            None if headers is None else column(headers),
            None if olds is None else column(olds),
            None if behind is None else column(behind),
        )

    def with_values(
        self,
        values: list[Any],
        olds: list[Any] | None = None,
        timestamps: list[int] | None = None,
    ) -> Batch:
        """The same records with other values, and with other timestamps if they are given."""
        times = self.timestamps if timestamps is None else timestamps
        keys, headers, behind = self.keys, self.headers, self.behind
        where = self.topic, self.partition, self.offsets
        return Batch(*where, keys, values, times, headers, olds, behind)

    def with_keys(self, keys: list[Any]) -> Batch:
        """The same records with other keys."""
        rest = self.values, self.timestamps, self.headers, self.olds, self.behind
        return Batch(self.topic, self.partition, self.offsets, keys, *rest)


def joined(batches: Sequence[Batch]) -> Batch:
    """The records of batches of one source partition, one batch after the other."""
    some = [batch for batch in batches if len(batch)] or batches[:1]
    if len(some) == 1:
        return some[0]

    def column(name: str) -> list[Any]:
        return list(chain.from_iterable(getattr(batch, name) for batch in some))

    def sparse(name: str) -> list[Any] | None:
        columns = [getattr(batch, name) for batch in some]
        if all(one is None for one in columns):
            return None
        pairs = zip(columns, some, strict=True)
        return [one for found, batch in pairs for one in found or [None] * len(batch)]

    return Batch(
        some[0].topic,
        some[0].partition,
        *map(column, ("offsets", "keys", "values", "timestamps")),
        *map(sparse, ("headers", "olds", "behind")),
    )


@attrs.frozen
class WaitedRecord:
    """A record that waited in a store, as it was when it came; its result was due with another one.

    ``headers`` is None where the store keeps none. ``encoded`` gives the bytes of key and value.
    Where it was read is not known.
    """

    key: Any
    value: Any
    timestamp: int
    headers: Any
    encoded: Callable[[], tuple[bytes, bytes]]


class OperatorFailed(Exception):
    """Raised by an operator on the record at ``index`` of its batch; the chained cause says why.

    ``done`` is the operator's output for the records before it. The task sends that on, applies
    the error policy to the record, and goes on behind it. ``again``: the operator has kept nothing
    of the record yet, so that the task may give it the record a second time.

    ``instead`` is the output if the policy leaves the record out: a table takes back what the row
    was before. ``of_row``: the record itself is good, and a function failed on a row that is there
    already, which the table therefore does not have. Unless the policy is to fail, the record
    counts as processed, and ``instead`` is its output. ``left_out`` is called when the policy has
    left the record out.
    """

    def __init__(
        self,
        index: int,
        done: Batch,
        *,
        again: bool = False,
        instead: Batch | None = None,
        of_row: bool = False,
        left_out: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(index)
        self.index = index
        self.done = done
        self.again = again
        self.instead = instead
        self.of_row = of_row
        self.left_out = left_out

    def at(self, index: int, done: Batch) -> OperatorFailed:
        """The same failure with the index of its record in another batch, and another output."""
        failed = OperatorFailed(index, done, again=self.again, instead=self.instead)
        failed.of_row, failed.left_out = self.of_row, self.left_out
        return failed
