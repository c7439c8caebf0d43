"""The bound of what waits in a producer's queue: about as much as was delivered lately.

A record that is queued is on its way at once, and only its time-out ends that. Where a quota or a
link lets 0.2 MB through in a second, a queue of 64 MB takes five minutes: its records time out, the
tasks begin again at their last commits, and queue the same records. With a queue that holds what
was delivered in about a second all are delivered in good time, commits and hand-overs wait a
second, and a process that was frozen has little left to send.

Where records are delivered quickly more and more may wait, but no more than a tenth of what was
delivered in the last ten seconds: a quota lets ten seconds' worth through at once, and what is
queued by then is delivered at its rate, so in about a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from streamlet.clock import Clock
from streamlet.kafka.ports import Headers

#: What may wait over a link of which nothing is known, bytes: what a round of small records leads
#: to, and enough for full batches.
FIRST_BYTES = 512 * 1024
#: What may wait over the slowest link.
LEAST_BYTES = 64 * 1024
#: What may wait at most: at 0.2 MB a second it is gone within a delivery's time-out.
MOST_BYTES = 16 * 1024 * 1024
#: The share of it that may wait while another member waits for all of it to be delivered.
HURRIED_SHARE = 0.2
#: For how many times as long a quota of Kafka's lets through at once what it allows in all.
_BURST = 10
#: What was delivered counts less with time, and hardly after a few times this, ms.
_LATELY_MS = 1_000
#: Where such a share of what may wait is still there, the link has had enough to do.
_BUSY_SHARE = 0.25
#: What a record takes besides its key, value and headers.
OVERHEAD = 32
#: Of how many records of a column the sizes are looked at.
_SAMPLE = 16


@attrs.define(eq=False, slots=True)
class QueueBound:
    """Counts what waits, and how much may.

    Args:
        clock: the time.
        most: the bound of the bound, bytes.
    """

    _clock: Clock
    _most: int = MOST_BYTES
    #: The bytes that may wait, as of the last look.
    bytes: int = attrs.field(default=FIRST_BYTES, init=False)
    #: The bytes that may wait while no other member waits for us.
    _usual: int = attrs.field(default=FIRST_BYTES, init=False)
    _hurried: bool = attrs.field(default=False, init=False)
    _records: int = attrs.field(default=0, init=False)
    _size: float = attrs.field(default=0.0, init=False)
    #: The bytes that were delivered lately, and in a time ten times as long.
    _lately: float = attrs.field(default=float(FIRST_BYTES), init=False)
    _long: float = attrs.field(default=0.0, init=False)
    _looked_ms: int = attrs.field(init=False)
    #: When something was last delivered, or nothing waited.
    moved_ms: int = attrs.field(init=False)

    @_looked_ms.default
    @moved_ms.default
    def _now_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def room(self) -> int:
        """The bytes that may be queued now, as of the last look; below 0 where too much waits."""
        return self.bytes - int(self._size)

    @property
    def records(self) -> int:
        """The records that wait, as of the last look."""
        return self._records

    def take(self, records: int, size: int) -> bool:
        """Count so many records of so many bytes each as queued, if there is room as far as known.

        The first ones behind an empty queue are not taken: time counts from them.
        """
        whole = self._size + records * size
        if not self._records or whole > self.bytes:
            return False
        self._records += records
        self._size = whole
        return True

    def queued(self, records: int, size: int) -> None:
        """Note that so many records of so many bytes in all were queued."""
        if not self._records:
            self.moved_ms = self._clock.now_ms()
        self._records += records
        self._size += size

    def look(self, left: int) -> None:
        """Update the bound with the number of records in the client's queue.

        What got through tells how slow the link is only if there was more: else the bound returns
        to what it is where nothing is known.
        """
        now = self._clock.now_ms()
        left = min(left, self._records)
        gone = self._size * (1 - left / self._records) if self._records else 0.0
        if left < self._records or not left:
            self.moved_ms = now
        past_ms = now - self._looked_ms
        kept = math.exp(-past_ms / _LATELY_MS)
        self._long = gone + self._long * math.exp(-past_ms / _LATELY_MS / _BURST)
        self._looked_ms, self._records, self._size = now, left, self._size - gone
        self._lately = gone + self._lately * kept
        if self._size < self.bytes * _BUSY_SHARE:
            self._lately += FIRST_BYTES * (1 - kept)
        most = min(self._most, max(FIRST_BYTES, self._long / _BURST))
        self._usual = int(min(max(self._lately, LEAST_BYTES), most))
        self._bind()

    def hurry(self, hurried: bool) -> None:
        """Take whether another member waits for what is queued: then less may be."""
        if hurried != self._hurried:
            self._hurried = hurried
            self._bind()

    def _bind(self) -> None:
        share = HURRIED_SHARE if self._hurried else 1.0
        self.bytes = max(int(self._usual * share), LEAST_BYTES)

    def forget(self) -> None:
        """Note that nothing waits any more."""
        self._records, self._size = 0, 0.0


def mean_size(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers | None] | None,
) -> int:
    """About how many bytes one of these records takes."""
    if len(keys) == 1 and headers is None:
        return OVERHEAD + len(keys[0] or b"") + len(values[0] or b"")
    step = 1 + len(keys) // _SAMPLE
    some = keys[::step]
    size = sum(map(len, filter(None, some))) + sum(map(len, filter(None, values[::step])))
    if headers is not None:
        for own in filter(None, headers[::step]):
            size += sum(len(name) + len(value or b"") for name, value in own)
    return OVERHEAD + size // max(len(some), 1)
