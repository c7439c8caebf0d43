"""The operator that sends each window's result once, when the window closes.

The folds of windows work as ever, but their updates stay in the store. A batch is cut behind each
record that closes windows; their results go out in the order of time and key, with the offset and
headers of that record. How far they went is noted in the store, so each is sent once in its state.
Where very many windows close at once, their results are read and sent in parts. With an idle time
they close without a record, too: stream time goes to the end of the last window and its grace.

The record that closes windows is stored first, as in Kafka Streams. Where it is later than a window
by more than the store's retention, that window is kept until its result is sent. A retention that
a user gave is as there: results of time windows that are older are lost, counted as dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import accumulate, islice
from typing import Any, TypeAlias, TypeVar

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.dsl.windowing.windows import ClosingWindows, SessionWindows
from streamlet.logs import get_logger
from streamlet.state.bucket_store import BucketStore, Item
from streamlet.state.rows import NO_TIME
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.window_rows import sent_bytes
from streamlet.topology.operator import Operator, TaskContext

log = get_logger(__name__)

#: Keys, values and times of windows.
Results: TypeAlias = tuple[list[Any], list[Any], list[int]]

#: Windows that are looked at, and results that are sent on, before other tasks may go on.
PART = 1_000
#: Rows that are put in order before other tasks may go on; each part costs a look at all of them.
INDEX_PART = 10_000
#: Stands for a part of the work that gave no result yet.
NOTHING: Results = ([], [], [])

Row = TypeVar("Row")


@attrs.define
class ClosingTimes:
    """Times of the task's clock, ms.

    ``quiet_since_ms`` is that of the last record; None: not known yet. ``look_ms`` is when closed
    windows are looked for next. ``warned``: it was said that results are lost.
    """

    quiet_since_ms: int | None = None
    look_ms: int = 0
    warned: bool = False


@attrs.frozen
class FinalResults:
    """Sends the results of closed windows in place of a fold's updates.

    Args:
        inner: the fold.
        store: of its windows.
        windows: those of the fold.
        use: what is noted of the table.
        context: tells the time.
        idle_ms: how long no record may come before all windows close; None: that never closes any.
        interval_ms: how often closed windows are looked for, by the clock; 0: with each record.
        name: of the node.
        loses: whether results of windows that are not shown any more are lost.
    """

    inner: Operator
    store: TimeWindowStore | BucketStore
    windows: ClosingWindows
    use: TableUse
    context: TaskContext
    idle_ms: int | None = None
    interval_ms: int = 0
    name: str = ""
    loses: bool = False
    clock: ClosingTimes = attrs.field(factory=ClosingTimes)

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """Raises ``OperatorFailed`` as the fold does, with the results of the records before."""
        self.clock.quiet_since_ms = self.context.now_ms
        out, start, cuts = ResultColumns(), 0, self._cuts(batch.timestamps)
        for end in dict.fromkeys((*cuts, len(batch))):
            closes = end in cuts
            failed: OperatorFailed | None = None
            try:
                self.inner.process(batch.slice(start, end))
            except OperatorFailed as error:
                failed, end = error, start + error.index + 1
                closes = not self.interval_ms
            if closes:
                yield from self._parts(end - 1, batch, out)
            if failed is not None:
                done = out.batch(batch, olds=self.use.olds)
                raise OperatorFailed(end - 1, done, again=failed.again) from failed.__cause__
            start = end
        yield out.batch(batch, olds=self.use.olds)

    @property
    def timed(self) -> bool:
        """True if time may close windows."""
        return self.idle_ms is not None

    def tick(self, at: Batch) -> Iterator[Batch]:
        """Results of windows that have closed without a record: of all if it is long overdue."""
        now, since = self.context.now_ms, self.clock.quiet_since_ms
        if since is None:
            since = self.clock.quiet_since_ms = now
        latest = self.store.progress.highest
        if (
            self.idle_ms is not None
            and now - since >= self.idle_ms
            and latest > self.store.progress.sent
        ):
            self.store.advance(self.windows.closed_at(latest))
        out = ResultColumns()
        yield from self._parts(0, at, out)
        yield out.batch(at, olds=self.use.olds)

    def _parts(self, record: int, given: Batch, out: ResultColumns) -> Iterator[Batch]:
        """Add the results of windows that have closed by now to ``out``; it is sent when full."""
        for keys, values, times in self._closed_now():
            out.extend(record, keys, values, times)
            if len(out) >= PART or not keys:
                yield out.take(given, olds=self.use.olds)

    def _cuts(self, times: list[int]) -> list[int]:
        """Behind which records windows close, or are looked for."""
        if self.interval_ms:
            return [1] if self._look_due() else []
        highest = islice(accumulate(times, max, initial=self.store.progress.observed), 1, None)
        last = [self.windows.last_closed(time) for time in highest]
        sent = self.store.progress.sent
        return [at + 1 for at, now in enumerate(last) if now > (last[at - 1] if at else sent)]

    def _look_due(self) -> bool:
        """True once an interval, which begins with the record at which this was asked."""
        now = self.context.now_ms
        if now < self.clock.look_ms:
            return False
        self.clock.look_ms = now + self.interval_ms
        return True

    def _closed_now(self) -> Iterator[Results]:
        """The results of windows that have closed by now; without any: others may go on."""
        sent, last = (
            self.store.progress.sent,
            self.windows.last_closed(self.store.progress.observed),
        )
        if last <= sent:
            return
        while self.store.commits.index_some(INDEX_PART):
            yield NOTHING
        first = sent + 1
        if self.loses and first < self.store.shown_from:
            first = self.store.shown_from
            self._lose(sent + 1, min(first - 1, last))
        yield from self._closed(first, last)
        self.store.advance(NO_TIME, emitted=sent_bytes(last))

    def _lose(self, low: int, high: int) -> None:
        """Count the windows from one time to another, whose results are lost."""
        store = self.store
        if isinstance(store, BucketStore):
            count = sum(1 for _ in store.unordered(low, high))
        else:
            count = sum(1 for _ in store.reads.timed(low, high, first=low))
        if not count:
            return
        self.context.dropped(self.name, count)
        if not self.clock.warned:
            self.clock.warned = True
            log.warning(
                "%s: stream time went on by more than the retention of store %s, and %s results of "
                "windows are lost; a longer Materialized(retention=…), or none, keeps them",
                *(self.name, store.name, f"{count:,}"),
            )

    def _closed(self, low: int, high: int) -> Iterator[Results]:
        """Windows from one time to another, with their values and the times of these."""
        store = self.store
        if not isinstance(store, BucketStore):
            yield from map(_columns, _runs(store.reads.timed(low, high, first=low)))
            return
        sessions = isinstance(self.windows, SessionWindows)
        # Kafka Streams orders sessions by end and start, and all windows by key after that.
        order = _end_and_start if sessions else _start
        runs = []
        for found in _runs(store.unordered(low, high)):
            runs.append(sorted(found, key=order))
            if len(found) == PART:
                yield NOTHING
        for found in _runs(merge(*runs, key=order)):
            keys = [store.window(store.record_key(ckey), item) for item, ckey in found]
            values = [item[2] for item, _ in found]
            yield keys, values, [item[0] if sessions else item[1] for item, _ in found]


def _start(found: tuple[Item, Any]) -> int:
    return found[0][0]


def _end_and_start(found: tuple[Item, Any]) -> tuple[int, int]:
    return found[0][0], found[0][1]


def _runs(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """The same rows, so many at a time."""
    while run := list(islice(rows, PART)):
        yield run


def _columns(rows: list[tuple[Any, Any, int]]) -> Results:
    keys, values, times = zip(*rows, strict=True)
    return list(keys), list(values), list(times)
