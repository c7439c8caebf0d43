"""The operator of state functions: a dict for each key, and timers.

The dict of a key is a row of a store, and so is each timer; both have changelogs. A function that
fails leaves neither changed. Timers by stream time come before the first record that is not older
than they are, so a record never meets what should have ended before it. Stream time is that of the
operator, which is kept with the timers, so the same records give the same results on any host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.operators.columns import has_null, not_null
from streamlet.dsl.operators.hot_store import keyed
from streamlet.dsl.processors.forwarded import Forwarding
from streamlet.dsl.processors.keyed_state import State, Timer
from streamlet.dsl.processors.process_operator import PART, results_of
from streamlet.dsl.processors.processor import ProcessorContext
from streamlet.dsl.processors.record import Record, records_of
from streamlet.errors import ProcessingError, StateError
from streamlet.serdes import Serde
from streamlet.state.rows import NO_TIME
from streamlet.state.store import CachedStore
from streamlet.state.timer_store import TimerStore, key_and_name, timer_key
from streamlet.topology.operator import TaskContext

#: The name of the timer that looks whether the state of a key has expired; users' begin otherwise.
EXPIRY = "\x00expiry"


@attrs.frozen
class StateFunctions:
    """The functions, and the rules of their state.

    ``function`` is called with a record, its state and the context, ``on_timer`` with a timer in
    place of the record. ``by_clock``: timers and expiry follow the clock, not stream time. The
    state of a key expires ``ttl_ms`` after it was last changed; None: never.
    """

    call: str
    function: Callable[[Any, Any, Any], Any]
    on_timer: Callable[[Any, Any, Any], Any] | None
    key: Serde[Any]
    value: Serde[dict[str, Any]]
    by_clock: bool
    ttl_ms: int | None


class StateProcess:
    """Calls state functions.

    Args:
        name: of the node.
        task: the services of the task.
        rules: the functions and the rules of their state.
        store: of the dicts.
        timers: the store of timers, which also keeps stream time; None: neither is needed.
        context: what the functions may ask for.
        forwarding: takes what is forwarded.
        result: makes a record of what a function returned or yielded.
    """

    #: Calls of timers.
    punctuations = 0

    def __init__(
        self,
        name: str,
        task: TaskContext,
        rules: StateFunctions,
        store: CachedStore,
        timers: TimerStore | None,
        context: ProcessorContext[Any, Any],
        forwarding: Forwarding,
        result: Callable[[Any, Record[Any, Any] | None, int], Record[Any, Any]],
    ) -> None:
        self._name, self._task, self._rules = name, task, rules
        #: The user's own, for messages.
        self.function = rules.function
        self._store, self._timers = store, timers
        self._context, self._forwarding, self._result = context, forwarding, result
        #: Stream time as of the present call.
        self._time = NO_TIME
        self._no_timers = "" if rules.on_timer is not None else rules.call

    def begin(self) -> None:
        """Do nothing: functions have nothing to begin."""

    def end(self) -> None:
        """Do nothing: functions have nothing to close."""

    # Records.

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        """The records that the functions forward, in parts.

        Raises:
            OperatorFailed: the function failed on a record, or the key has no bytes.
        """
        self._context._metadata = batch.topic, batch.partition
        places, given, ckeys, error = self._with_keys(batch)
        self._store.load_many(ckeys)
        columns = places, records_of(given), ckeys, given.offsets
        for taken, (index, record, ckey, offset) in enumerate(zip(*columns)):  # noqa: B905
            if not self._rules.by_clock:
                self._observed = record.timestamp
                yield from self._fire(self._observed, offset, given)
            before = len(self._forwarding)
            try:
                self._call(record, ckey, offset)
            except (StateError, KeyboardInterrupt):
                raise
            except BaseException as failure:  # a user function may raise anything, or exit
                self._forwarding.cut(before)
                done = self._forwarding.take(batch)
                self._task.dropped(self._name, index - taken)
                raise OperatorFailed(index, done, again=True) from failure
            if not self._rules.by_clock:
                yield from self._fire(self._observed, offset, given)
            if len(self._forwarding) >= PART:
                yield self._forwarding.take(given)
        done = self._forwarding.take(given)
        end = len(batch) if error is None else places[len(given)]
        self._task.dropped(self._name, end - len(given))
        if error is not None:
            raise OperatorFailed(end, done) from error
        yield done

    def _with_keys(
        self, batch: Batch
    ) -> tuple[Sequence[int], Batch, list[Any], BaseException | None]:
        """The records that have a key, their places in the batch, and their cache keys."""
        places: Sequence[int] = range(len(batch))
        if has_null(batch.keys):
            mask = not_null(batch.keys)
            batch, places = batch.select(mask), list(compress(places, mask))
        return places, *keyed(self._store, batch)

    def _call(self, record: Record[Any, Any], ckey: Any, offset: int) -> None:
        """Call the function with a record, and keep what it changed."""
        self._time = max(self._observed, record.timestamp)
        own = self._task.wall_ms() if self._rules.by_clock else record.timestamp
        given = self._forwarding.given(record)
        state = self._state(given.key, ckey, own, None)
        self._results(self._rules.function, given, state, record, offset)
        self._keep(state, ckey)

    def _results(
        self,
        function: Callable[[Any, Any, Any], Any],
        given: Any,
        state: State[Any],
        record: Record[Any, Any],
        offset: int,
    ) -> None:
        """Call a function and forward its results; ``record`` is what it was called for."""
        forwarding = self._forwarding
        forwarding.record, forwarding.offset = record, offset
        try:
            for one in results_of(function(given, state, self._context)):
                forwarding.forward(self._result(one, record, record.timestamp))
        finally:
            forwarding.record = forwarding.offset = None

    # State.

    @property
    def _now(self) -> int:
        """The time by which state expires, ms."""
        return self._task.wall_ms() if self._rules.by_clock else self._time

    @property
    def _observed(self) -> int:
        return NO_TIME if self._timers is None else self._timers.progress.observed

    @_observed.setter
    def _observed(self, time: int) -> None:
        if self._timers is not None and time > self._timers.progress.observed:
            self._timers.advance(time)

    def _state(self, key: Any, ckey: Any, now: int, after: int | None) -> State[Any]:
        def read() -> dict[str, Any]:
            stored = self._present(ckey)
            state.before = b"" if stored is None else self._rules.value.encode(stored)
            return {} if stored is None else self._rules.value.decode(state.before)

        def timer_at(name: str) -> int | None:
            assert self._timers is not None
            return self._timers.time(self._timer_key(ckey, name))

        state = State.of(self._no_timers, key, read, timer_at, now, after)
        return state

    def _present(self, ckey: Any) -> dict[str, Any] | None:
        """The stored dict of a key, unless it has expired."""
        stored: dict[str, Any] | None = self._store.load(ckey)
        ttl = self._rules.ttl_ms
        if stored is None or ttl is None or self._store.time_of(ckey) + ttl > self._now:
            return stored
        return None

    def _keep(self, state: State[Any], ckey: Any) -> None:
        """Keep what a call has changed: the dict, then the timers."""
        data = state.changed()
        state.end()
        if data is not None:
            after = self._rules.value.encode(data) if data else b""
            if after != state.before:
                # The function may have kept parts of it.
                self._put(ckey, self._rules.value.decode(after) if data else {})
        for name, time in state.timers.items():
            assert self._timers is not None
            key = self._timer_key(ckey, name)
            self._timers.cancel(key) if time is None else self._timers.set(key, time)

    def _put(self, ckey: Any, data: dict[str, Any]) -> None:
        store, now = self._store, self._now
        store.cache[ckey] = data or None
        store.mark([ckey], [now])
        store.commits.reached(now)
        ttl = self._rules.ttl_ms
        if ttl is not None and data:
            assert self._timers is not None
            expiry = self._timer_key(ckey, EXPIRY)
            if self._timers.time(expiry) is None:  # one that is there looks again when it is due
                self._timers.set(expiry, now + ttl)

    def _timer_key(self, ckey: Any, name: str) -> bytes:
        raw = self._rules.key.encode(ckey) if self._store.exact_keys else ckey
        return timer_key(raw, name)

    # Timers.

    def by_stream_time(self, at: Batch) -> Iterator[Batch]:
        """Call the timers that stream time has come to, where a test moved it on."""
        if not self._rules.by_clock:
            yield from self._fire(self._observed, at.offsets[0], at)
        yield self._forwarding.take(at)

    @property
    def clock_due_ms(self) -> int | None:
        """The time of the first timer by the clock, ms since the epoch."""
        return self._timers.first_time if self._rules.by_clock and self._timers else None

    def by_clock(self, at: Batch) -> Iterator[Batch]:
        """Call the timers that are due by the clock."""
        if self._rules.by_clock:
            yield from self._fire(self._task.wall_ms(), at.offsets[0], at)
        yield self._forwarding.take(at)

    def _fire(self, now: int, offset: int, at: Batch) -> Iterator[Batch]:
        """Call the timers up to a time, in their order; others may go on between many of them."""
        fired, self._time = 0, now
        while self._timers is not None and (taken := self._timers.take(now)) is not None:
            time, key = taken
            raw, name = key_and_name(key)
            ckey = self._rules.key.decode(raw) if self._store.exact_keys else raw
            if name == EXPIRY:
                self._expire(ckey)
            else:
                record = Record[Any, Any](self._rules.key.decode(raw), None, time)
                self.punctuations += 1
                self._call_timer(record, name, ckey, offset, at)
            fired += 1
            if fired % PART == 0 or len(self._forwarding) >= PART:
                yield self._forwarding.take(at)

    def _call_timer(
        self, record: Record[Any, Any], name: str, ckey: Any, offset: int, at: Batch
    ) -> None:
        """Call ``on_timer`` for what stands for a record of the timer's key and time."""
        on_timer, before = self._rules.on_timer, len(self._forwarding)
        if on_timer is None:  # it was set by an earlier version of the program
            return
        given = self._forwarding.given(record)
        timer = Timer(given.key, name, record.timestamp)
        state = self._state(given.key, ckey, record.timestamp, record.timestamp)
        try:
            self._results(on_timer, timer, state, record, offset)
            self._keep(state, ckey)
        except (StateError, KeyboardInterrupt, ProcessingError):
            raise
        except BaseException as error:  # a user function may raise anything, or exit
            self._forwarding.cut(before)
            self._task.failed(self._name, at, error)

    def _expire(self, ckey: Any) -> None:
        """Delete the dict of a key, unless it was changed since its timer was set."""
        if self._store.load(ckey) is None:
            return
        if self._present(ckey) is None:
            self._put(ckey, {})
            return
        assert self._timers is not None
        assert self._rules.ttl_ms is not None
        expiry = self._store.time_of(ckey) + self._rules.ttl_ms
        self._timers.set(self._timer_key(ckey, EXPIRY), expiry)
