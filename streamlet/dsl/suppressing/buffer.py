"""The operator that keeps a table's updates back, and sends the last one of each key later.

As in Kafka Streams: an update takes the place of the one that waits for its key, and keeps that
one's buffer time. With each record that comes, all go out whose buffer time is ``wait_ms`` behind
stream time, and then, where a full buffer sends early, as many as are too many; in the order of
buffer time and key bytes, with their own times and headers. Stream time is that of the updates that
came here.

A batch is kept and sent in runs (``runs``), by the column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, compress, islice, repeat
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.operators.columns import collect, converted
from streamlet.dsl.operators.hot_store import Function, copied, keyed
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.dsl.suppressing.runs import Arrivals, PlannedRun, Planner
from streamlet.errors import BufferFullError, StateError
from streamlet.serdes import Serde
from streamlet.state.buffer_rows import PLACES
from streamlet.state.buffer_store import BufferStore
from streamlet.state.ordered_rows import Place
from streamlet.state.rows import NO_TIME
from streamlet.state.store_specs import BufferSpec

#: Updates that are sent before other tasks may go on.
PART = 1_000


@attrs.frozen
class Suppress:
    """Keeps updates in a buffer until they are due.

    Args:
        name: of the node.
        store: the buffer.
        rules: when updates are due, and when it is full.
        value: serde of the values.
        check: refuses values that the serde does.
        copy: makes a value that shares nothing with the given one; None: values cannot change.
        use: what is noted of the table.
    """

    name: str
    store: BufferStore
    rules: BufferSpec
    value: Serde[Any]
    check: Callable[[Any], None]
    copy: Function | None
    use: TableUse

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """The updates that are due by now.

        Raises:
            OperatorFailed: a serde refuses a key or a value.
            BufferFullError: the buffer is full, and is not to send early.
        """
        arrivals, error = self._arrivals(batch)
        given, sent, start = arrivals.batch, _sent(), 0
        self._load(arrivals)
        failure: BaseException | None = None
        while start < len(given) and failure is None:
            run = Planner(arrivals, self.store, self.rules, PART).run(start)
            kept, failure = self._keep(arrivals, start, run.end)
            start += kept
            if failure is not None:
                error, run = failure, run.before(start)
            for places, records in self._leaving(arrivals, run, failure is None):
                self._send(places, records, sent)
                if len(sent) >= PART:
                    yield sent.take(given, olds=self.use.olds)
                    self._load(arrivals)  # a commit may have evicted rows meanwhile
        if start:
            self.store.order.note(max(given.timestamps[:start]), max(arrivals.times[:start]))
        done = sent.batch(given, olds=self.use.olds)
        if error is not None:
            raise OperatorFailed(start, done) from error
        yield done

    @property
    def timed(self) -> bool:
        """False: only stream time counts."""
        return False

    def tick(self, at: Batch) -> Iterator[Batch]:
        """The updates that are due because stream time was moved on without a record."""
        while places := self.store.order.first(
            PART, self.store.progress.observed - self.rules.wait_ms
        ):
            sent = _sent()
            self._send(places, [0] * len(places), sent)
            yield sent.batch(at, olds=self.use.olds)

    # What comes.

    def _arrivals(self, batch: Batch) -> tuple[Arrivals, BaseException | None]:
        """The batch with its columns, cut before the first record that a serde refuses."""
        given, ckeys, error = keyed(self.store, batch)
        good, failure = collect(map(self.check, given.values), len(given))
        sizes: list[int] | None = None
        if self.rules.max_bytes is not None:
            good, failure = converted(self.value.encode_column, given.values[: len(good)], failure)
            sizes = [0 if raw is None else len(raw) for raw in good]
        if failure is not None:
            given, ckeys, error = given.slice(0, len(good)), ckeys[: len(good)], failure
        observed, wait = self.store.progress.observed, self.rules.wait_ms
        highest = islice(accumulate(given.timestamps, max, initial=observed), 1, None)
        times = given.timestamps if self._placed else [key.end for key in given.keys]
        return Arrivals(given, ckeys, times, [time - wait for time in highest], sizes), error

    @property
    def _placed(self) -> bool:
        """True if the buffer time of a key is that of its first update."""
        return self.rules.until == "time limit"

    def _load(self, arrivals: Arrivals) -> None:
        """Bring the rows of all keys into the cache."""
        store, ckeys = self.store, arrivals.ckeys
        if self.rules.max_bytes is not None and store.order.size < 0:
            store.order.count_bytes()
        if not self._placed:
            store.load_many(zip(arrivals.times, ckeys, strict=True))
            return
        marks = list(zip(repeat(PLACES), ckeys))
        store.load_many(marks)
        times = map(store.rows.cache.__getitem__, marks)
        pairs = zip(times, ckeys, strict=True)
        store.load_many([(time, ckey) for time, ckey in pairs if time is not None])

    def _keep(self, arrivals: Arrivals, start: int, end: int) -> tuple[int, BaseException | None]:
        """Put a run of updates into the buffer; how many, and what the next one failed on."""
        batch, store = arrivals.batch.slice(start, end), self.store
        places, marks = self._places(arrivals, start, end)
        values, error = copied(self.copy, batch.values)
        olds = batch.olds or repeat(None)
        sizes = repeat(0) if arrivals.sizes is None else arrivals.sizes[start:end]
        cache, new, size = store.rows.cache, [], 0
        kept = 0
        rows = zip(places, values, olds, batch.headers or repeat(None), sizes)  # noqa: B905 - endless
        try:
            for place, value, old, headers, length in rows:
                row = cache.get(place)
                if row is None:
                    cache[place] = value, old, headers, length
                    new.append(place)
                    size += length
                else:
                    cache[place] = value, row[1], headers, length
                    size += length - row[3]
                kept += 1
        except (StateError, KeyboardInterrupt):
            raise
        except BaseException as failure:  # a cache that checks its entries
            error = failure
        self._mark(places[:kept], batch.timestamps[:kept], marks)
        if arrivals.sizes is not None:
            size += sum(store.order.key_bytes(ckey) for _, ckey in new)
        store.order.added(new, None if arrivals.sizes is None else size)
        return kept, error

    def _places(self, arrivals: Arrivals, start: int, end: int) -> tuple[list[Place], list[Place]]:
        """Cache keys of a run's rows, and of the places of keys that had none."""
        times, ckeys = arrivals.times[start:end], arrivals.ckeys[start:end]
        if not self._placed:
            return list(zip(times, ckeys, strict=True)), []
        cache, places = self.store.rows.cache, []
        marks: dict[Place, int] = {}
        for mark, time in zip(zip(repeat(PLACES), ckeys), times, strict=True):
            known = cache.get(mark)
            if known is None:
                known = marks.setdefault(mark, time)
            places.append((known, mark[1]))
        return places, list(marks)

    def _mark(self, places: list[Place], times: list[int], marks: list[Place]) -> None:
        """Mark what was written, and write the places of new keys."""
        store = self.store
        store.mark(places, times)
        if marks:
            at = {ckey: time for time, ckey in places}
            written = [mark for mark in marks if mark[1] in at]
            store.rows.cache.update((mark, at[mark[1]]) for mark in written)
            store.mark(written, repeat(NO_TIME, len(written)))
        if times:
            store.commits.reached(max(times))

    # What goes.

    def _leaving(
        self, arrivals: Arrivals, run: PlannedRun, whole: bool
    ) -> Iterator[tuple[list[Place], list[int]]]:
        """The updates to send once a run was kept, with the records that send them.

        Of a ``whole`` run, its last record may send more than was planned.
        """
        if run.places:
            yield run.places, run.records
        for places in self._due(arrivals, run.end - 1) if whole else ():
            yield places, [run.end - 1] * len(places)

    def _due(self, arrivals: Arrivals, at: int) -> Iterator[list[Place]]:
        """The updates to send with a record: what is due, then what is too much for the buffer."""
        store, rules = self.store, self.rules
        while places := store.order.first(PART, arrivals.due[at]):
            yield places
        while over := self._too_many():
            if rules.when_full == "shut_down":
                raise self._full(arrivals.batch, at)
            yield store.order.first(min(over, PART))

    def _too_many(self) -> int:
        """Number of updates to send early, at least."""
        rules, store = self.rules, self.store
        over = 0 if rules.max_records is None else store.order.count - rules.max_records
        if over <= 0 and rules.max_bytes is not None and store.order.size > rules.max_bytes:
            return 1
        return max(0, over)

    def _full(self, batch: Batch, at: int) -> BufferFullError:
        rules, store = self.rules, self.store
        bounds = (
            (store.order.count, rules.max_records, "records"),
            (store.order.size, rules.max_bytes, "bytes"),
        )
        held = [f"{now:,} of {most:,} {what}" for now, most, what in bounds if most is not None]
        reason = f"the buffer of suppress() is full, with {' and '.join(held)}"
        where = batch.topic, batch.partition, batch.offsets[at]
        return BufferFullError(reason, *where, self.name)

    def _send(self, places: list[Place], records: list[int], sent: ResultColumns) -> None:
        """Send updates, each with a record, and delete them from the buffer."""
        store, counted = self.store, self.rules.max_bytes is not None
        store.load_many(places)
        rows = list(map(store.rows.cache.__getitem__, places))
        times = list(map(store.time_of, places))
        size = sum(map(store.order.size_of, places, rows)) if counted else None
        ckeys = [ckey for _, ckey in places]
        if not self._placed:  # a window that was deleted before it closed is not told of
            there = [row[0] is not None for row in rows]
            columns: list[list[Any]] = [rows, times, ckeys, records]
            rows, times, ckeys, records = (list(compress(column, there)) for column in columns)
        store.order.remove_first(places, self._placed, size)
        store.sent += len(records)
        sent.records += records
        sent.keys += store.order.record_keys(ckeys)
        sent.values += [row[0] for row in rows]
        sent.olds += [row[1] for row in rows]
        sent.times += times
        assert sent.headers is not None
        sent.headers += [row[2] for row in rows]


def _sent() -> ResultColumns:
    """The updates to send, which have the headers that they came with."""
    return ResultColumns(headers=[])
