"""The format of changelog records, and the rules which of them a reader may believe.

A record's value is two varints, the epoch and the commit number of its writer, and then the row
(``state.rows``); a tombstone has no row to put them in front of and bears them in the header ``s``.
All records of one flush belong to one commit and so share one prefix. The second varint has one
byte of zero more than it needs. In records of versions whose rows bore no times it has not.

Under at_least_once the broker fences no producer, so a changelog holds records that must not
count:

- A process that lost its task may still write. Its epoch is below that of its successor, and a
  reader skips every record below the highest epoch it met.
- A process that dies between its flush and its commit leaves records whose input will be read
  again. Their number is beyond that of the last commit, and a reader that starts from a commit
  skips them.

A skipped record may be the only one that compaction leaves of its key. The reader therefore keeps
the keys it skipped, and the next owner writes them again, from its store, with its first flush.

A program that may write to the topic may write any number. An epoch far beyond the newest one known
has had no owner: such a record is skipped and named, and outdates no other. One that is just beyond
the commit's claim outdates none either, where the commit is known. One without numbers is skipped
and named as well, unless no claim is known: then the whole log may be another program's. Most texts
read as two numbers; they lack the zero, which only epochs up to the claim may do.

Pure: no store, no client, no clock.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from streamlet.errors import StateError
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.state.epochs import EpochBound, EpochBoundaries
from streamlet.state.log_numbers import add_varint
from streamlet.state.rows import untimed
from streamlet.types import NO_STATE, StateNumber

#: Header of a tombstone; its value is the prefix that other records have before their value.
NUMBER_HEADER = "s"

_FIRST_RUN = 512
_SHORTEST_RUN = 16
_LONGEST_VARINT = 10


def prefix_of(state: StateNumber) -> bytes:
    """Both numbers as varints: seven bits a byte, lowest first, the high bit set if more follow.

    The last byte is zero: rows behind it bear times.
    """
    out = bytearray()
    for number in state:
        assert number >= 0, state
        add_varint(out, number)
    out[-1] |= 0x80
    out.append(0)
    return bytes(out)


def encode_column(
    state: StateNumber, rows: Sequence[bytes | None]
) -> tuple[list[bytes | None], list[Headers | None] | None]:
    """Rows as values of changelog records of commit ``state``, and their headers.

    The headers are None if there is no tombstone (None) among the rows.
    """
    prefix = prefix_of(state)
    if None not in rows:
        return [prefix + row for row in rows], None  # type: ignore[operator]
    mark: Headers = ((NUMBER_HEADER, prefix),)
    return (
        [None if row is None else prefix + row for row in rows],
        [mark if row is None else None for row in rows],
    )


def decode(value: bytes | None, headers: Headers | None) -> tuple[StateNumber, bytes | None]:
    """Number and row of one record.

    Raises:
        ValueError: the record was not written by ``encode_column``.
    """
    if value is None:
        mark = _mark_of(headers)
        return _number_of(mark)[0], None
    state, length = _number_of(value)
    return state, _stripped([value], value[:length])[0]


def _mark_of(headers: Headers | None) -> bytes:
    for name, mark in headers or ():
        if name == NUMBER_HEADER and mark is not None:
            return mark
    raise ValueError(f"a tombstone without the header {NUMBER_HEADER!r}")


def _number_of(data: bytes) -> tuple[StateNumber, int]:
    """The two varints at the start of the bytes, and how long they are together."""
    epoch, at = _varint(data, 0)
    number, at = _varint(data, at)
    return StateNumber(epoch, number), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = 0
    for i, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        result |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return result, at + i + 1
    raise ValueError("no epoch and commit number before the value")


class RecordReader(ABC):
    """Turns records of one changelog partition, in order, into entries for a store.

    Attributes:
        highest: highest epoch met.
        newest: highest number that was let through.
        beyond: highest number met that the commit to start from does not contain.
        skipped: keys whose last record was skipped, with that record's offset, in the order of
            offsets.

    Args:
        highest: highest epoch met before the position that reading starts from.
    """

    def __init__(self, highest: int = 0) -> None:
        self.highest = highest
        self.newest = self.beyond = NO_STATE
        self.skipped: dict[bytes, int] = {}
        self._rises = EpochBoundaries(highest)

    @abstractmethod
    def read(self, batch: PartitionBatch) -> tuple[list[bytes], list[bytes | None]]:
        """Keys and rows (None: delete) to apply, in order. Tombstones need their headers.

        Raises:
            StateError: a record that streamlet did not write, and no commit is known.
        """

    def position(self, position: int) -> int:
        """The position that may be written down when everything before ``position`` was read.

        It is not past the first record of ``skipped``. Were it written down further on, a crash
        would forget which keys are to be written again, and a later restore from zero, on a host
        that never saw them skipped, could find nothing but the skipped record of such a key.
        """
        return min(position, next(iter(self.skipped.values()), position))

    def epoch_before(self, position: int) -> int:
        """Highest epoch met before a position: what may be written down beside it."""
        return self._rises.before(position)


class ChangelogReader(RecordReader):
    """Reads one partition of a changelog that streamlet writes.

    Args:
        name: the partition, for messages.
        limit: apply records up to this number: the state of the commit that the reader starts from.
            None applies all: there is no commit yet.
        highest: highest epoch met before the position that reading starts from.
        claimed: the epoch of the newest claim; 0: not known.
    """

    def __init__(
        self, name: str, limit: StateNumber | None, highest: int = 0, claimed: int = 0
    ) -> None:
        super().__init__(highest)
        self._name = name
        self._limit = limit
        self._bound = EpochBound(name, claimed)
        #: The highest epoch met that an owner claimed, as far as known: what is below is outdated.
        self._last = math.inf if limit is None else max(claimed, limit.epoch)
        self._valid = min(highest, self._last)

    def read(self, batch: PartitionBatch) -> tuple[list[bytes], list[bytes | None]]:
        """Keys and rows to apply, in order."""
        out_keys: list[bytes] = []
        out_values: list[bytes | None] = []
        for run in runs(self._name, batch):
            if self._accepts(run):
                out_keys += run.keys
                out_values += run.values
                forget(self.skipped, run.keys, run.offsets)
            else:
                remember(self.skipped, run.keys, run.offsets)
        return out_keys, out_values

    def _accepts(self, run: RecordRun) -> bool:
        state = run.state
        if not self._bound.holds(run, self.highest):
            return False
        self._rises.note(state.epoch, run.offsets[0])
        self.highest = max(self.highest, state.epoch)
        if state.epoch < self._valid:
            return False
        if state.epoch <= self._last:
            self._valid = state.epoch
        if self._limit is not None and state > self._limit:
            self.beyond = max(self.beyond, state)
            return False
        self.newest = max(self.newest, state)
        return True


class RecordRun(NamedTuple):
    """Neighbouring records of one number, or one that streamlet did not write."""

    state: StateNumber
    keys: list[bytes]
    values: list[bytes | None]  # rows
    offsets: Sequence[int]
    flaw: str = ""  # what says that it is not streamlet's; such a record may lack a key
    timed: bool = True  # rows bear times: no version writes others any more


def runs(name: str, batch: PartitionBatch) -> Iterator[RecordRun]:
    """Records by runs of one number, in order.

    Those of one flush are neighbours and share their prefix. How long a run is, is found by
    doubling: it costs twice its length at most.
    """
    offsets, keys, values = batch.offsets, batch.keys, batch.values
    start, guess = 0, _FIRST_RUN
    while start < len(keys):
        try:
            state, prefix = number_at(name, start, batch)
        except StateError as error:
            key, at = keys[start], offsets[start : start + 1]
            yield RecordRun(NO_STATE, [] if key is None else [key], [], at, str(error))
            start += 1
            continue
        stop = min(start + guess, len(keys))
        heads = _heads(batch, start, stop, len(prefix))
        length = stop - start
        if heads.count(prefix) != length:
            length = next(i for i, head in enumerate(heads) if head != prefix)
            stop = start + length
        guess = max(_SHORTEST_RUN, 2 * length)
        run = keys[start:stop]
        if None in run:  # the next run begins with it
            stop = start + run.index(None)
            run = keys[start:stop]
        stripped = _stripped(values[start:stop], prefix)
        at = offsets[start:stop]
        timed = is_timed(prefix)
        yield RecordRun(state, list(run), stripped, at, timed=timed)  # type: ignore[arg-type]
        start = stop


def number_at(name: str, i: int, batch: PartitionBatch) -> tuple[StateNumber, bytes]:
    """Number of the record in row ``i``, and its bytes; StateError: it is not streamlet's."""
    value, headers = batch.values[i], batch.headers
    try:
        if batch.keys[i] is None:
            raise ValueError("no key")
        data = _mark_of(headers[i] if headers else None) if value is None else value
        state, length = _number_of(data)
        if value is None and length < len(data):
            raise ValueError(f"a tombstone with more than its number in {NUMBER_HEADER!r}")
    except ValueError as error:
        raise StateError(
            f"{name}: the record at offset {batch.offsets[i]} is not streamlet's: {error}"
        ) from error
    return state, data[:length]


