"""A task's state as Spark keeps it: packed changes of one batch each, and now and then all of it.

Spark asks some tens of microseconds per entry read or written, whatever its size: few big values
instead of many small ones. Segments are numbered; the oldest hold a whole picture, the later ones
changes. When the changes have outgrown the picture, all are read back and become a new picture, so
that state grows with the keys, never with the batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import attrs
import msgspec

from streamlet.state.backing import Columns


class Medium(Protocol):
    """The medium of segments; all that is done in one batch counts, or nothing."""

    def get(self, number: int) -> bytes:
        """A segment that was put."""
        ...

    def put(self, number: int, segment: bytes) -> None:
        """Keep a segment."""
        ...

    def remove(self, number: int) -> None:
        """Drop a segment."""
        ...


class Extent(msgspec.Struct, array_like=True, frozen=True):
    """The extent of segments: ``start`` to ``end`` (exclusive), and how much is in them."""

    start: int = 0
    end: int = 0
    picture_bytes: int = 0
    change_bytes: int = 0
    changes: int = 0


@attrs.frozen
class SegmentLimits:
    """The limits at which a new picture is drawn, and the size of its pieces, bytes."""

    #: Changes may take as much as the picture, and always this much.
    change_bytes: int = 1 << 20
    #: More segments than this make reading slow, however small they are.
    changes: int = 100
    piece_bytes: int = 4 << 20


#: The form of rows in segments; 2: they bear times (``state.rows``).
ROWS = b"2"

#: Per store its name, keys, values, and the range of keys that has expired.
_Stores = list[tuple[str, list[bytes], list[bytes | None], tuple[bytes, bytes] | None]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stores).decode


def read(medium: Medium, extent: Extent) -> list[Columns]:
    """The state: every store's entries, each key once, none deleted."""
    stores: dict[str, dict[bytes, bytes | None]] = {}
    expired: dict[str, tuple[bytes, bytes]] = {}
    for number in range(extent.start, extent.end):
        for store, keys, values, gone in _decode(medium.get(number)):
            stores.setdefault(store, {}).update(zip(keys, values, strict=True))
            if gone is not None:  # nothing is put there any more, so the ranges are one
                low, high = expired.get(store, gone)
                expired[store] = min(low, gone[0]), max(high, gone[1])
    found = []
    for store, entries in sorted(stores.items()):
        low, high = expired.get(store, (b"", b""))
        kept = {
            key: value
            for key, value in entries.items()
            if value is not None and not low <= key < high
        }
        found.append(Columns(store, list(kept), list(kept.values())))
    return found


def append(
    medium: Medium, extent: Extent, changed: Sequence[Columns], limits: SegmentLimits
) -> Extent:
    """Keep one batch's changes; what there is then."""
    if not changed:
        return extent
    segment = _encode([(part.store, part.keys, part.values, part.expired) for part in changed])
    medium.put(extent.end, segment)
    now = Extent(
        extent.start,
        extent.end + 1,
        extent.picture_bytes,
        extent.change_bytes + len(segment),
        extent.changes + 1,
    )
    if now.change_bytes > max(now.picture_bytes, limits.change_bytes) or (
        now.changes > limits.changes
    ):
        return _picture(medium, now, limits)
    return now


def _picture(medium: Medium, extent: Extent, limits: SegmentLimits) -> Extent:
    """Put all state behind what is there, and drop what is there."""
    end, size = extent.end, 0
    for piece in _pieces(read(medium, extent), limits.piece_bytes):
        segment = _encode([(piece.store, piece.keys, piece.values, None)])
        medium.put(end, segment)
        end, size = end + 1, size + len(segment)
    for number in range(extent.start, extent.end):
        medium.remove(number)
    return Extent(extent.end, end, size)


def _pieces(columns: Sequence[Columns], most: int) -> Iterator[Columns]:
    for part in columns:
        start, size = 0, 0
        for at, (key, value) in enumerate(zip(part.keys, part.values, strict=True)):
            size += len(key) + len(value or b"")
            if size >= most:
                yield Columns(part.store, part.keys[start : at + 1], part.values[start : at + 1])
                start, size = at + 1, 0
        if start < len(part.keys):
            yield Columns(part.store, part.keys[start:], part.values[start:])
