"""The operators of a join of two streams, which see the records of one side each.

A record goes to the store of its side (``Keep``), and then meets those of the other side
(``MatchRecords``, ``MatchOrWait``). As in Kafka Streams: no record is dropped for being late, what
the other store still has decides; an inner join sends its results with the later of the two times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.columnwise import later_times, moved_times
from streamlet.dsl.joins.joiner import Joiner
from streamlet.dsl.operators.columns import collect, complete, nth, spread_batch
from streamlet.dsl.operators.copies import Own, copies
from streamlet.dsl.operators.hot_store import accepting, kept, keyed
from streamlet.serdes import Serde
from streamlet.state.join_rows import Kept, Matches
from streamlet.state.join_store import JoinStore

#: Results that are sent before other tasks may go on.
PART = 10_000
#: Records that are looked up at a time: by this file's operators, and where they may wait.
LOOKED_UP, RECORDS = 2_000, 500


@attrs.frozen
class Side:
    """The view that one side has of a join.

    ``before_ms`` and ``after_ms`` are how much older and younger the other side's record may be.
    The joiner takes ``(left, right)``, or the key before them. ``own_value`` and ``own_other`` make
    copies of the values of this side and of the other one for it; None: it does not change them.
    """

    left: bool
    before_ms: int
    after_ms: int
    joiner: Joiner
    own_value: Own
    own_other: Own

    def columns(self, keys: Any, own: Any, other: Any) -> tuple[Any, ...]:
        """The joiner's arguments, in its order."""
        pair = (own, other) if self.left else (other, own)
        return pair if self.joiner.takes == 2 else (keys, *pair)

    def spans(self, times: list[int]) -> tuple[list[int], list[int]]:
        """The first and the last time that each record may join with, none below 0."""
        return moved_times(times, -self.before_ms), moved_times(times, self.after_ms)


@attrs.frozen
class Keep:
    """Puts the records of a side that have a key and a value into its store, and passes all on.

    Args:
        store: the store.
        value: serde of its values.
        as_read: whether this has read the values, and the store has the objects themselves.
    """

    store: JoinStore
    value: Serde[Any]
    as_read: bool

    def process(self, batch: Batch) -> Batch:
        """Raises ``OperatorFailed`` for a key or value that the store's serdes refuse."""
        mask = complete(batch)
        part = batch if mask is None else batch.select(mask)
        part, ckeys, error = keyed(self.store, part)
        values, failure = self._kept(part.values)
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

    def _kept(self, values: list[Any]) -> tuple[list[Any], BaseException | None]:
        """The values for the store as far as it takes them, and the failure of the next one."""
        if self.as_read:
            return values, None
        good, error = collect(map(accepting(self.value, "result"), values), len(values))
        taken, failure = kept(self.value, values[: len(good)])
        return taken, error if failure is None else failure


@attrs.frozen
class MatchRecords:
    """The results of an inner join for the records of one side, which all have a key and value.

    With ``but_itself`` a record is in the store it looks into, as the last one of its time, and the
    matches are those that were there before it. Then records come one at a time.
    """

    side: Side
    other: JoinStore
    but_itself: bool = False

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """Raises ``OperatorFailed`` when the joiner fails.

        The record may be tried again if that was at its first match.
        """
        given, ckeys, error = keyed(self.other, batch)
        first = 0
        for counts, times, values in self._found(ckeys, given.timestamps):
            last = first + len(counts)
            try:
                if times:
                    part = given if len(counts) == len(given) else given.slice(first, last)
                    yield self._joined(part, counts, times, values)
            except OperatorFailed as failed:
                failed.index += first
                raise
            first = last
        if error is not None:
            raise OperatorFailed(len(given), given.slice(0, 0)) from error

    def _found(self, ckeys: list[Any], times: list[int]) -> Iterator[Matches]:
        """The matches of each record, in parts of about ``PART`` matches at most."""
        lows, highs = self.side.spans(times)
        if self.but_itself:
            for matches in self.other.found(ckeys, lows, highs, self.other.shown_before):
                others = _without_last(matches, times[0])
                yield [len(others)], [time for time, _ in others], [one for _, one in others]
            return
        for start in range(0, len(ckeys), LOOKED_UP):
            some = slice(start, start + LOOKED_UP)
            yield from self.other.matches(ckeys[some], lows[some], highs[some], PART)

    def _joined(self, part: Batch, counts: list[int], times: list[int], others: list[Any]) -> Batch:
        """The results of records that have so many matches, of these times and values."""
        others = copies(others, self.side.own_other)
        out = _spread(part, counts)
        late = later_times(out.timestamps, times)
        mine = out.values
        if len(others) > len(part):  # each call of the joiner has an object of its own
            mine = copies(mine, self.side.own_value)
        columns = self.side.columns(out.keys, mine, others)
        values, failure = self.side.joiner.column(columns, len(others))
        if failure is None:
            return out.with_values(values, None, late)
        done = len(values)
        index = next(islice(chain.from_iterable(map(repeat, range(len(part)), counts)), done, None))
        part_done = out.slice(0, done).with_values(values, None, late[:done])
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
    if len(counts) and max(counts) == 1:
        return batch if min(counts) else batch.select(counts)
    return spread_batch(batch, counts)
