"""The operator that joins records of a stream with a versioned table once their grace is over.

As in Kafka Streams (KIP-923): a record waits until stream time, the highest timestamp of the
stream, is so far behind it, and then meets the row as of its own time; changes of the table that
come late are in it by then. What is due goes out with each record that begins to wait, in the order
of time, key bytes and arrival, with its own timestamp and headers. A record that is later than the
grace does not wait, and sends nothing else. One that is left out does not move stream time.

A batch is joined in rounds: what is due in a round is found first, from the times alone, and then
joined by columns. So a record that is due in the round that it came in is never in the store.

Where records of both inputs are taken together, those of the stream are joined behind all changes
of the table. These are none that a record before them must not see (``merged_batch.until_change``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed, WaitedRecord
from streamlet.dsl.joins.rounds import (
    ARRIVING,
    NUMBER_BYTES,
    PART,
    Due,
    JoinRound,
    number_of,
    numbered,
)
from streamlet.dsl.joins.row_lookups import StreamTableJoin
from streamlet.dsl.operators.columns import collect, converted
from streamlet.dsl.operators.hot_store import Function
from streamlet.serdes import Serde
from streamlet.serdes.copies import own_column
from streamlet.state.buffer_store import BufferStore
from streamlet.state.checked import CheckedCache
from streamlet.state.ordered_rows import Place
from streamlet.state.rows import NO_TIME
from streamlet.topology.operator import WaitedFailures


@attrs.frozen
class JoinLater:
    """Keeps records in a buffer until their grace is over, and joins them then.

    Args:
        store: the buffer; its keys are the bytes of record keys, each with a number behind it.
        join: the join.
        grace_ms: how long records wait.
        key: serde of the record keys.
        value: serde of the record values.
        check: refuses values that the store's serde does.
        copy: makes a value that shares nothing with the given one; None: values cannot change.
        dropped: counts records that are left out.
        failures: the policy for records that waited.
        name: of the node.
    """

    store: BufferStore
    join: StreamTableJoin
    grace_ms: int
    key: Serde[Any]
    value: Serde[Any]
    check: Callable[[Any], None]
    copy: Function | None
    dropped: Callable[[int], None]
    failures: WaitedFailures
    name: str
    #: Batches that came to be joined behind all others; empty outside: see ``gather``.
    _gathered: list[list[Batch]] = attrs.field(factory=list, init=False)

    def gather(self) -> None:
        """Keep batches until all changes of the table were taken that come with them."""
        self._gathered.append([])

    def gathered(self) -> list[Batch]:
        """The batches that were kept."""
        return self._gathered.pop()

    def results(self) -> list[Batch]:
        """An empty list: results are sent when the records come again."""
        return []

    def process_in_parts(self, batch: Batch) -> Iterator[Batch | None]:
        """Raises ``OperatorFailed`` when the joiner fails, or a serde refuses a record.

        Not for a record that waited: it is left out, or tried again, and the one it goes with
        comes again.
        """
        if self._gathered:
            self._gathered[-1].append(batch)
            return
        given, raws, error = self._readable(batch)
        start = tries = 0
        while start < len(given):
            end, waiting, whole = self._cut(given, start)
            plan = self._planned(given, raws, (start, end), waiting, whole)
            out, failed = self._joined(given, raws, plan)
            yield out
            if failed is not None:
                start, tries = failed.index, tries + 1
                if self._goes_again(given.slice(start, start + 1), failed, tries):
                    yield None
                else:
                    tries = 0
                continue
            tries = 0
            if not whole and plan.sends:
                yield from self._rest(given, plan)
            start = end
        if error is not None:
            raise OperatorFailed(len(given), batch.slice(0, 0)) from error

    @property
    def timed(self) -> bool:
        """False: only stream time counts."""
        return False

    def tick(self, at: Batch) -> Iterator[Batch | None]:
        """Records that are due because stream time was moved on without one."""
        yield from self._rest(at, JoinRound(0, 0, [self.store.progress.observed]))

    # What comes.

    def _readable(self, batch: Batch) -> tuple[Batch, list[bytes | None], BaseException | None]:
        """The batch and the bytes of its keys, cut before the first record a serde refuses.

        Its values are copies where they may change: they may have to stay.
        """
        raws, error = converted(self.key.encode_column, batch.keys)
        good, failure = collect(map(self.check, batch.values[: len(raws)]), len(raws))
        error = error if failure is None else failure
        values = batch.values[: len(good)]
        if self.copy is not None:
            values, failure = collect(map(self.copy, values), len(values))
            error = error if failure is None else failure
        given = batch if error is None else batch.slice(0, len(values))
        return (given if self.copy is None else given.with_values(values)), raws, error

    def _cut(self, given: Batch, start: int) -> tuple[int, list[Place], bool]:
        """The end of the round, the stored records due in it, and True if these are all.

        Where that is more than a part, or records may be too large for the store, the round is one
        record, and what it sends comes behind it.
        """
        store = self.store
        end = min(start + PART, len(given))
        waiting = self._first(max(given.timestamps[start:end]))
        whole = store.order.front_is_all or len(waiting) < len(store.order.front)
        if whole and len(waiting) < PART and not isinstance(store.rows.cache, CheckedCache):
            return end, waiting, True
        return start + 1, [], False

    def _first(self, time: int) -> list[Place]:
        """Some records that are due once stream time has come to a time."""
        observed = max(self.store.progress.observed, time)
        return self.store.order.first(PART, observed - self.grace_ms)

    def _planned(
        self,
        given: Batch,
        raws: list[bytes | None],
        span: tuple[int, int],
        waiting: list[Place],
        whole: bool,
    ) -> JoinRound:
        """Find out what is due with each record of a round; if ``whole``, also of the round's."""
        plan, observed = JoinRound(*span), self.store.progress.observed
        senders: list[int] = []
        limits: list[int] = []
        came: list[tuple[int, int]] = []
        for at in range(*span):
            time, raw = given.timestamps[at], raws[at]
            left_out = given.values[at] is None or (raw is None and not self.join.left)
            if not left_out and raw is not None:
                observed = max(observed, time)
            plan.reached.append(observed)
            if left_out:
                plan.left_out.append(at)
            elif raw is None or time < observed - self.grace_ms:
                plan.due.append((at, (0, 0, b"", 0), at))
            else:
                came.append((len(senders), at))
                senders.append(at)
                limits.append(observed - self.grace_ms)
        for number, at in came:
            time, raw = given.timestamps[at], raws[at]
            sent = max(number, bisect_left(limits, time))
            if whole and sent < len(limits):
                plan.due.append((senders[sent], (1, time, raw or b"", ARRIVING + at), at))
            else:
                plan.stay.append(at)
        for place in waiting if senders else ():
            time, numbered = place
            sent = bisect_left(limits, time)
            if sent < len(limits):
                order = 1, time, numbered[:-NUMBER_BYTES], number_of(numbered)
                plan.due.append((senders[sent], order, place))
        plan.due.sort(key=lambda due: due[:2])
        plan.sends = bool(senders)
        return plan

    # What goes.

    def _joined(
        self, given: Batch, raws: list[bytes | None], plan: JoinRound
    ) -> tuple[Batch, OperatorFailed | None]:
        """The results of a round; what stays is in the store then.

        Where the joiner fails on a record that waited, that is the first in the store, and the one
        that it goes with has the failure's index; nothing of that one was kept.
        """
        try:
            out = self.join.process(self._due(given, plan.due))
        except OperatorFailed as failed:
            index, _, one = plan.due[failed.index]
            self._keep(given, raws, plan, failed.index, index)
            failure = failed.at(index, failed.done)
            failure.__cause__ = failed.__cause__
            if one != index:
                return failed.done, failure
            reached = plan.reached[index - plan.start]
            failure.left_out = lambda: self._note(reached, NO_TIME)
            raise failure from failed.__cause__
        kept = self._keep(given, raws, plan, len(plan.due), plan.end)
        if kept is not None:
            raise OperatorFailed(kept.index, out) from kept.__cause__
        return out, None

    def _rest(self, given: Batch, plan: JoinRound) -> Iterator[Batch | None]:
        """The remaining results due with the last record of a round, in parts."""
        at, tries = max(plan.start, plan.end - 1), 0
        while places := self._first(plan.reached[-1]):
            due: list[Due] = [(at, (1, 0, b"", 0), place) for place in places]
            failure: OperatorFailed | None = None
            try:
                out = self.join.process(self._due(given, due))
            except OperatorFailed as failed:
                failure, out, places = failed, failed.done, places[: failed.index]
            self.store.order.remove_first(places, placed=False, size=None)
            self._note(plan.reached[-1], NO_TIME)
            yield out
            tries = 0 if failure is None or places else tries
            if failure is not None:
                tries += 1
                if self._goes_again(given.slice(at, at + 1), failure, tries):
                    yield None
                else:
                    tries = 0

    def _goes_again(self, at: Batch, failed: OperatorFailed, tries: int) -> bool:
        """Ask the policy about the first record in the store; if this is false it is gone."""
        (place,) = self.store.order.first(1)
        row = self.store.load(place)
        assert row is not None
        value, _, headers, _ = row
        raw = place[1][:-NUMBER_BYTES]
        waited = WaitedRecord(
            *(self.key.decode(raw), self._tried([value])[0], place[0], headers),
            lambda: (raw, self.value.encode(value)),
        )
        cause = failed.__cause__
        assert cause is not None
        again = self.failures.waited_failed(self.name, at, waited, cause, tries)
        if not again:
            self.store.order.remove_first([place], placed=False, size=None)
            self._note(self.store.progress.observed, NO_TIME)
        return again

    def _tried(self, values: list[Any]) -> list[Any]:
        """The values as a try gets them: copies, if they are wanted as they came."""
        wanted = self.copy is not None and self.failures.as_they_came
        return own_column(values) if wanted else values

    def _due(self, given: Batch, due: list[Due]) -> Batch:
        """Records to join as a batch, each with the offset of the record that sends it."""
        store = self.store
        places = [one for _, _, one in due if not isinstance(one, int)]
        store.load_many(places)
        keys, values, times, headers = [], [], [], []
        for _, _, one in due:
            if isinstance(one, int):
                keys.append(given.keys[one])
                values.append(given.values[one])
                times.append(given.timestamps[one])
                headers.append(None if given.headers is None else given.headers[one])
            else:
                row = store.rows.cache[one]
                keys.append(self.key.decode(one[1][:-NUMBER_BYTES]))
                values.append(row[0])
                times.append(one[0])
                headers.append(row[2])
        return attrs.evolve(
            given,
            offsets=[given.offsets[sender] for sender, _, _ in due],
            keys=keys,
            values=self._tried(values),
            timestamps=times,
            headers=headers if any(headers) else None,
            olds=None,
        )

    def _keep(
        self, given: Batch, raws: list[bytes | None], plan: JoinRound, done: int, end: int
    ) -> OperatorFailed | None:
        """Remove joined records from the buffer, and keep the others before an index.

        The failure of a record that the store does not take, if there is one.
        """
        gone = [one for _, _, one in plan.due[:done] if not isinstance(one, int)]
        self.store.order.remove_first(gone, placed=False, size=None)
        later = [one for _, _, one in plan.due[done:] if isinstance(one, int)]
        stay = sorted(at for at in chain(plan.stay, later) if at < end)
        failed = self._put(given, raws, stay)
        end = end if failed is None else failed.index
        self.dropped(sum(at < end for at in plan.left_out))
        if end > plan.start:
            highest = max((given.timestamps[at] for at in stay if at < end), default=NO_TIME)
            self._note(plan.reached[end - 1 - plan.start], highest)
        return failed

    def _put(
        self, given: Batch, raws: list[bytes | None], stay: list[int]
    ) -> OperatorFailed | None:
        """Put records into the store; the failure of the one that it does not take."""
        store, new = self.store, []
        failed: OperatorFailed | None = None
        head = next(iter(store.order.first(1)), None) if stay else None
        for at in stay:
            place = self._free_place(given.timestamps[at], raws[at] or b"", head)
            headers = None if given.headers is None else given.headers[at]
            try:
                store.rows.cache[place] = given.values[at], None, headers, 0
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a cache that takes no large rows
                failed = OperatorFailed(at, given.slice(0, 0))
                failed.__cause__ = error
                break
            new.append(place)
        store.mark(new, [time for time, _ in new])
        store.commits.reached(max((time for time, _ in new), default=NO_TIME))
        store.order.added(new, None)
        return failed

    def _free_place(self, time: int, raw: bytes, head: Place | None) -> Place:
        """The place of a record behind those with its key and time, which go out together.

        Their numbers follow one another. They do not begin with 0 only where a joiner failed amid
        them: what is left of them is at the ``head`` of the store.
        """
        first = 0
        if head is not None and head == (time, raw + head[1][-NUMBER_BYTES:]):
            first = number_of(head[1])
        taken, ahead = -1, 0
        while self._is_taken(time, raw, first + ahead):
            taken, ahead = ahead, 2 * ahead + 1
        while ahead - taken > 1:
            middle = (taken + ahead) // 2
            if self._is_taken(time, raw, first + middle):
                taken = middle
            else:
                ahead = middle
        return time, numbered(raw, first + ahead)

    def _is_taken(self, time: int, raw: bytes, number: int) -> bool:
        return self.store.load((time, numbered(raw, number))) is not None

    def _note(self, observed: int, highest: int) -> None:
        self.store.order.note(observed, highest)
