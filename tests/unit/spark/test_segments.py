"""What Spark keeps of a task's state comes back, without what was deleted or has expired."""

from __future__ import annotations

from streamlet.spark.segments import Extent, SegmentLimits, append, read
from streamlet.state.backing import Columns

ROOM = SegmentLimits(change_bytes=1 << 20, changes=100, piece_bytes=64)
#: A new picture with each segment.
CRAMPED = SegmentLimits(change_bytes=1 << 20, changes=0, piece_bytes=64)


class Memory(dict[int, bytes]):
    """Segments in memory."""

    def get(self, number: int) -> bytes:  # type: ignore[override]
        return self[number]

    def put(self, number: int, segment: bytes) -> None:
        self[number] = segment

    def remove(self, number: int) -> None:
        del self[number]


def entries(medium: Memory, extent: Extent) -> dict[bytes, bytes | None]:
    return {
        k: v for part in read(medium, extent) for k, v in zip(part.keys, part.values, strict=True)
    }


def test_a_deleted_entry_does_not_come_back() -> None:
    medium, extent = Memory(), Extent()
    extent = append(medium, extent, [Columns("s", [b"a", b"b"], [b"1", b"2"])], ROOM)
    extent = append(medium, extent, [Columns("s", [b"a"], [None])], ROOM)
    assert entries(medium, extent) == {b"b": b"2"}


def test_expired_entries_are_gone_and_take_no_room_in_the_next_picture() -> None:
    for limits in (ROOM, CRAMPED):
        medium, extent = Memory(), Extent()
        for time in range(50):
            expired = (b"\x00", bytes([time])) if time else None
            columns = Columns("w", [b"", bytes([time])], [b"progress", b"x" * 20], expired)
            extent = append(medium, extent, [columns], limits)
        assert entries(medium, extent) == {b"": b"progress", b"\x31": b"x" * 20}
        if limits is CRAMPED:
            assert sum(map(len, medium.values())) < 200
