"""Merges the rows that several senders have for one task, in the order of their records' times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from streamlet.spark.rows.blobs import Records, unpack
from streamlet.spark.rows.packing import Packed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def merged_by_row(rows: Iterable[Packed]) -> Iterator[tuple[Packed, Records]]:
    """Rows in their senders' order, senders merged by the time of the next row's first record.

    They may arrive in any order: a sort that spills to disk mixes them.
    """
    for row in in_order(rows):
        yield row, unpack(row.records)


def in_order(rows: Iterable[Packed]) -> Iterator[Packed]:
    """The order of ``merged_by_row``."""
    senders = _by_sender(rows)
    heads = [(queue[0].time, sender) for sender, queue in senders.items()]
    heapify(heads)
    while heads:
        sender = heads[0][1]
        queue = senders[sender]
        yield queue.popleft()
        if queue:
            heapreplace(heads, (queue[0].time, sender))
        else:
            heappop(heads)


def merged_by_record(rows: Iterable[Packed]) -> Iterator[tuple[Packed, Records]]:
    """The records of each topic in their senders' order, senders merged by each record's time.

    Topics come one after the other. A row is some thousands of records; of each sender one row is
    unpacked at a time.
    """
    topics: dict[str, list[Packed]] = {}
    for row in rows:
        topics.setdefault(row.topic, []).append(row)
    for some in topics.values():
        for records in _merged(_by_sender(some)):
            yield some[0], records


def _by_sender(rows: Iterable[Packed]) -> Mapping[str, deque[Packed]]:
    """The rows of each sender, in its order."""
    senders: dict[str, deque[Packed]] = {}
    for row in sorted(rows, key=lambda row: (row.first, row.part)):
        senders.setdefault(row.sender, deque()).append(row)
    return senders


def _merged(senders: Mapping[str, deque[Packed]]) -> Iterator[Records]:
    """Records up to the time at which the first of the senders' rows ends, again and again."""
    heads = [_Head(queue) for queue in senders.values()]
    while heads:
        if len(heads) == 1:
            yield heads[0].rest()
        else:
            until = min(head.last for head in heads)
            yield _together([part for head in heads if (part := head.taken(until))])
        heads = [head for head in heads if head.there()]


class _Head:
    """The row of a sender that is next, unpacked, as far as it was not taken.

    A record that is older than one before it goes with that one.
    """

    def __init__(self, rows: deque[Packed]) -> None:
        self._rows = rows
        self._at = 0
        self._records, self._times = _unpacked(rows.popleft())

    @property
    def last(self) -> int:
        """The time with which the row ends."""
        return int(self._times[-1])

    def there(self) -> bool:
        """Go on to the next row where this one is used up; False if there is none."""
        if self._at < len(self._times):
            return True
        if not self._rows:
            return False
        newest, self._at = self.last, 0
        self._records, self._times = _unpacked(self._rows.popleft(), newest)
        return True

    def rest(self) -> Records:
        """The part of the row that was not taken."""
        return self._part(len(self._times))[0]

    def taken(self, until: int) -> tuple[Records, NDArray[np.int64]] | None:
        """The records up to a time (inclusive), with their times in the order; None if none."""
        import numpy as np

        end = int(np.searchsorted(self._times, until, side="right"))
        return self._part(end) if end > self._at else None

    def _part(self, end: int) -> tuple[Records, NDArray[np.int64]]:
        begin, self._at = self._at, end
        if begin == 0 and end == len(self._times):
            return self._records, self._times
        records = self._records
        columns = (records.keys, records.values, records.timestamps)
        part = Records(*(column[begin:end] for column in columns))  # type: ignore[arg-type]
        if records.first is not None:
            part.first = records.first + begin
        if records.offsets is not None:
            part.offsets = records.offsets[begin:end]
        return part, self._times[begin:end]


def _unpacked(row: Packed, newest: int | None = None) -> tuple[Records, NDArray[np.int64]]:
    """The records of a row, and for each the newest time up to it, behind those of ``newest``."""
    import numpy as np

    records = unpack(row.records)
    times = np.maximum.accumulate(np.array(records.timestamps, np.int64))
    return records, times if newest is None else np.maximum(times, newest)


def _together(parts: Sequence[tuple[Records, NDArray[np.int64]]]) -> Records:
    """Records of several senders by time; of one time, those of the first sender come first."""
    import numpy as np

    if len(parts) == 1:
        return parts[0][0]
    order = np.argsort(np.concatenate([times for _, times in parts]), kind="stable").tolist()
    keys = [key for records, _ in parts for key in records.keys]
    values = [value for records, _ in parts for value in records.values]
    timestamps = [time for records, _ in parts for time in records.timestamps]
    return Records(
        [keys[at] for at in order],
        [values[at] for at in order],
        [timestamps[at] for at in order],
    )
