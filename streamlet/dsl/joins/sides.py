"""The operators of a join of two streams, which see the records of one side each.

A record goes to the store of its side (``Keep``), and then meets those of the other side
(``MatchRecords``, ``MatchOrWait``). As in Kafka Streams: no record is dropped for being late, what
the other store still has decides; an inner join sends its results with the later of the two times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.columns import collect, has_null, nth, spread
from streamlet.dsl.operators.copies import Own, copies, snapshots
from streamlet.dsl.operators.hot_store import Function, copied, keyed
from streamlet.state.join_store import JoinStore, Kept

#: Results that are sent before other tasks may go on, and records that are looked up at a time.
PART = 10_000
RECORDS = 500


@attrs.frozen
class Side:
    """The view that one side has of a join.

    ``before_ms`` and ``after_ms`` are how much older and younger the other side's record may be.
    The joiner takes ``(left, right)``, or the key before them. ``own_value`` makes copies of the
    values of this side, and ``own`` of what the joiner returns; None: they cannot change.
    """

    left: bool
    before_ms: int
    after_ms: int
    joiner: Function
    takes: int
    own_value: Own
    own: Own

    def joined(self, keys: Any, own: Any, other: Any) -> Iterable[Any]:
        """An iterator over the joiner's results for columns of keys and of both sides' values."""
        return snapshots(map(self.joiner, *self.columns(keys, own, other)), self.own)

    def columns(self, keys: Any, own: Any, other: Any) -> tuple[Any, ...]:
        """The joiner's arguments, in its order."""
        pair = (own, other) if self.left else (other, own)
        return pair if self.takes == 2 else (keys, *pair)

    def spans(self, times: list[int]) -> tuple[list[int], list[int]]:
        """The first and the last time that each record may join with, none below 0."""
        before, after = self.before_ms, self.after_ms
        return [max(0, time - before) for time in times], [max(0, time + after) for time in times]


@attrs.frozen
class Keep:
    """Puts the records of a side that have a key and a value into its store, and passes all on."""

    store: JoinStore
    check: Callable[[Any], None]
    copy: Function | None

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key or value that the store's serdes refuse."""
        mask = _complete(batch)
        part = batch if mask is None else batch.select(mask)
        part, ckeys, error = keyed(self.store, part)
        good, failure = collect(map(self.check, part.values), len(part))
        if failure is not None:
            error = failure
        values, failure = copied(self.copy, part.values[: len(good)])
        if failure is not None:
            error = failure
        count = len(values)
        done, failure = self.store.add(ckeys[:count], part.timestamps[:count], values)
        if failure is not None:
            error = failure
        if error is None:
            return batch
        index = done if mask is None else nth(mask, done)
        raise OperatorFailed(index, batch.slice(0, index)) from error


@attrs.frozen
class MatchRecords:
    """The results of an inner join for the records of one side, which all have a key and value.

    With ``but_itself`` a record is in the store it looks into, as the last one of its time, and the
    matches are those that were there before it. Then records come one at a time.
    """

    side: Side
    other: JoinStore
    copy: Function | None
    but_itself: bool = False

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """Raises ``OperatorFailed`` when the joiner fails.

        The record may be tried again if that was at its first match.
        """
        given, ckeys, error = keyed(self.other, batch)
        first = 0
        for found in self._found(ckeys, given.timestamps):
            last = first + len(found)
            try:
                yield self._joined(given.slice(first, last), found)
            except OperatorFailed as failed:
                failed.index += first
                raise
            first = last
        if error is not None:
            raise OperatorFailed(len(given), given.slice(0, 0)) from error

    def _found(self, ckeys: list[Any], times: list[int]) -> Iterator[list[list[Kept]]]:
        """The matches of each record, for runs of records with about ``PART`` matches at most."""
        lows, highs = self.side.spans(times)
        run: list[list[Kept]] = []
        count = 0
        shown = self.other.shown_before if self.but_itself else None
        for start in range(0, len(ckeys), RECORDS):
            some = slice(start, start + RECORDS)
            for matches in self.other.found(ckeys[some], lows[some], highs[some], shown):
                if self.but_itself:
                    matches = _without_last(matches, times[0])
                run.append(matches)
                count += len(matches)
                if count >= PART:
                    yield run
                    run, count = [], 0
        if count:
            yield run

    def _joined(self, part: Batch, found: list[list[Kept]]) -> Batch:
        counts = list(map(len, found))
        matches = list(chain.from_iterable(found))
        others = [value for _, value in matches]
        if self.copy is not None:
            others = list(map(self.copy, others))
        out = _spread(part, counts)
        times = [max(time, other) for time, (other, _) in zip(out.timestamps, matches, strict=True)]
        mine = out.values
        if len(matches) > len(part):  # each call of the joiner has an object of its own
            mine = copies(mine, self.side.own_value)
        values, failure = collect(self.side.joined(out.keys, mine, others), len(matches))
        if failure is None:
            return out.with_values(values, None, times)
        done = len(values)
        index = next(islice(chain.from_iterable(map(repeat, range(len(part)), counts)), done, None))
        part_done = out.slice(0, done).with_values(values, None, times[:done])
        again = done == sum(counts[:index])  # no result of it is there
        raise OperatorFailed(index, part_done, again=again) from failure


@attrs.frozen
class MatchItself:
    """The results of an inner join of a stream with itself, of which one record comes at a time.

    In the order in which two stores would give them: first the record as the left one with all
    earlier ones, then each of these as the left one with the record, itself in its place.
    """

    left: MatchRecords
    right: MatchRecords

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """Raises ``OperatorFailed`` when the joiner fails."""
        assert len(batch) <= 1, "the store that the node above writes has later records, too"
        first = batch.with_values(copies(batch.values, self.left.side.own_value))
        yield from self.left.process_in_parts(first)
        yield from self.right.process_in_parts(batch)


def _without_last(matches: list[Kept], time: int) -> list[Kept]:
    """All but the last one of a time."""
    last = max((at for at, one in enumerate(matches) if one[0] == time), default=None)
    return matches if last is None else matches[:last] + matches[last + 1 :]


def _spread(batch: Batch, counts: list[int]) -> Batch:
    """Each record, as many times as it has matches."""
    return attrs.evolve(
        batch,
        offsets=spread(batch.offsets, counts),
        keys=spread(batch.keys, counts),
        values=spread(batch.values, counts),
        timestamps=spread(batch.timestamps, counts),
        headers=None if batch.headers is None else spread(batch.headers, counts),
        olds=None,
    )


def _complete(batch: Batch) -> list[bool] | None:
    """Mask of the records that have a key and a value; None: all."""
    if not (has_null(batch.keys) or has_null(batch.values)):
        return None
    pairs = zip(batch.keys, batch.values, strict=True)
    return [key is not None and value is not None for key, value in pairs]
