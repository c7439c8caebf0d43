"""The operator that sends each window's result once, when the window closes.

The folds of windows work as ever, but their updates stay in the store. A batch is cut behind each
record that closes windows; their results go out in the order of time and key, with the offset and
headers of that record. How far they went is noted in the store, so each is sent once in its state.

As in Kafka Streams, the record that closes windows is stored first: where it is so late that their
retention ends with it, the results of time windows are lost. Those of sessions are not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.uses import TableUse
from streamlet.dsl.window_updates import WindowUpdates
from streamlet.dsl.windows import SessionWindows, SlidingWindows, TimeWindows
from streamlet.serdes.windowed import Windowed
from streamlet.state.bucket_store import BucketStore
from streamlet.state.rows import NO_TIME
from streamlet.state.window_store import WindowStore
from streamlet.topology.operator import Operator

#: Windows that can close.
ClosingWindows = TimeWindows | SlidingWindows | SessionWindows

_TIME = struct.Struct(">q")


@attrs.frozen
class FinalResults:
    """Sends the results of closed windows in place of a fold's updates.

    Args:
        inner: the fold.
        store: of its windows.
        windows: those of the fold.
        use: what is noted of the table.
    """

    inner: Operator
    store: WindowStore
    windows: ClosingWindows
    use: TableUse

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` as the fold does, with the results of the records before."""
        out, start = WindowUpdates(), 0
        for end in (*self._cuts(batch.timestamps), len(batch)):
            if end == start:
                continue
            self._keep_sessions()
            try:
                self.inner.process(batch.slice(start, end))
            except OperatorFailed as failed:
                self._send(start + failed.index, out)
                done = out.batch(batch, self.use)
                raise OperatorFailed(start + failed.index, done) from failed.__cause__
            self._send(end - 1, out)
            start = end
        return out.batch(batch, self.use)

    def _cuts(self, times: list[int]) -> list[int]:
        """Behind which records windows close."""
        highest = islice(accumulate(times, max, initial=self.store.progress.observed), 1, None)
        last = [self.windows.last_closed(time) for time in highest]
        sent = self._sent()
        return [at + 1 for at, now in enumerate(last) if now > (last[at - 1] if at else sent)]

    def _sent(self) -> int:
        """The time up to which results were sent."""
        emitted = self.store.progress.emitted
        return int(_TIME.unpack(emitted)[0]) if emitted else NO_TIME

    def _keep_sessions(self) -> None:
        """Have sessions kept that expire before their results are sent."""
        if isinstance(self.windows, SessionWindows):
            self.store.needed_from = self._sent() + 1

    def _send(self, record: int, out: WindowUpdates) -> None:
        """Add the results of windows that have closed by now, for the record that closed them."""
        sent, last = self._sent(), self.windows.last_closed(self.store.progress.observed)
        if last <= sent:
            return
        for key, value, time in list(self._closed(sent + 1, last)):
            out.add(record, key, value, None, time)
        self.store.advance(NO_TIME, emitted=_TIME.pack(last))
        self._keep_sessions()

    def _closed(self, low: int, high: int) -> Iterator[tuple[Windowed[Any], Any, int]]:
        """Windows from one time to another, with their values and the times of these."""
        store = self.store
        if not isinstance(store, BucketStore):
            for key, value in store.range(low, high):
                yield key, value, store.timestamp(key) or 0
            return
        sessions = isinstance(self.windows, SessionWindows)
        first = low if sessions else max(low, store.shown_from)
        found = store.scan(first, high)
        # Kafka Streams orders sessions by end and start, and all windows by key after that.
        for item, ckey in sorted(found, key=lambda one: one[0][:2]) if sessions else found:
            key = store.window(store.record_key(ckey), item)
            yield key, item[2], item[0] if sessions else item[1]
