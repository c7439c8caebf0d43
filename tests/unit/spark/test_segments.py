"""Rows in Spark's state come back as a dict would hold them, and cost what is asked for."""

from __future__ import annotations

import random

import pytest

from streamlet.spark.state.segments import Extent, SegmentLimits, Segments
from streamlet.state.backing import Columns

ROOM = SegmentLimits()
#: Runs are merged with each change.
CRAMPED = SegmentLimits(merge_bytes=0, small_runs=1, block_bytes=64)
SMALL = SegmentLimits(merge_bytes=200, small_runs=4, block_bytes=150)


class Memory(dict[int, bytes]):
    """Segments in memory, and how much was read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.read = self.written = self.entries = 0

    def get(self, number: int) -> bytes:  # type: ignore[override]
        self.read += len(self[number])
        self.entries += 1
        return self[number]

    def put(self, number: int, segment: bytes) -> None:
        assert number not in self
        self.written += len(segment)
        self[number] = segment

    def remove(self, number: int) -> None:
        del self[number]


def entries(medium: Memory, extent: Extent, store: str) -> dict[bytes, bytes]:
    return dict(Segments(medium, extent, ROOM).scan(store, None, None))


def test_a_deleted_entry_does_not_come_back() -> None:
    medium = Memory()
    segments = Segments(medium, Extent(), ROOM)
    segments.append([Columns("s", [b"b", b"a"], [b"2", b"1"])])
    segments.append([Columns("s", [b"a"], [None])])
    assert entries(medium, segments.extent, "s") == {b"b": b"2"}
    assert segments.get("s", b"a") is None


def test_expired_entries_are_gone_and_take_no_room_after_a_merge() -> None:
    for limits in (ROOM, CRAMPED):
        medium = Memory()
        segments = Segments(medium, Extent(), limits)
        for time in range(50):
            expired = (b"\x00", bytes([time])) if time else None
            columns = Columns("w", [b"", bytes([time])], [b"progress", b"x" * 20], expired)
            segments.append([columns])
        assert entries(medium, segments.extent, "w") == {b"": b"progress", b"\x31": b"x" * 20}
        assert segments.get("w", b"\x05") is None
        if limits is CRAMPED:
            assert sum(map(len, medium.values())) < 300


@pytest.mark.parametrize("limits", [SMALL, CRAMPED])
def test_random_changes_read_back_as_what_dicts_would_hold(limits: SegmentLimits) -> None:
    """By a process that has its caches and by one that begins; nothing else is left behind."""
    dice, medium = random.Random(7), Memory()
    segments = Segments(medium, Extent(), limits, phase=0.4)
    wanted: dict[str, dict[bytes, bytes]] = {"a": {}, "b": {}}
    for _ in range(200):
        changed = []
        for store in dice.sample(["a", "b"], dice.randint(0, 2)):
            keys = [b"%02d" % n for n in dice.sample(range(40), dice.randint(1, 6))]
            values = [dice.choice([None, dice.randbytes(dice.randint(0, 60))]) for _ in keys]
            changed.append(Columns(store, keys, values))
            for key, value in zip(keys, values, strict=True):
                wanted[store].pop(key, None)
                if value is not None:
                    wanted[store][key] = value
        segments.append(changed)
        other = Segments(medium, segments.extent, limits)
        low, high = sorted(b"%02d" % dice.randrange(40) for _ in range(2))
        for store, rows in wanted.items():
            for reader in (segments, other):
                for key in (b"%02d" % n for n in range(40)):
                    assert reader.get(store, key) == rows.get(key)
                some = sorted((k, v) for k, v in rows.items() if low <= k < high)
                assert list(reader.scan(store, low, high)) == some
                assert list(reader.scan(store, low, high, backward=True)) == some[::-1]
                every = sorted(rows.items())[::-1]
                assert list(reader.scan(store, None, None, backward=True)) == every
            assert entries(medium, segments.extent, store) == rows
        there = [n for run in segments.extent.runs for n in range(run.first, run.end)]
        assert sorted(medium) == there


def test_few_changes_to_much_state_read_and_write_little() -> None:
    """In a process that has nothing in memory; the whole is not written within 300 batches."""
    medium, dice = Memory(), random.Random(1)
    keys = [b"%06d" % n for n in range(20_000)]
    first = Segments(medium, Extent(), ROOM)
    first.append([Columns("s", keys, [dice.randbytes(500) for _ in keys])])
    whole, extent = medium.written, first.extent
    medium.read = medium.written = 0
    largest = 0
    for _ in range(300):
        some = dice.sample(keys, 10)
        before = medium.written
        segments = Segments(medium, extent, ROOM)
        values = [(segments.get("s", key) or b"")[::-1] for key in some]
        assert all(len(value) == 500 for value in values)
        segments.append([Columns("s", some, list(values))])
        largest, extent = max(largest, medium.written - before), segments.extent
    assert largest < whole / 4
    assert medium.written / 300 < 10 * 5_500
    assert medium.read / 300 < whole / 5


@pytest.mark.parametrize("changes", [1, 10, 1_000])
@pytest.mark.parametrize("size", [50, 1_000])
def test_what_changes_here_and_there_read_is_bounded_by_the_changes(
    changes: int, size: int
) -> None:
    """In a process that has nothing in memory, and whatever the size of the state.

    A change reads as good as one block, with what leads there; keys that are new read no block.
    """
    for count in (10_000, 40_000):
        medium, dice = Memory(), random.Random(2)
        keys = [b"%06d" % n for n in range(count)]
        first = Segments(medium, Extent(), ROOM)
        first.append([Columns("s", keys, [dice.randbytes(size) for _ in keys])])
        some = sorted(dice.sample(keys, changes))
        first.append([Columns("s", some, [b"new" for _ in some])])
        medium.read = medium.entries = 0
        segments = Segments(medium, first.extent, ROOM)
        wanted = sorted(dice.sample(keys, changes))
        assert all(segments.get("s", key) for key in wanted)
        most = 4 * changes + 10  # nodes: few changes read one for each, many share them
        assert medium.entries <= most
        assert medium.read <= most * (ROOM.block_bytes + size)
        medium.read = 0
        assert not any(segments.get("s", key + b"-") for key in wanted)
        assert medium.read <= changes * ROOM.block_bytes / 10 + 2 * ROOM.block_bytes


def test_keys_may_be_longer_than_a_block() -> None:
    medium, limits = Memory(), SegmentLimits(block_bytes=30)
    segments = Segments(medium, Extent(), limits)
    keys = [b"%03d" % n + b"k" * 50 for n in range(100)]
    segments.append([Columns("s", keys, keys)])
    [run] = segments.extent.runs
    assert run.levels == (100, 50, 25, 13, 7, 4, 2, 1)
    other = Segments(medium, segments.extent, limits)
    assert [other.get("s", key) for key in keys] == keys
    assert list(other.scan("s", keys[7], keys[60])) == [(key, key) for key in keys[7:60]]


def test_tasks_of_other_phases_merge_in_other_batches() -> None:
    merged = []
    for phase in (0.0, 0.9):
        medium = Memory()
        segments = Segments(medium, Extent(), ROOM, phase)
        for batch in range(40):
            segments.append([Columns("s", [b"%d" % batch], [b"x" * 100])])
            if len(segments.extent.runs) == 1 and batch:
                merged.append((phase, batch))
                break
    assert len({batch for _, batch in merged}) == 2


def test_what_is_kept_in_memory_is_bounded() -> None:
    medium, limits = Memory(), SegmentLimits(block_bytes=1_000, cache_bytes=5_000)
    segments = Segments(medium, Extent(), limits)
    keys = [b"%04d" % n for n in range(1_000)]
    segments.append([Columns("s", keys, [b"x" * 100 for _ in keys])])
    for key in keys:
        assert segments.get("s", key) == b"x" * 100
    assert segments._cached <= limits.cache_bytes
    assert sum(size for _, size in segments._decoded.values()) == segments._cached
