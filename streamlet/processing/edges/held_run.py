"""Records of one writer and one commit that are held together, in columns of bytes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, islice
from operator import ge, itemgetter

import attrs

from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.edges.held_records import HEAD_BYTES, MARK, Head, read_head, split_markers

_HEAD_OF = itemgetter(slice(HEAD_BYTES))


@attrs.define(eq=False)
class HeldRun:
    """Records in the order of the topic that one writer wrote for one commit, in columns.

    Those that do not wait have ``writer`` -1, and no sequences. ``done`` of them were processed;
    ``first`` is the place of the first one, once they are released.
    """

    writer: int
    period: int
    number: int
    since_ms: int
    sequences: list[int]
    offsets: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: list[int]
    headers: list[Headers | None] | None = None
    unreadable: dict[int, str] = attrs.field(factory=dict)
    places: Sequence[int] = ()
    done: int = 0
    decided: bool = False

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def of(
        cls,
        head: Head,
        raw: PartitionBatch,
        sequences: Sequence[int],
        values: list[bytes | None],
        now_ms: int,
    ) -> HeldRun:
        """The records of a batch that have this head."""
        unreadable = {}
        if raw.unreadable:
            unreadable = {at: raw.unreadable[at] for at in raw.offsets if at in raw.unreadable}
        return cls(
            *(head.writer, head.period, head.number, now_ms),
            list(sequences),
            list(raw.offsets),
            raw.keys,
            values,
            raw.timestamps,
            raw.headers,
            unreadable,
        )

    def behind(self, sequence: int) -> None:
        """Leave out the records up to this sequence."""
        count = bisect_right(self.sequences, sequence)
        if not count:
            return
        self.sequences, self.offsets = self.sequences[count:], self.offsets[count:]
        self.keys, self.values = self.keys[count:], self.values[count:]
        self.timestamps = self.timestamps[count:]
        self.headers = None if self.headers is None else self.headers[count:]

    def ascend(self) -> None:
        """Leave out records whose sequence is not above those before: they came twice."""
        if not any(map(ge, self.sequences, islice(self.sequences, 1, None))):
            return
        highest = accumulate(self.sequences, max, initial=-1)
        pairs = zip(self.sequences, highest, strict=False)
        rows = [at for at, (one, high) in enumerate(pairs) if one > high]
        self.sequences = [self.sequences[at] for at in rows]
        self.offsets = [self.offsets[at] for at in rows]
        self.keys = [self.keys[at] for at in rows]
        self.values = [self.values[at] for at in rows]
        self.timestamps = [self.timestamps[at] for at in rows]
        self.headers = self.headers and [self.headers[at] for at in rows]

    def goes_on_with(self, more: HeldRun) -> bool:
        """True if those are further records of the same commit."""
        same = (self.period, self.number) == (more.period, more.number)
        return same and self.sequences[-1] < more.sequences[0]

    def extend(self, more: HeldRun) -> None:
        """Append records of the same commit."""
        if self.headers is not None or more.headers is not None:
            ours = self.headers or [None] * len(self)
            self.headers = [*ours, *(more.headers or [None] * len(more))]
        self.sequences += more.sequences
        self.offsets += more.offsets
        self.keys += more.keys
        self.values += more.values
        self.timestamps += more.timestamps
        self.unreadable |= more.unreadable


def waits(value: bytes | None) -> bool:
    """True for a record that waits, and for a marker."""
    return value is not None and value.startswith(MARK)


def runs_of(raw: PartitionBatch) -> Iterator[tuple[Head | None, int, int]]:
    """Runs of records with the same head, with their first index and the one behind; or None."""
    start = plain = 0
    values = raw.values if all(raw.values) else [value or b"" for value in raw.values]
    for data, run in groupby(map(_HEAD_OF, values)):  # type: ignore[arg-type]
        end = start + plain + len([*run])
        if not data.startswith(MARK) or len(data) < HEAD_BYTES:
            plain = end - start
            continue
        if plain:
            yield None, start, start + plain
            start, plain = start + plain, 0
        yield read_head(data), start, end
        start = end
    if plain:
        yield None, start, start + plain


def markers_of(raw: PartitionBatch) -> Iterator[tuple[Head, PartitionBatch]]:
    """The markers of records that begin with one, each with a batch of its own."""
    for at, value in enumerate(raw.values):
        whole = raw.slice(at, at + 1)
        for marker in split_markers(value or b""):
            yield read_head(marker[:HEAD_BYTES]), attrs.evolve(whole, values=[marker])
