"""The store of updates that ``suppress`` keeps back, in the order of their buffer times.

An update is a row by its buffer time and key. Where the buffer time is that of the first update of
a key, a second row says which it is (``buffer_rows.PLACES``). What comes next is read from the
front of the order some thousand rows at a time, so the memory that the order takes does not grow
with the buffer. Updates that were sent are deleted like any row, in the changelog too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamlet.errors import StateError
from streamlet.serdes import Serde
from streamlet.state.backing import Backing
from streamlet.state.buffer_rows import PLACES
from streamlet.state.ordered_rows import OrderedRows
from streamlet.state.rows import NO_TIME
from streamlet.state.store_times import StoreWithTimes


class BufferStore(StoreWithTimes):
    """A store of updates that are to be sent later.

    Args:
        name: of the store.
        key: serde of the record keys.
        value: serde of the rows (``buffer_rows``).
        backing: where the bytes are.
    """

    def __init__(self, name: str, key: Serde[Any], value: Serde[Any], backing: Backing) -> None:
        self.name = name
        self.order = order = OrderedRows(name, key, value, backing)
        self.rows, self.times, self.commits = order.rows, order.times, order.rows.commits
        self.dirty, self.load, self.load_many = self.rows.dirty, self.rows.load, self.rows.load_many
        self.mark, self.time_of, self.ckeys = self.rows.mark, self.rows.time_of, order.ckeys
        self.advance = self.times.advance
        #: Updates that were sent since the store was opened.
        self.sent = 0

    @property
    def first_time(self) -> int | None:
        """The buffer time of the first update; None: there is none."""
        return self.order.first_time

    def sent_value(self, placed: bool) -> Callable[[Any, Any], Any]:
        """A function ``(key, value) -> value`` that makes a table's value the one sent last.

        ``placed``: keys have places.
        """

        def sent(key: Any, value: Any) -> Any:
            (ckey,) = self.ckeys([key])
            time = self.load((PLACES, ckey)) if placed else key.end
            row = None if time is None else self.load((time, ckey))
            return value if row is None else row[1]

        return sent

    # The way for all stores.

    def range(self, low: int = 0, high: int | None = None) -> Iterator[tuple[Any, Any]]:
        """Keys and values of the updates from one buffer time to another (ms, both inclusive)."""
        for (_, ckey), row in self.order.all(low, high):
            yield self.order.record_key(ckey), row[0]

    def put(self, key: Any, value: Any | None, time_ms: int = NO_TIME) -> None:
        """Raises ``StateError``: only ``suppress`` writes it."""
        raise StateError(f"store {self.name}: it is a buffer of suppress(), which alone writes it")
