"""The operator of left and outer joins of two streams, for the records of one side.

A record without a match waits (``state.unmatched_store``) until its window and the grace are behind
stream time, the highest timestamp of both sides; then it is sent without one. When exactly follows
Kafka Streams record by record:

- Only a record that has come to stream time, and has a key and a value, sends what has come due,
  before its own results, and with its own headers.
- A record whose window, without the grace, is behind stream time does not wait. If a match comes
  later it is joined all the same.
- What waits of a key and time goes when one of these records finds a match.

A record that waited and fails is the one that a policy is asked about, and that is tried again;
the one that came with it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed, WaitedRecord, joined
from streamlet.dsl.joins.sides import PART, RECORDS, Side
from streamlet.dsl.operators.columns import complete, with_gaps
from streamlet.dsl.operators.hot_store import Function, keyed
from streamlet.dsl.operators.result_columns import ResultColumns
from streamlet.errors import StateError
from streamlet.lazy_results import EXITED, FINE, refuse_promise
from streamlet.serdes import Serde
from streamlet.state.join_rows import Kept
from streamlet.state.join_store import JoinStore
from streamlet.state.unmatched_store import LEFT, RIGHT, UnmatchedStore
from streamlet.topology.operator import TaskContext, WaitedFailures


@attrs.define
class Gathered:
    """The records of a merged batch, for an operator that takes them in their order.

    ``batches`` came to be looked up; None: that is not what they come for. ``results`` are those
    that were not sent yet, with the batches of their records.
    """

    batches: list[Batch] | None = None
    results: dict[tuple[str, int], list[tuple[Batch, ResultColumns]]] = attrs.field(factory=dict)

    def add(self, batch: Batch, out: ResultColumns) -> None:
        """Keep the results of records until all are there."""
        self.results.setdefault((batch.topic, batch.partition), []).append((batch, out))

    def take(self, batch: Batch) -> list[Batch]:
        """The results of the input that a batch is of; they are not kept any longer."""
        pairs = self.results.pop((batch.topic, batch.partition), [])
        return [_together(pairs)] if pairs else []


@attrs.frozen
class Looks:
    """The times at which a join looks for results that have come due.

    Args:
        context: tells the time.
        interval_ms: of the looks, by the clock; 0: one with each record.
    """

    context: TaskContext
    interval_ms: int

    def begin(self, unmatched: UnmatchedStore) -> None:
        """Begin the first interval, with the first records of either side."""
        if unmatched.look_ms is None:
            unmatched.look_ms = self.context.now_ms + self.interval_ms

    def is_time(self, unmatched: UnmatchedStore) -> bool:
        """True once an interval, for both sides of a join together."""
        if self.interval_ms:
            now = self.context.now_ms
            if now < (unmatched.look_ms or 0):
                return False
            unmatched.look_ms = now + self.interval_ms
        return True


@attrs.frozen
class MatchOrWait:
    """Joins the records of one side, and keeps those without a match if they are to be sent.

    Args:
        side: its windows and joiner.
        waits: whether its records are sent without a match.
        grace_ms: of the windows.
        other: the records of the other side.
        unmatched: the records of both sides that wait.
        key: serde of the keys.
        values: serdes of the values of this and of the other side.
        copies: make values that share nothing with those; None: they cannot change.
        dropped: counts records that are left out.
        looks: when results are looked for that have come due.
        failures: the policy for records that waited.
        name: of the node.
    """

    side: Side
    waits: bool
    grace_ms: int
    other: JoinStore
    unmatched: UnmatchedStore
    key: Serde[Any]
    values: tuple[Serde[Any], Serde[Any]]
    copies: tuple[Function | None, Function | None]
    dropped: Callable[[int], None]
    looks: Looks
    failures: WaitedFailures
    name: str
    _gathered: Gathered = attrs.field(factory=Gathered, init=False)

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """Raises ``OperatorFailed`` when the joiner fails, or a serde refuses a key.

        The record may be tried again if the joiner failed at its first match, or on it alone.
        """
        out = ResultColumns()
        if self._gathered.batches is not None:
            rows, error = self._rows(batch)
            part = batch.slice(0, len(rows))
            self._gathered.batches.append(part.with_values(part.values, rows))
            if error is not None:
                raise OperatorFailed(len(rows), out.take(batch)) from error
            return
        if batch.olds is not None:
            try:
                yield from self._joined(batch, batch.olds, None, out)
            except OperatorFailed as failed:  # what becomes of the record comes behind all others
                failed.done = joined([*self._gathered.take(batch), failed.done])
                raise
            self._gathered.add(batch, out)
            return
        self.looks.begin(self.unmatched)
        for start in range(0, len(batch), RECORDS):
            part = batch.slice(start, start + RECORDS)
            try:
                yield from self._joined(part, *self._rows(part), out)
            except OperatorFailed as failed:
                failed.index += start
                raise
            yield out.take(part)

    # Records of both sides in their order.

    def gather(self) -> None:
        """Begin to look up the matches of records."""
        self._gathered.batches = []

    def gathered(self) -> list[Batch]:
        """The records with their matches in ``olds``."""
        batches, self._gathered.batches = self._gathered.batches, None
        return batches or []

    def results(self) -> list[Batch]:
        """The results that were not sent yet."""
        some, self._gathered.results = self._gathered.results, {}
        return [batch for batch in map(_together, some.values()) if len(batch)]

    def _joined(
        self, batch: Batch, rows: list[Any], error: BaseException | None, out: ResultColumns
    ) -> Iterator[Batch | None]:
        """Join records that have these rows; parts of the results, the last stays in ``out``."""
        stream, done = self.unmatched.progress.observed, 0
        begun = -1  # results before the first one of the record that is joined
        again = sending = False
        try:
            for at, (key, value, time, row) in enumerate(
                zip(batch.keys, batch.values, batch.timestamps, rows, strict=False)
            ):
                stream, begun = max(stream, time), -1
                if row is not None:
                    if (
                        time == stream
                        and self._is_due(stream)
                        and self.looks.is_time(self.unmatched)
                    ):
                        sending = True
                        yield from self._send_closed(at, stream, out, batch)
                        sending = False
                    begun = len(out.keys)
                    try:
                        self._join(at, (key, value, time), row, stream, out)
                    except GeneratorExit as failure:  # as in _without_match
                        raise RuntimeError(EXITED) from failure
                elif self.waits and key is None and value is not None:
                    begun = len(out.keys)
                    out.add(at, None, self._without_match(None, value, self.side.left), time)
                else:
                    self.dropped(1)
                done = at + 1
                if len(out.keys) >= PART:
                    self.unmatched.note(stream)
                    yield out.take(batch)
        except (StateError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as failure:  # a user function may raise anything, or exit
            if sending:  # the policy's answer to a record that waited
                raise
            error, again = failure, begun == len(out.keys)
        self.unmatched.note(stream)
        if error is not None:
            raise OperatorFailed(done, out.take(batch), again=again) from error

    def _rows(
        self, batch: Batch
    ) -> tuple[list[tuple[bytes, list[Kept]] | None], BaseException | None]:
        """The bytes of each record's key with its matches; None: it has no key or no value.

        Up to the first record whose key a serde refuses, and what it failed on.
        """
        mask = complete(batch)
        part, ckeys, error = keyed(self.other, batch if mask is None else batch.select(mask))
        found = self.other.found(ckeys, *self.side.spans(part.timestamps))
        raws = ckeys if self.key.exact is None else self.key.encode_column(ckeys)
        rows: list[Any] = list(zip(raws, found, strict=True))
        return (rows if mask is None else with_gaps([one or None for one in mask], rows)), error

    def _join(
        self,
        at: int,
        record: tuple[Any, Any, int],
        row: tuple[bytes, list[Kept]],
        stream: int,
        out: ResultColumns,
    ) -> None:
        """The results of one record; or it waits."""
        key, value, time = record
        raw, matches = row
        copy_own, own_other = self.copies[0], self.side.own_other
        own_value = self.side.own_value if len(matches) > 1 else None
        joiner, own_result = self.side.joiner.function, self.side.joiner.own
        own, other = (LEFT, RIGHT) if self.side.left else (RIGHT, LEFT)
        for other_time, match in matches:
            self.unmatched.matched(other_time, other + raw)
            if own_other is not None:
                match = own_other(match)
            mine = value if own_value is None else own_value(value)
            joined = joiner(*self.side.columns(key, mine, match))
            if type(joined) not in FINE:
                refuse_promise(joined)
            joined = joined if own_result is None else own_result(joined)
            out.add(at, key, joined, max(time, other_time))
        if matches or not self.waits:
            return
        if max(0, time + self.side.after_ms) < stream:
            out.add(at, key, self._without_match(key, value, self.side.left), time)
        else:
            self.unmatched.wait(time, own + raw, copy_own(value) if copy_own else value)

    def _is_due(self, stream: int) -> bool:
        """True if a record without a match may have waited to the end of its window."""
        least = self.unmatched.least
        return least is not None and least + self.side.after_ms + self.grace_ms < stream

    def _send_closed(
        self, at: int, stream: int, out: ResultColumns, batch: Batch
    ) -> Iterator[Batch | None]:
        """Send what has waited for long enough; parts of it, the last of which stays in ``out``."""
        side, grace, unmatched = self.side, self.grace_ms, self.unmatched
        before, after = side.before_ms, side.after_ms
        if not side.left:
            before, after = after, before
        places = unmatched.close(stream - after - grace, stream - before - grace)
        for start in range(0, len(places), PART):
            some = places[start : start + PART]
            for (time, raw), values in zip(some, unmatched.take(some), strict=True):
                left, key = raw[:1] == LEFT, self.key.decode(raw[1:])
                copy = self._tried(left)
                for value in values:
                    try:
                        made = self._without_match(key, copy(value) if copy else value, left)
                    except (StateError, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        yield from self._so_far(batch, out)
                        one = batch.slice(at, at + 1)
                        yield from self._again((time, raw), value, error, one, at, out)
                    else:
                        out.add(at, key, made, time)
            if start + PART < len(places):
                unmatched.note(stream)
                yield out.take(batch)

    def _so_far(self, batch: Batch, out: ResultColumns) -> Iterator[Batch]:
        """The results there are, which a dead letter comes behind."""
        some = self._gathered.take(batch)
        if len(out.keys):
            some.append(out.take(batch))
        if some:
            yield joined(some)

    def _tried(self, left: bool) -> Function | None:
        """Copies values of a side for a try, if they are wanted as they came; None: no need."""
        return self.copies[left != self.side.left] if self.failures.as_they_came else None

    def _again(
        self,
        place: tuple[int, bytes],
        value: Any,
        error: BaseException,
        one: Batch,
        at: int,
        out: ResultColumns,
    ) -> Iterator[Batch | None]:
        """Try a record that waited again, as long as the policy says; ``one`` came with it."""
        (time, raw), tries = place, 1
        left, raw = raw[:1] == LEFT, raw[1:]
        key, copy, serde = (
            self.key.decode(raw),
            self._tried(left),
            self.values[left != self.side.left],
        )
        while True:
            waited = WaitedRecord(
                *(key, copy(value) if copy else value, time, None),
                lambda: (raw, serde.encode(value)),
            )
            if not self.failures.waited_failed(self.name, one, waited, error, tries):
                return
            yield None
            try:
                made = self._without_match(key, copy(value) if copy else value, left)
            except (StateError, KeyboardInterrupt):
                raise
            except BaseException as failure:
                error, tries = failure, tries + 1
            else:
                out.add(at, key, made, time)
                return

    def _without_match(self, key: Any, value: Any, left: bool) -> Any:
        """The result of a record of a side without a match."""
        pair = (value, None) if left else (None, value)
        joiner = self.side.joiner
        try:
            made = joiner.function(*(pair if joiner.takes == 2 else (key, *pair)))
        except GeneratorExit as failure:  # else it ends the generator that asks for this
            raise RuntimeError(EXITED) from failure
        if type(made) not in FINE:
            refuse_promise(made)
        return made if joiner.own is None else joiner.own(made)


def _together(pairs: list[tuple[Batch, ResultColumns]]) -> Batch:
    """The results of batches of one input, at least one."""
    return joined([out.batch(batch) for batch, out in pairs])
