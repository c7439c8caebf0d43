"""Operators that fold a stream into a table of tumbling, hopping or unlimited windows.

A batch becomes columns of windows first: one entry for each window of each record that is not late.
Then there is one look-up, one user function and one assignment per entry. Stream time is that of
this aggregation, the highest time it has been given; the store keeps it with its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, compress, islice
from operator import gt
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import aggregated, keyed, row_times
from streamlet.dsl.columns import spread
from streamlet.dsl.uses import TableUse
from streamlet.dsl.window_folds import BoundFolding
from streamlet.dsl.window_updates import LateWindows, taken
from streamlet.dsl.windows import TimeWindows, UnlimitedWindows
from streamlet.serdes.windowed import windowed_of
from streamlet.state.window_store import WindowStore
from streamlet.topology.operator import TaskContext


@attrs.frozen
class WindowEntries:
    """The windows of a batch's records that are open when their record comes, in columns.

    ``records`` is the index of each entry's record in the batch, ``late`` are the windows that were
    closed.
    """

    batch: Batch
    ckeys: list[Any]
    starts: list[int]
    records: Sequence[int]
    late: LateWindows


@attrs.frozen
class TimeWindowed:
    """A fold per key and window; every update goes out with a ``Windowed`` key.

    Args:
        name: of the node.
        context: counts late records.
        store: of the windows.
        windows: those of each record.
        folding: makes the values.
        use: what is noted of the table.
        stream: number of the stream among those that share the store.
    """

    name: str
    context: TaskContext
    store: WindowStore
    windows: TimeWindows | UnlimitedWindows
    folding: BoundFolding
    use: TableUse
    stream: int = 0

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a user function fails, or a serde refuses a key or value.

        The windows of the failing record that came before the one that failed keep what they took,
        as in Kafka Streams.
        """
        given, ckeys, error = keyed(self.store, batch)
        entries = self._entries(given, ckeys)
        pairs = list(zip(entries.starts, entries.ckeys, strict=True))
        out, olds, failure = self._folded(entries.batch, pairs)
        failed = len(given)
        if failure is not None:
            failed, error = entries.records[len(out)], failure
        done = self._stored(entries, pairs, out, olds)
        self._advance(given, entries, failed + (failure is not None), len(out))
        if error is not None:
            raise OperatorFailed(failed, done) from error
        return done

    # Windows.

    def _entries(self, batch: Batch, ckeys: list[Any]) -> WindowEntries:
        """The open windows of the records."""
        times = batch.timestamps
        starts, counts = self.windows.starts(times)
        records: Sequence[int] = range(len(times))
        if counts is not None:
            records = spread(records, counts)
            batch, ckeys = taken(batch, records), spread(ckeys, counts)
        open_ = self._open(times, starts, records)
        if open_ is None:
            return WindowEntries(batch, ckeys, starts, records, LateWindows())
        return WindowEntries(
            batch.select(open_),
            list(compress(ckeys, open_)),
            list(compress(starts, open_)),
            list(compress(records, open_)),
            self._late(times, starts, records, open_),
        )

    def _late(
        self, times: list[int], starts: list[int], records: Sequence[int], open_: list[bool]
    ) -> LateWindows:
        """The windows that are closed when their record comes, with the stream times then."""
        closed = [not one for one in open_]
        late, starts = list(compress(records, closed)), list(compress(starts, closed))
        highest = self._stream_times(times)
        windows = list(zip(starts, self.windows.ends(starts), strict=True))
        return LateWindows(late, windows, [highest[record] for record in late])

    def _stream_times(self, times: list[int]) -> list[int]:
        """The stream time with each record."""
        observed = self.store.observed(self.stream)
        return list(islice(accumulate(times, max, initial=observed), 1, None))

    def _open(
        self, times: list[int], starts: list[int], records: Sequence[int]
    ) -> list[bool] | None:
        """Mask of the windows that are open when their record comes; None: all are."""
        observed, grace = self.store.observed(self.stream), self.windows.grace_ms
        if not starts:
            return None
        (first_end,) = self.windows.ends([min(starts)])
        if first_end > max(observed, max(times)) - grace:
            return None
        # Each record is measured with the stream time as it is with this record.
        highest = self._stream_times(times)
        closing = [highest[record] - grace for record in records]
        open_ = list(map(gt, self.windows.ends(starts), closing))
        return None if all(open_) else open_

    # Values.

    def _folded(
        self, batch: Batch, pairs: list[Any]
    ) -> tuple[list[Any], list[Any], BaseException | None]:
        """New values, which are in the cache, old values, and the failure that ended it.

        Old counts are left out where no reader of the table needs them.
        """
        folding = self.folding
        if folding.of.counts:
            counts = self._counted(pairs)
            return counts, [count - 1 or None for count in counts] if self.use.olds else [], None
        self.store.load_old(pairs)
        step = folding.of.first, folding.of.step, folding.check, folding.copy, folding.sent
        return aggregated(self.store, batch, pairs, *step)

    def _counted(self, pairs: list[Any]) -> list[int]:
        """Count a record for each row.

        Rows of the medium are loaded together when the first one is not in the cache. Each look-up
        in a large cache waits for memory, so there is one for each record.
        """
        cache, get, load, loaded = self.store.cache, self.store.cache.get, self.store.load, False
        out: list[int] = []
        append = out.append
        for pair in pairs:
            count = get(pair)
            if count is None:
                if not loaded:
                    self.store.load_old(pairs[len(out) :])
                    loaded = True
                count = load(pair) or 0
            cache[pair] = count = count + 1
            append(count)
        return out

    def _stored(
        self, entries: WindowEntries, pairs: list[Any], out: list[Any], olds: list[Any]
    ) -> Batch:
        """Mark what was written; the updates with their windows' keys and times."""
        part, starts = entries.batch, entries.starts
        if len(out) < len(pairs):
            part, pairs, starts = part.slice(0, len(out)), pairs[: len(out)], starts[: len(out)]
        existed = self._existed(out, olds)
        times = row_times(self.store, pairs, existed, part.timestamps)
        keys = list(map(windowed_of, zip(part.keys, starts, self.windows.ends(starts))))  # noqa: B905 - alike
        return part.with_keys(keys).with_values(out, olds if self.use.olds else None, times)

    def _existed(self, out: list[Any], olds: list[Any]) -> Callable[[int], bool]:
        """Tells whether the window of an entry was there before its record."""
        if self.folding.of.counts:
            return lambda at: out[at] > 1
        return lambda at: olds[at] is not None

    def _advance(self, batch: Batch, entries: WindowEntries, seen: int, stored: int) -> None:
        """Raise stream time to that of the records seen, and count the late ones among them."""
        if seen:
            highest = max(entries.starts[:stored], default=-1)
            self.store.observe(self.stream, max(batch.timestamps[:seen]), highest)
        entries.late.first(seen).tell(self.context, self.name, batch)
