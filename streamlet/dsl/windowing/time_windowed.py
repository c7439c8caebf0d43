"""Operators that fold a stream into a table of tumbling, hopping or unlimited windows.

A batch becomes columns of windows first: one entry for each window of each record that is not late.
Then there is one look-up, one user function and one assignment per entry. Stream time is that of
this aggregation, the highest time it has been given; the store keeps it with its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, compress, islice
from operator import gt
from typing import Any, TypeAlias

import attrs

from streamlet.batch import Batch
from streamlet.dsl.operators.columns import finished, spread
from streamlet.dsl.operators.hot_store import keyed
from streamlet.dsl.windowing.one_by_one import LateWindows, WindowFold
from streamlet.dsl.windowing.varying_windows import VaryingWindows, WindowsRefused
from streamlet.dsl.windowing.windows import TimeWindows, UnlimitedWindows
from streamlet.errors import StateError
from streamlet.serdes.copies import own_column
from streamlet.serdes.windowed import windowed_of
from streamlet.state.rows import NO_TIME
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.state.window_counts import count_records


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


@attrs.define
class Folded:
    """New values of windows, as they are sent on, the old ones, and the times of their rows.

    Old counts are left out where no reader of the table needs them. ``failure`` is that of the
    entry behind these.
    """

    values: list[Any] = attrs.field(factory=list)
    olds: list[Any] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)
    failure: BaseException | None = None


#: The kinds of windows of which each is a row.
RowWindows: TypeAlias = TimeWindows | UnlimitedWindows | VaryingWindows


@attrs.frozen
class TimeWindowed(WindowFold[TimeWindowStore, RowWindows]):
    """A fold per key and window that adds the records of a batch together."""

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` when a user function fails, or a serde refuses a key or value.

        The windows of the failing record that came before the one that failed keep what they took,
        as in Kafka Streams; so it may be tried again only where its first window failed.
        """
        given, ckeys, error = keyed(self.store, batch)
        try:
            starts, per_record = self.windows.starts(given.timestamps)
        except WindowsRefused as refused:
            error = refused.__cause__
            given, ckeys = given.slice(0, refused.index), ckeys[: refused.index]
            starts, per_record = self.windows.starts(given.timestamps)
        entries = self._entries(given, ckeys, starts, per_record)
        counts = self.folding.of.counts and self.store.check is None
        folded = self._counted(entries) if counts else self._folded(entries)
        failed, stored, again = len(given), len(folded.values), True
        if folded.failure is not None:
            failed, error = entries.records[stored], folded.failure
            again = not stored or entries.records[stored - 1] != failed
        done = self._stored(entries, folded)
        self._advance(given, entries, failed + (folded.failure is not None), stored)
        return finished(done, error, failed, again=again)

    # Windows.

    def _entries(
        self, batch: Batch, ckeys: list[Any], starts: list[int], counts: list[int] | None
    ) -> WindowEntries:
        """The open windows of the records."""
        times = batch.timestamps
        records: Sequence[int] = range(len(times))
        if counts is not None:
            records = spread(records, counts)
            batch, ckeys = batch.pick(records), spread(ckeys, counts)
            if not self.folding.of.counts:  # each call of a function has an object of its own
                batch = batch.with_values(own_column(batch.values))
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
        if self.windows.first_end(starts) > max(observed, max(times)) - grace:
            return None
        # Each record is measured with the stream time as it is with this record.
        highest = self._stream_times(times)
        closing = [highest[record] - grace for record in records]
        open_ = list(map(gt, self.windows.ends(starts), closing))
        return None if all(open_) else open_

    # Values.

    def _counted(self, entries: WindowEntries) -> Folded:
        """Count a record for each row."""
        columns = entries.starts, entries.ckeys, entries.batch.timestamps
        counts, times = count_records(self.store, *columns)
        olds = [count - 1 or None for count in counts] if self.use.olds else []
        return Folded(counts, olds, times)

    def _folded(self, entries: WindowEntries) -> Folded:
        """Have the user's functions make new values, in the order of the records."""
        store, of, folded = self.store, self.folding, Folded()
        first, step, keep, read = of.first, of.of.step, of.keep, of.read
        out, olds, out_times = folded.values, folded.olds, folded.times
        store.load_windows(entries.starts, entries.ckeys)
        batch, refuse, window, shown = entries.batch, store.check, None, store.shown_from
        columns = entries.starts, entries.ckeys, batch.keys, batch.values, batch.timestamps
        try:
            for start, ckey, key, value, time in zip(*columns, strict=True):
                if start != window:
                    if start < shown:  # by another stream's records: nothing of it is kept
                        window, rows = None, store.emptied(start)
                    else:
                        window, rows = start, store.rows(start)
                    find, values, times = rows.slots.get, rows.values, rows.times
                    dirty = store.unmarked or rows.dirty
                slot = find(ckey)
                if slot is None:
                    slot = store.slot(rows, ckey)
                old = values[slot]
                new = keep(step(key, value, first() if old is None else read(old) if read else old))
                if refuse is not None:
                    refuse((start, ckey), new)
                values[slot] = new
                if old is not None and times[slot] > time:
                    time = times[slot]
                else:
                    times[slot] = time
                if not dirty[slot]:
                    store.changed(rows, ckey, slot)
                out.append(new)
                olds.append(old)
                out_times.append(time)
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # an exit is an error like any other
            folded.failure = failure
        return folded

    def _stored(self, entries: WindowEntries, folded: Folded) -> Batch:
        """The updates with their windows' keys and times, which are in the store."""
        part, starts, done = entries.batch, entries.starts, len(folded.values)
        if done < len(starts):
            part, starts = part.slice(0, done), starts[:done]
        self.store.commits.reached(max(folded.times, default=NO_TIME))
        keys = list(map(windowed_of, zip(part.keys, starts, self.windows.ends(starts))))  # noqa: B905 - alike
        olds = folded.olds if self.use.olds else None
        return part.with_keys(keys).with_values(folded.values, olds, folded.times)

    def _advance(self, batch: Batch, entries: WindowEntries, seen: int, stored: int) -> None:
        """Raise stream time to that of the records seen, and count the late ones among them."""
        if seen:
            highest = max(entries.starts[:stored], default=-1)
            self.store.observe(self.stream, max(batch.timestamps[:seen]), highest)
        entries.late.first(seen).tell(self.context, self.name, batch)
