"""Folds of windows that add one record after another, and the windows that a record is late for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import attrs

from streamlet.batch import Batch
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import finished
from streamlet.dsl.operators.hot_store import keyed
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.errors import StateError
from streamlet.state.bucket_store import BucketStore
from streamlet.topology.operator import TaskContext


@attrs.define
class LateWindows:
    """The windows of a batch's records that were closed, in columns, with the stream times then."""

    records: list[int] = attrs.field(factory=list)
    windows: list[Bounds] = attrs.field(factory=list)
    stream_times: list[int] = attrs.field(factory=list)

    def add(self, record: int, windows: Iterable[Bounds], stream_time: int) -> None:
        """Append the results of one record."""
        for window in windows:
            self.records.append(record)
            self.windows.append(window)
            self.stream_times.append(stream_time)

    def first(self, records: int) -> LateWindows:
        """The late windows of the first records."""
        end = bisect_left(self.records, records)
        return LateWindows(self.records[:end], self.windows[:end], self.stream_times[:end])

    def tell(self, context: TaskContext, operator: str, batch: Batch) -> None:
        """Report them, if there are any."""
        if self.records:
            context.late(operator, len(self.records), lambda: self._batch(batch))

    def _batch(self, batch: Batch) -> Batch:
        """A record for each, with its window and the stream time in the column ``olds``."""
        olds = list(zip(self.windows, self.stream_times, strict=True))
        return attrs.evolve(batch.pick(self.records), olds=olds)


class WindowFold(Protocol):
    """The part of a fold of windows that ``one_by_one`` uses."""

    @property
    def name(self) -> str:
        """The name of the node."""
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
        """The store of the windows."""
        ...

    @property
    def use(self) -> TableUse:
        """Notes about the table that it makes."""
        ...


#: Start and end of a window.
Bounds: TypeAlias = tuple[int, int]
#: ``(updates, index, (key, cache key, value, time), stream time, latest window) -> (latest window,
#: windows that the record was late for)``: adds one record of a batch.
AddRecord: TypeAlias = Callable[
    [ResultColumns, int, tuple[Any, Any, Any, int], int, int], tuple[int, Sequence[Bounds]]
]


def one_by_one(fold: WindowFold, batch: Batch, add: AddRecord) -> Batch:
    """The updates of a batch whose records are added one after the other.

    ``add`` keeps nothing of a record that it fails on, so that it may be added again.

    Raises:
        OperatorFailed: a function fails, or a serde refuses a key or value.
    """
    given, ckeys, error = keyed(fold.store, batch)
    updates = ResultColumns()
    failed, before, late = len(given), 0, LateWindows()
    observed, highest = fold.store.observed(fold.stream), fold.store.progress.highest
    records = zip(given.keys, ckeys, given.values, given.timestamps, strict=True)
    try:
        for index, record in enumerate(records):
            failed, before = index, len(updates)
            observed = max(observed, record[3])
            highest, closed = add(updates, index, record, observed, highest)
            if closed:
                late.add(index, closed, observed)
        failed = len(given)
    except (StateError, KeyboardInterrupt):
        raise
    except BaseException as failure:  # an exit is an error like any other
        error = failure
        updates.cut(before)
    fold.store.observe(fold.stream, observed, highest)
    late.tell(fold.context, fold.name, given)
    return finished(updates.batch(given, olds=fold.use.olds), error, failed)
