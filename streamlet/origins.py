"""Origins of records in output topics: the header that says where one stems from, and its filter.

A task that goes on after a crash writes what it wrote since its last commit again. With
``to(topic, origin=True)`` a reader can tell: both stem from the same input record. The header
``streamlet.origin`` is text, seven fields with a slash between them::

    topic / partition / source / incarnation / offset / index / previous
    lines/3/9a0c12f4/0/1042/0/1041.0

``topic``, ``partition`` and ``offset`` are those of the input record, ``index`` counts the records
that it became in the same partition of the output topic. ``source`` is another text if the input
topic is deleted and made again; ``incarnation`` grows when positions in it are set back on purpose.
``previous`` is ``offset.index`` of the record before it from the same input partition in the same
output partition, ``-`` for the first one since a commit: a reader that misses that one knows that
its delivery failed, and that both will be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import attrs

from streamlet.absent import explained_in_errors, explains_misuse
from streamlet.arguments import calls_told_by_form, told_by_form
from streamlet.bounded import INT32_MAX, INT64_MAX, whole
from streamlet.errors import WrongTypeError
from streamlet.user_code import shown

ORIGIN_HEADER = "streamlet.origin"

_FIELDS = 7
_DIGITS = 20
_INDEX_MAX = (1 << 20) - 1
_INCARNATION_MAX = (1 << 32) - 1
#: An origin is none so many offsets of its input behind the one before it, or from the start.
FARTHEST = 1 << 32
HIGHEST = 1 << 43
#: Input records between two origins from which on a step is remembered as a leap; how many are.
LEAP = 256
MOST_LEAPS = 4
#: Incarnations of positions that are set back by themselves, s since the epoch: 2014 to 2038. Any
#: other is believed to end an earlier one with its second record only.
INCARNATION_TIMES = range(1_400_000_000, 1 << 31)
_Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
_Place: TypeAlias = tuple[int, int]


@explained_in_errors
@attrs.frozen
class Origin:
    """The place of an output record among all that stem from the same input partition.

    Attributes:
        topic: of the input record.
        partition: of the input record.
        offset: of the input record.
        index: which of the records that it became in this partition of the output topic, from 0.
        source: stands for the input topic as long as that exists.
        incarnation: seconds since the epoch when positions were last set back on purpose, or 0.
        previous: offset and index of the record before; None for the first since a commit.
    """

    topic: str
    partition: int
    offset: int
    index: int
    source: str = ""
    incarnation: int = 0
    previous: tuple[int, int] | None = None

    @classmethod
    def of(cls, record: RecordWithOrigin) -> Origin | None:
        """The origin of a record; None without a header that can be read."""
        return cls.from_headers(record.headers)

    @classmethod
    def from_headers(cls, headers: _Headers | None) -> Origin | None:
        """The origin in the last header of its name; None without one that can be read."""
        for name, value in reversed(headers or ()):
            if name == ORIGIN_HEADER and value is not None:
                return cls._parsed(value)
        return None

    @classmethod
    def _parsed(cls, value: bytes) -> Self | None:
        fields = value.decode("ascii", "replace").split("/")
        if len(fields) != _FIELDS:
            return None
        topic, partition, source, incarnation, offset, index, previous = fields
        try:
            before = None
            if previous != "-":
                of, _, number = previous.partition(".")
                before = _number(of), _number(number, _INDEX_MAX)
            numbers = _number(partition, INT32_MAX), _number(offset), _number(index, _INDEX_MAX)
            return cls(topic, *numbers, source, _number(incarnation, _INCARNATION_MAX), before)
        except ValueError:
            return None


def _number(text: str, most: int = INT64_MAX) -> int:
    if len(text) > _DIGITS or not text.isdigit():
        raise ValueError(f"{shown(text)} is no number")
    return whole(int(text), 0, most)


def origin_headers(
    topic: str, partition: int, source: int, incarnation: int
) -> Callable[[int, int, int, int], tuple[str, bytes]]:
    """A function that makes the headers of records from one input partition.

    Its arguments are offset and index of a record, and of the one before it (-1 for none).
    """
    start = f"{topic}/{partition}/{source:08x}/{incarnation}/"

    def made(offset: int, index: int, before: int, before_index: int) -> tuple[str, bytes]:
        previous = "-" if before < 0 else f"{before}.{before_index}"
        return ORIGIN_HEADER, f"{start}{offset}/{index}/{previous}".encode()

    return made


class RecordWithOrigin(Protocol):
    """A record as a reader of a topic has it; ``streamlet.consumer.Record`` is one."""

    @property
    def topic(self) -> str:
        """The topic that it was read from."""
        ...

    @property
    def partition(self) -> int:
        """Its partition."""
        ...

    @property
    def offset(self) -> int:
        """Its offset."""
        ...

    @property
    def headers(self) -> _Headers | None:
        """Pairs of name and bytes."""
        ...


R = TypeVar("R", bound=RecordWithOrigin)


@attrs.define
class _ReadPartition:
    """One partition of an output topic: the highest origin met of each input partition."""

    next_offset: int
    #: Whether records of an input partition not met yet may have begun before the first one read.
    open: bool
    #: Incarnation and highest place by input partition.
    highest: dict[str, tuple[int, _Place]] = attrs.field(factory=dict)
    #: Input partitions whose next record may follow on one that was not read.
    loose: set[str] = attrs.field(factory=set)

    def skipped(self) -> None:
        """Expect gaps: offsets are missing, since records were deleted or compacted away."""
        self.open = True
        self.loose = set(self.highest)

    #: Steps between which no place was met, by input partition; and incarnations of one record.
    leaps: dict[str, list[tuple[_Place, _Place]]] = attrs.field(factory=dict)
    young: dict[str, tuple[int, _Place]] = attrs.field(factory=dict)

    def takes(self, origin: Origin) -> bool:
        """True for a record that is new, which is noted."""
        key = f"{origin.topic}/{origin.partition}/{origin.source}"
        place = origin.offset, origin.index
        if self._is_young(key, origin):
            self.young[key] = origin.incarnation, place
            return True
        incarnation, high = self.highest.get(key, (-1, None))
        if origin.incarnation < incarnation:
            return False  # a worker that had lost its task wrote it
        if origin.incarnation > incarnation:
            incarnation, high = self.young.pop(key, (origin.incarnation, None))
            self.leaps.pop(key, None)
        if high is not None and place <= high:
            return self._leapt_over(key, place, origin.previous)
        if origin.offset > (HIGHEST if high is None else high[0] + FARTHEST):
            return True  # no record has that origin: it counts as one without
        behind_gap = origin.previous is not None and (high is None or origin.previous > high)
        if behind_gap and not (self.open if high is None else key in self.loose):
            return False
        if high is not None or not self.open:
            self._leap(key, high or (-1, 0), place)
        self.highest[key] = origin.incarnation, place
        self.loose.discard(key)
        return True

    def _is_young(self, key: str, origin: Origin) -> bool:
        """True for the first record of an incarnation that may be forged, and ends none yet."""
        known, young = self.highest.get(key), self.young.get(key)
        return (
            known is not None
            and known[0] < origin.incarnation
            and origin.incarnation not in INCARNATION_TIMES
            and (young is None or young[0] != origin.incarnation)
        )

    def _leap(self, key: str, high: _Place, place: _Place) -> None:
        if place[0] - high[0] > LEAP:
            leaps = self.leaps.setdefault(key, [])
            leaps.append((high, place))
            del leaps[:-MOST_LEAPS]

    def _leapt_over(self, key: str, place: _Place, previous: _Place | None) -> bool:
        """True for a record in a leap that follows on what was met before it: that was forged."""
        for at, (below, above) in enumerate(leaps := self.leaps.get(key, [])):
            if below < place < above and (previous is None or previous <= below):
                leaps[at] = place, above
                return True
        return False


@explains_misuse
@calls_told_by_form
class RepeatFilter:
    """Drops records of output topics that repeat others, by their origins.

    For topics written by ``to(topic, origin=True)``. Of each input partition the highest origin is
    kept for each partition of the output topic. A record that is not higher is a repetition; one
    that follows on a record that is missing comes again behind that one. Both are dropped. Records
    without an origin pass. Records of one partition have to be given in their order.

    Where a reader goes on later, it needs what ``seen`` returned at that point: a repetition of a
    record that a new filter was not given looks new.

    Args:
        seen: as ``seen`` returned it.
    """

    def __init__(self, seen: Mapping[str, Any] | None = None) -> None:
        self._partitions: dict[tuple[str, int], _ReadPartition] = {}
        try:
            for topic, partition, offset, is_open, highest, loose in (seen or {}).get("read", ()):
                places = {key: (one[0], (one[1], one[2])) for key, one in highest.items()}
                self._partitions[topic, partition] = _ReadPartition(
                    offset, is_open, places, set(loose)
                )
        except (AttributeError, IndexError, TypeError, ValueError):
            raise WrongTypeError(
                f"RepeatFilter(seen=) expects what seen() returned, got {shown(seen)}"
            ) from None

    def new(self, records: Iterable[R]) -> Iterator[R]:
        """The records that repeat no other, one by one as they come."""
        for record in records:
            if self.is_new(record):
                yield record

    def is_new(self, record: RecordWithOrigin) -> bool:
        """True if no earlier record had this one's origin; counts the record as read."""
        return self.takes(record.topic, record.partition, record.offset, record.headers)

    def takes(self, topic: str, partition: int, offset: int, headers: _Headers | None) -> bool:
        """Like ``is_new``, for a record in parts."""
        one = self._partitions.get((topic, partition))
        if one is None:
            one = self._partitions[topic, partition] = _ReadPartition(offset, offset > 0)
        if offset > one.next_offset:
            one.skipped()
        one.next_offset = max(one.next_offset, offset + 1)
        origin = Origin.from_headers(headers)
        return origin is None or one.takes(origin)

    def seen(self) -> dict[str, Any]:
        """The state of the filter behind the records given so far, fit for JSON."""
        return {
            "read": [
                [
                    *(topic, partition, one.next_offset, one.open),
                    {key: [number, *place] for key, (number, place) in one.highest.items()},
                    sorted(one.loose),
                ]
                for (topic, partition), one in self._partitions.items()
            ]
        }


@told_by_form
def without_repeats(records: Iterable[R]) -> Iterator[R]:
    """The records of output topics that repeat no other, as ``RepeatFilter`` finds them.

    For records that are read from the beginning of their topic. A reader that goes on where it was
    needs a ``RepeatFilter`` with what it had ``seen``.
    """
    return RepeatFilter().new(records)
