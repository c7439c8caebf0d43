"""Updates of windows by a batch, collected record by record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import keyed
from streamlet.dsl.uses import TableUse
from streamlet.errors import StateError
from streamlet.state.bucket_store import BucketStore
from streamlet.topology.operator import TaskContext


@attrs.define
class WindowUpdates:
    """Updates in columns; ``records`` is the index of each one's record in the batch."""

    records: list[int] = attrs.field(factory=list)
    keys: list[Any] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    olds: list[Any] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)

    def add(self, record: int, key: Any, value: Any, old: Any, time: int) -> None:
        """Append one."""
        self.records.append(record)
        self.keys.append(key)
        self.values.append(value)
        self.olds.append(old)
        self.times.append(time)

    def extend(self, record: int, keys: list[Any], values: list[Any], times: list[int]) -> None:
        """Append several of one record, without old values."""
        self.records += [record] * len(keys)
        self.keys += keys
        self.values += values
        self.olds += [None] * len(keys)
        self.times += times

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, given: Batch, use: TableUse) -> Batch:
        """The updates as ``batch`` gives them; there are none left here."""
        batch = self.batch(given, use)
        self.records, self.keys, self.values, self.olds, self.times = [], [], [], [], []
        return batch

    def batch(self, given: Batch, use: TableUse) -> Batch:
        """The updates as a batch, each with the offset and headers of its record."""
        return attrs.evolve(
            taken(given, self.records),
            keys=self.keys,
            values=self.values,
            timestamps=self.times,
            olds=self.olds if use.olds else None,
        )


class WindowFold(Protocol):
    """The part of a fold of windows that ``one_by_one`` uses."""

    @property
    def name(self) -> str:
        """Of the node."""
        ...

    @property
    def stream(self) -> int:
        """Number of the stream among those that share the store."""
        ...

    @property
    def context(self) -> TaskContext:
        """Counts late records."""
        ...

    @property
    def store(self) -> BucketStore:
        """Of the windows."""
        ...

    @property
    def use(self) -> TableUse:
        """Notes about the table that it makes."""
        ...


#: ``(updates, index, (key, cache key, value, time), stream time, latest window) -> (latest window,
#: windows that the record was late for)``: adds one record of a batch.
AddRecord: TypeAlias = Callable[
    [WindowUpdates, int, tuple[Any, Any, Any, int], int, int], tuple[int, int]
]


def one_by_one(fold: WindowFold, batch: Batch, add: AddRecord) -> Batch:
    """The updates of a batch whose records are added one after the other.

    Raises:
        OperatorFailed: a function fails, or a serde refuses a key or value.
    """
    given, ckeys, error = keyed(fold.store, batch)
    updates = WindowUpdates()
    failed, late = len(given), 0
    observed, highest = fold.store.observed(fold.stream), fold.store.progress.highest
    records = zip(given.keys, ckeys, given.values, given.timestamps, strict=True)
    try:
        for index, record in enumerate(records):
            failed = index
            observed = max(observed, record[3])
            highest, closed = add(updates, index, record, observed, highest)
            late += closed
        failed = len(given)
    except (StateError, KeyboardInterrupt):
        raise
    except BaseException as failure:  # an exit is an error like any other
        error = failure
    fold.store.observe(fold.stream, observed, highest)
    if late:
        fold.context.late(fold.name, late)
    done = updates.batch(given, fold.use)
    if error is not None:
        raise OperatorFailed(failed, done) from error
    return done


def taken(batch: Batch, records: Sequence[int]) -> Batch:
    """The records at these indexes, which may repeat."""

    def column(values: Sequence[Any]) -> list[Any]:
        return list(map(values.__getitem__, records))

    return attrs.evolve(
        batch,
        offsets=column(batch.offsets),
        keys=column(batch.keys),
        values=column(batch.values),
        timestamps=column(batch.timestamps),
        headers=None if batch.headers is None else column(batch.headers),
    )
