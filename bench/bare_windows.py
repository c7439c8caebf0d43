"""The bare loop for windows: counts per word and window in dicts, and those that expire.

A window is a dict of its words, so that one that expires is dropped as a whole. Changed counts go
to changelog and store at each commit; what has expired is deleted from the store by a range. As for
word count, nothing is restored.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from rocksdict import Options, Rdict, WriteBatch, WriteOptions

_pack = struct.Struct(">q").pack


class WindowCounts:
    """The open windows of one partition.

    Args:
        folder: of the store.
        size_ms: of a window.
        grace_ms: how long it takes late records after its end.
    """

    def __init__(self, folder: Path, size_ms: int, grace_ms: int) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        self.store = Rdict(str(folder), options)
        #: By start, the count of each word.
        self.windows: dict[int, dict[bytes, int]] = {}
        self.dirty: dict[tuple[int, bytes], int] = {}
        self.stream_time = -1
        self.late = 0
        self._kept_ms = size_ms + grace_ms
        self._expired = 0
        self._deleted = 0
        self._write = WriteOptions()
        self._write.disable_wal = True  # type: ignore[method-assign, assignment]

    def begin(self, start: int) -> dict[bytes, int]:
        """A window that was not there yet; those that expire with it are dropped."""
        window = self.windows[start] = {}
        self._expired = max(self._expired, start - self._kept_ms + 1)
        for one in [one for one in self.windows if one < self._expired]:
            del self.windows[one]
        return window

    def commit(self, producer: Producer, changelog: str, partition: int) -> None:
        """Write what changed to the changelog and to the store."""
        batch = WriteBatch(raw_mode=True)
        for (start, word), count in self.dirty.items():
            if start >= self._expired:
                row, encoded = _pack(start) + word, _pack(count)
                producer.produce(changelog, encoded, row, partition)
                batch.put(row, encoded)
        if self._expired > self._deleted:
            batch.delete_range(_pack(self._deleted), _pack(self._expired))
            self._deleted = self._expired
        self.store.write(batch, self._write)
        self.dirty.clear()


def count_windows(
    messages: list[Any],
    producer: Producer,
    output: str,
    counts: list[WindowCounts],
    size_ms: int,
    grace_ms: int,
) -> None:
    """One update per record that is not late: the word and its window's start, and the count."""
    produce, open_ms = producer.produce, size_ms + grace_ms
    for message in messages:
        word, time = message.key(), message.timestamp()[1]
        mine = counts[message.partition()]
        start = time - time % size_ms
        if time > mine.stream_time:
            mine.stream_time = time
        elif start + open_ms <= mine.stream_time:
            mine.late += 1
            continue
        window = mine.windows.get(start)
        if window is None:
            window = mine.begin(start)
        count = window.get(word, 0) + 1
        window[word] = count
        mine.dirty[start, word] = count
        produce(output, _pack(count), word + _pack(start))
