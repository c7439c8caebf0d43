"""Folds of windows that add one record after another, and the windows that a record is late for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from streamlet.batch import Batch
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import finished
from streamlet.dsl.operators.hot_store import keyed
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.dsl.windowing.folding import BoundFolding
from streamlet.errors import StateError
from streamlet.state.bucket_store import BucketStore
from streamlet.topology.operator import TaskContext

S = TypeVar("S")
W = TypeVar("W")

#: Start and end of a window.
Bounds: TypeAlias = tuple[int, int]


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


@attrs.frozen
class WindowFold(Generic[S, W]):
    """A fold per key and window; every update goes out with a ``Windowed`` key.

    Args:
        name: of the node.
        context: counts late records.
        store: of the windows.
        windows: how long they are, and how long they take late records.
        folding: makes the values, and merges those of sessions.
        use: what is noted of the table.
        stream: number of the stream among those that share the store.
    """

    name: str
    context: TaskContext
    store: S
    windows: W
    folding: BoundFolding
    use: TableUse
    stream: int = 0


@attrs.frozen
class OneByOne(WindowFold[BucketStore, W], ABC):
    """A fold that adds one record of a batch after the other."""

    @abstractmethod
    def _add(
        self,
        updates: ResultColumns,
        index: int,
        record: tuple[Any, Any, Any, int],
        observed: int,
        highest: int,
    ) -> tuple[int, Sequence[Bounds]]:
        """Add a record; the latest window then, and the windows that the record is late for.

        Nothing is kept of a record that it fails on, so that it may be added again.

        Args:
            updates: takes what changes.
            index: of the record in its batch.
            record: key, cache key, value and time.
            observed: the stream time, with the record's.
            highest: the latest window before it.
        """

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a function fails, or a serde refuses a key or value."""
        given, ckeys, error = keyed(self.store, batch)
        updates = ResultColumns()
        failed, before, late = len(given), 0, LateWindows()
        observed, highest = self.store.observed(self.stream), self.store.progress.highest
        records = zip(given.keys, ckeys, given.values, given.timestamps, strict=True)
        try:
            for index, record in enumerate(records):
                failed, before = index, len(updates)
                observed = max(observed, record[3])
                highest, closed = self._add(updates, index, record, observed, highest)
                if closed:
                    late.add(index, closed, observed)
            failed = len(given)
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # an exit is an error like any other
            error = failure
            updates.cut(before)
        self.store.observe(self.stream, observed, highest)
        late.tell(self.context, self.name, given)
        return finished(updates.batch(given, olds=self.use.olds), error, failed)
