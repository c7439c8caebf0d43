"""The store of records that found no match in a left or outer join, and may yet find one.

A row has the records of one time, side and key. Rows are ordered by time, the right side's before
the left side's, then by the bytes of the key, as Kafka Streams orders them. An index of the keys is
in memory while the store is used: to find out that nothing waits takes no read.

The join's stream time, and the time from which it looks for results (``least``), go with the rows.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, TypeAlias

from streamlet.serdes import Serde, serde
from streamlet.serdes.serde import build_rows
from streamlet.state.backing import Backing
from streamlet.state.rows import NO_TIME
from streamlet.state.store import CachedStore
from streamlet.state.store_parts import Steps
from streamlet.state.store_times import StoreTimes, StoreWithTimes
from streamlet.state.unreadable import rows_of_store
from streamlet.state.window_rows import FIRST_KEY, row_keys

RIGHT, LEFT = b"\x00", b"\x01"
#: The place of a row: its time, and the byte of its side in front of the bytes of its key.
Place: TypeAlias = tuple[int, bytes]

_LENGTH = struct.Struct(">I")
_TIME = struct.Struct(">q")


def unmatched_rows(left: Serde[Any], right: Serde[Any]) -> Serde[tuple[bytes, list[Any]]]:
    """The serde of rows, ``(side, values)``, for the values of both sides."""
    of = {LEFT: left, RIGHT: right}

    def encode_all(rows: list[tuple[bytes, list[Any]]]) -> list[bytes]:
        raws: dict[bytes, Iterator[Any]] = {
            side: iter(serde.encode_rows([v for own, vs in rows if own == side for v in vs]))
            for side, serde in of.items()
        }
        pack = _LENGTH.pack
        return [
            side + b"".join([pack(len(raw)) + raw for _, raw in zip(values, raws[side])])  # noqa: B905
            for side, values in rows
        ]

    def decode(raw: bytes) -> tuple[bytes, list[Any]]:
        side, at, values = raw[:1], 1, []
        while at < len(raw):
            (length,) = _LENGTH.unpack_from(raw, at)
            at += _LENGTH.size
            values.append(of[side].decode(raw[at : at + length]))
            at += length
        return side, values

    name = f"unmatched {left.name} and {right.name}"
    return build_rows(name, encode_all, decode, tuple)


class _Order:
    """The places of one side, in order."""

    def __init__(self) -> None:
        #: Times in order; some may have no places any more.
        self._times: list[int] = []
        self._raws: dict[int, set[bytes]] = {}

    def __contains__(self, place: Place) -> bool:
        return place[1] in self._raws.get(place[0], ())

    def add(self, time: int, raw: bytes) -> None:
        """Add a place, if it is not there."""
        raws = self._raws.get(time)
        if raws is not None:
            raws.add(raw)
            return
        self._raws[time] = {raw}
        times = self._times
        if not times or times[-1] < time:
            times.append(time)
            return
        at = bisect_left(times, time)
        if times[at] != time:
            times.insert(at, time)

    def remove(self, time: int, raw: bytes) -> None:
        """Remove a place that is there."""
        raws = self._raws[time]
        raws.discard(raw)
        if not raws:
            del self._raws[time]

    def take_before(self, time: int) -> list[Place]:
        """Remove and return the places before a time."""
        end = bisect_left(self._times, time)
        gone = self._times[:end]
        del self._times[:end]
        return [(one, raw) for one in gone for raw in self._raws.pop(one, ())]

    def first(self, above: Place | None = None) -> Place | None:
        """The first place, or the first one above another; None: there is none."""
        at = 0
        if above is not None:
            at = bisect_left(self._times, above[0])
            if at < len(self._times) and self._times[at] == above[0]:
                rest = [raw for raw in self._raws.get(above[0], ()) if raw > above[1]]
                if rest:
                    return above[0], min(rest)
                at += 1
        end = at
        while end < len(self._times) and self._times[end] not in self._raws:
            end += 1
        del self._times[at:end]
        return (self._times[at], min(self._raws[self._times[at]])) if self._times[at:] else None

    def last_time(self) -> int:
        """The time of the last place; -1: there is none."""
        while self._times and self._times[-1] not in self._raws:
            self._times.pop()
        return self._times[-1] if self._times else NO_TIME


class UnmatchedStore(StoreWithTimes):
    """A store of records of both sides of a join that wait.

    Args:
        name: of the store.
        value: serde of the rows (``unmatched_rows``).
        backing: where the bytes are.
    """

    def __init__(self, name: str, value: Serde[Any], backing: Backing) -> None:
        self.name = name
        self.times = times = StoreTimes(name, backing)
        steps = Steps(
            forgotten=self._forgotten,
            left=times.left,
            check_invariants=self._check_invariants,
        )
        keys = row_keys(serde(bytes))
        self.rows = CachedStore(name, keys, value, backing, times, (steps,), times.is_new)
        self.commits, self.load, self.advance = self.rows.commits, self.rows.load, times.advance
        self._sides: dict[bytes, _Order] | None = None  # None: not read yet
        self._least: int | None = None
        #: The latest time of a record that waited.
        self._highest = NO_TIME
        #: Clock time, ms, at which the join looks for results next, if it does once an interval;
        #: None: it has not begun. It goes with no row: an owner begins with an interval.
        self.look_ms: int | None = None

    @property
    def sides(self) -> dict[bytes, _Order]:
        """The order of each side."""
        return self._read() if self._sides is None else self._sides

    def _read(self) -> dict[bytes, _Order]:
        """Make the index of what the store has; values are not looked at."""
        sides = {LEFT: _Order(), RIGHT: _Order()}
        with rows_of_store(self.name):
            for key, _ in self.commits.backing.scan(FIRST_KEY, None):
                time, raw = self.commits.key.decode(key)
                sides[raw[:1]].add(time, raw)
        for place in (*self.commits.pinned, *self.commits.dirty):
            order = sides[place[1][:1]]
            if self.rows.cache[place] is not None:
                order.add(*place)
            elif place in order:
                order.remove(*place)
        self._highest, noted = self.progress.highest, self.progress.emitted
        self._least = _TIME.unpack_from(noted)[0] if noted else None
        self._sides = sides
        return sides

    @property
    def least(self) -> int | None:
        """The time by which the join tells that results may have come due; None: nothing waits."""
        if self._sides is None:
            self._read()
        return self._least

    def note(self, observed: int) -> None:
        """Raise the stream time, and keep it with ``least``."""
        least = self.least
        self.advance(observed, self._highest, b"" if least is None else _TIME.pack(least))

    def wait(self, time: int, raw: bytes, value: Any) -> None:
        """Add a record to the row of its time and its key with the side in front."""
        place, side, least = (time, raw), raw[:1], self.least
        order = self.sides[side]
        row = self.load(place) if place in order else None
        self.rows.cache[place] = (side, [value] if row is None else [*row[1], value])
        self.rows.dirty[place] = time
        order.add(time, raw)
        if time > self._highest:
            self._highest = self.commits.latest = time
        if least is None or time < least:
            self._least = time

    def matched(self, time: int, raw: bytes) -> None:
        """Remove the records of a time and key, which wait no more, if there are any."""
        order = self.sides[raw[:1]]
        if (time, raw) in order:
            order.remove(time, raw)
            self.rows.erase((time, raw))

    def close(self, left_before: int, right_before: int) -> list[Place]:
        """The rows of each side before a time, in order; ``take`` them.

        ``least`` becomes the time of the row at which Kafka Streams stops looking: the one behind
        the first that stays on either side, or the last of all.
        """
        left, right = self.sides[LEFT], self.sides[RIGHT]
        last = max(left.last_time(), right.last_time())
        places = sorted(left.take_before(left_before) + right.take_before(right_before))
        stays = left.first(), right.first()
        if stays[0] is None or stays[1] is None:
            self._least = None if last == NO_TIME else last
        else:
            self._least = self._behind(max(stays[0], stays[1]))
        return places

    def take(self, places: list[Place]) -> list[list[Any]]:
        """Delete rows that were closed; their values."""
        self.rows.load_many(places)
        found = [self.rows.cache[place][1] for place in places]
        for place in places:
            self.rows.erase(place)
        return found

    def _behind(self, place: Place) -> int:
        """The time of the record behind the first one of a row."""
        row = self.load(place)
        assert row is not None
        if len(row[1]) > 1:
            return place[0]
        nexts = [order.first(place) for order in self.sides.values()]
        return min((one[0] for one in nexts if one is not None), default=place[0])

    # The way for all stores.

    def range(self, low: Any | None = None, high: Any | None = None) -> Iterator[tuple[Any, Any]]:
        """The bytes of side and key of each row, with its values, in order."""
        return ((raw, row[1]) for (_, raw), row, _ in self.commits.scan(FIRST_KEY, None))

    # Commits.

    def _forgotten(self) -> None:
        self._sides, self._least, self._highest = None, None, NO_TIME

    def _check_invariants(self) -> None:
        places = [place for place, _, _ in self.commits.scan(FIRST_KEY, None)]
        for side, order in self.sides.items():
            wanted = [one for one in places if one[1][:1] == side]
            found, place = [], order.first()
            while place is not None:
                found.append(place)
                place = order.first(place)
            assert found == wanted, "the index is not that of the rows"