def _stripped(values: Sequence[bytes | None], prefix: bytes) -> list[bytes | None]:
    """The rows of records with this prefix."""
    length = len(prefix)
    if None in values:
        rows = [None if value is None else value[length:] for value in values]
    else:
        rows = [value[length:] for value in values]  # type: ignore[index]
    return rows if is_timed(prefix) else untimed(rows)


def is_timed(prefix: bytes) -> bool:
    """True if rows behind these numbers bear times, as those of ``prefix_of`` do."""
    return len(prefix) > 1 and prefix[-1] == 0 and prefix[-2] > 0x7F


def remember(skipped: dict[bytes, int], keys: Sequence[bytes], offsets: Sequence[int]) -> None:
    """Note keys whose last record was skipped, at the end of the order."""
    for key, offset in zip(keys, offsets, strict=False):  # one that is not ours may lack a key
        skipped.pop(key, None)
        skipped[key] = offset


def forget(skipped: dict[bytes, int], keys: Sequence[bytes], offsets: Sequence[int]) -> None:
    """A good record behind a skipped one is the last of its key again."""
    if skipped:
        for key, offset in zip(keys, offsets, strict=True):
            if skipped.get(key, offset) < offset:
                del skipped[key]


def _heads(batch: PartitionBatch, start: int, stop: int, length: int) -> list[bytes]:
    """The bytes where a prefix of this length would be; of a tombstone its whole header."""
    run, headers = batch.values[start:stop], batch.headers
    if None not in run:
        return [value[:length] for value in run]  # type: ignore[index]
    if headers is None:
        return [b"" if value is None else value[:length] for value in run]
    return [
        _mark_or_nothing(header) if value is None else value[:length]
        for value, header in zip(run, headers[start:stop], strict=True)
    ]


def _mark_or_nothing(headers: Headers | None) -> bytes:
    """The mark, or bytes that are no prefix: the record then ends the run and comes first next."""
    try:
        return _mark_of(headers)
    except ValueError:
        return b""
