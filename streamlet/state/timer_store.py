"""The store of timers, in the order of their times.

A timer is a row by its time and its *timer key*: the bytes of a record key and a name. A second row
says which time a timer key has (``buffer_rows.PLACES``), so a timer can be set to another time or
cancelled. As in a buffer of ``suppress``, what comes next is read from the front of the order some
thousand rows at a time, and the stream time of the operator goes with the rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from streamlet.serdes import serde
from streamlet.serdes.serde import Serde, build
from streamlet.state.backing import Backing
from streamlet.state.buffer_rows import PLACES
from streamlet.state.ordered_rows import OrderedRows
from streamlet.state.rows import NO_TIME
from streamlet.state.store_times import StoreWithTimes
from streamlet.state.unreadable import rows_of_store

_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">H")
#: The value of a timer's row; the time that is in the key says it all.
_SET = 0


def timer_rows() -> Serde[int]:
    """The serde of the rows: the time of a timer key, or 0 for a timer."""
    return build(
        "timers",
        _TIME.pack,
        lambda raw: int(_TIME.unpack(raw)[0]),
        accepts=frozenset({int}),
        immutable=True,
    )


def timer_key(key: bytes, name: str) -> bytes:
    """The timer key of a record key and a name; keys come first in the order.

    Raises:
        ValueError: the name is too long.
    """
    raw = name.encode()
    if len(raw) >= 1 << 16:
        raise ValueError(f"a timer's name has at most 65535 bytes, not {len(raw)}")
    return key + raw + _LENGTH.pack(len(raw))


def key_and_name(raw: bytes) -> tuple[bytes, str]:
    """The bytes of the record key, and the name, of a timer key.

    Raises:
        StateError: it is none.
    """
    with rows_of_store("of timers"):
        end = len(raw) - _LENGTH.size
        (length,) = _LENGTH.unpack(raw[max(0, end) :])
        if length > end:
            raise ValueError(f"a timer's key of {len(raw)} bytes")
        return raw[: end - length], raw[end - length : end].decode()


class TimerStore(StoreWithTimes):
    """A store of timers.

    Args:
        name: of the store.
        backing: where the bytes are.
    """

    def __init__(self, name: str, backing: Backing) -> None:
        self.name = name
        self.order = order = OrderedRows(name, serde(bytes), timer_rows(), backing)
        self.rows, self.times, self.commits = order.rows, order.times, order.rows.commits
        self.advance = self.times.advance

    @property
    def first_time(self) -> int | None:
        """The time of the first timer, ms; None: there is none."""
        return self.order.first_time

    @property
    def count(self) -> int:
        """Number of timers."""
        return self.order.count

    def time(self, key: bytes) -> int | None:
        """The time of a timer key, ms; None: there is no such timer."""
        found: int | None = self.rows.load((PLACES, key))
        return found

    def set(self, key: bytes, time: int) -> None:
        """Set the timer of a timer key, in place of the one that it has."""
        before, rows = self.time(key), self.rows
        if before == time:
            return
        if before is not None:
            self.order.remove(before, key)
        for place, value in (((time, key), _SET), ((PLACES, key), time)):
            rows.cache[place] = value
            rows.dirty[place] = NO_TIME
        self.order.added([(time, key)], None)
        self.order.note(NO_TIME, time)

    def cancel(self, key: bytes) -> None:
        """Remove the timer of a timer key, if there is one."""
        before = self.time(key)
        if before is not None:
            self.order.remove(before, key)
            self.rows.erase((PLACES, key))
            self.order.note(NO_TIME, NO_TIME)

    def take(self, until: int) -> tuple[int, bytes] | None:
        """Remove the first timer, up to a time (ms), and return it; None: there is none."""
        time = self.first_time
        if time is None or time > until:
            return None
        key: bytes = self.order.front[0][2]
        self.order.remove_first([(time, key)], True, None)
        self.order.note(NO_TIME, NO_TIME)
        return time, key

    # The way for all stores.

    def range(self, low: int = 0, high: int | None = None) -> Iterator[tuple[bytes, int]]:
        """Timer keys and times of the timers from one time to another (ms, both inclusive).

        The timer key of a row that expires (``ttl=``) is the bytes of the record key alone; those
        of functions hold a name, too (``key_and_name``).
        """
        return ((key, time) for (time, key), _ in self.order.all(low, high))
