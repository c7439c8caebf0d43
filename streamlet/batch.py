"""The unit of flow: decoded records of one source partition, in columns.

Everything between a source and a sink takes and returns a ``Batch``; the columns are plain lists of
equal length, so that an operator is one C-level pass over one of them. Where a record came from
stays with it (``topic``, ``partition``, ``offsets``), for error messages and dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, Self

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

    def slice(self, start: int, stop: int) -> Self:
        """Records ``start`` to ``stop`` (exclusive)."""
        return attrs.evolve(
            self,
            offsets=self.offsets[start:stop],
            keys=self.keys[start:stop],
            values=self.values[start:stop],
            timestamps=self.timestamps[start:stop],
            headers=None if self.headers is None else self.headers[start:stop],
            olds=None if self.olds is None else self.olds[start:stop],
            behind=None if self.behind is None else self.behind[start:stop],
        )

    def select(self, mask: Sequence[Any]) -> Self:
        """Records whose mask entry is true."""
        return attrs.evolve(
            self,
            offsets=list(compress(self.offsets, mask)),
            keys=list(compress(self.keys, mask)),
            values=list(compress(self.values, mask)),
            timestamps=list(compress(self.timestamps, mask)),
            headers=None if self.headers is None else list(compress(self.headers, mask)),
            olds=None if self.olds is None else list(compress(self.olds, mask)),
            behind=None if self.behind is None else list(compress(self.behind, mask)),
        )

    def with_values(
        self,
        values: list[Any],
        olds: list[Any] | None = None,
        timestamps: list[int] | None = None,
    ) -> Self:
        """The same records with other values, and with other timestamps if they are given."""
        times = self.timestamps if timestamps is None else timestamps
        return attrs.evolve(self, values=values, olds=olds, timestamps=times)

    def with_keys(self, keys: list[Any]) -> Self:
        """The same records with other keys."""
        return attrs.evolve(self, keys=keys)


class OperatorFailed(Exception):
    """Raised by an operator on the record at ``index`` of its batch; the chained cause says why.

    ``done`` is the operator's output for the records before it. The task sends that on, applies
    the error policy to the record, and goes on behind it.
    """

    def __init__(self, index: int, done: Batch) -> None:
        super().__init__(index)
        self.index = index
        self.done = done
