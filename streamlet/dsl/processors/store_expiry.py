"""The time after which entries of a processor's store expire (``ttl=``).

An entry that has expired is not shown from then on. It is deleted a little later, with entries
that are put: a store of timers beside the store has one timer for each key, which looks at the
entry when it is due, so a key that is put often does not write it each time.

The time by which entries expire is the highest timestamp of the records that the processors of the
store were given, whether these touch the store or not (``RecordTimes``). It is kept with the
timers, so it is the same after any crash. The task's own stream time is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import attrs

from streamlet.dsl.processors.record import Record
from streamlet.serdes import Serde
from streamlet.state.rows import NO_TIME
from streamlet.state.store import CachedStore
from streamlet.state.timer_store import TimerStore

#: Timers that a put looks at, at most: more than it sets, so that none is left behind.
LOOKS = 4


@attrs.frozen
class RecordTimes:
    """Moves the time of stores whose entries expire on with each record that a function is given.

    Args:
        timers: beside the stores.
    """

    timers: tuple[TimerStore, ...]

    def noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, called once the time of its record has been noted."""
        if not self.timers:
            return function

        @wraps(function)
        def called(record: Record[Any, Any], *more: Any) -> Any:
            for timers in self.timers:
                if record.timestamp > timers.progress.observed:
                    timers.advance(record.timestamp)
            return function(record, *more)

        return called


@attrs.frozen
class StoreExpiry:
    """The expiry of one store.

    Args:
        store: of the entries.
        timers: beside it.
        key: serde of the keys.
        ttl_ms: the time, by stream time, since an entry's own time.
        called_at: the time of a punctuator that is called, ms; ``NO_TIME`` with a record.
    """

    _store: CachedStore
    _timers: TimerStore
    _key: Serde[Any]
    _ttl_ms: int
    _called_at: Callable[[], int]

    def now(self) -> int:
        """Stream time as of the present record, ms; it never goes back, not over a restart."""
        timers, now = self._timers, self._called_at()
        if now > timers.progress.observed:
            timers.advance(now)
        return timers.progress.observed

    def shows(self, key: Any) -> bool:
        """True if the entry of a key has not expired, or has no time."""
        now, time = self.now(), self._store.timestamp(key)
        return time is None or time + self._ttl_ms > now

    def put(self, key: Any, time: int) -> None:
        """Note that an entry was put with this time, and delete some that have expired."""
        raw = self._key.encode(key)
        if self._timers.time(raw) is None:
            self._timers.set(raw, max(0, time) + self._ttl_ms)
        now = self.now()
        for _ in range(LOOKS):
            taken = self._timers.take(now)
            if taken is None:
                return
            self._look(taken[1], now)

    def _look(self, raw: bytes, now: int) -> None:
        """Delete an expired entry, or set its timer again."""
        key = self._key.decode(raw)
        time = self._store.timestamp(key)
        if time is None:
            return
        if time + self._ttl_ms > now:
            self._timers.set(raw, time + self._ttl_ms)
        else:
            self._store.put(key, None, NO_TIME)
