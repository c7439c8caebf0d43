"""Reads a topic while it is written, and notes when a reader of committed records has what.

The broker's time of a record is that of its append, which under ``exactly_once`` is before the
commit of its transaction; only who reads meanwhile knows when that has ended.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from bench.broker import consumer

_WAIT_S = 0.1
_BATCH = 10_000


class ReadTimes:
    """When a partition was read, batch by batch."""

    def __init__(self) -> None:
        self._offsets, self._times = array("q"), array("q")

    def add(self, offset: int, at_us: int) -> None:
        """A batch up to this offset was read then; offsets and times rise."""
        if self._offsets and self._times[-1] == at_us:
            self._offsets[-1] = offset
            return
        self._offsets.append(offset)
        self._times.append(at_us)  # last: another thread may look

    def at_us(self, offset: int) -> int | None:
        """When the record with this offset was read; None if it was not."""
        place = bisect_left(self._offsets, offset)
        return self._times[place] if place < len(self._times) else None


class CommittedReader:
    """A reader with ``read_committed`` on a thread of its own, as long as a block lasts.

    Args:
        bootstrap: the broker.
        topic: is read from its first record on.
        partitions: the number of its partitions.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._read_times = [ReadTimes() for _ in range(partitions)]
        self._consumer = consumer(
            bootstrap, "bench-committed-reader", **{"isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._records, self._last_s = 0, time.monotonic()
        self._failed: KafkaError | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CommittedReader:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    @property
    def records(self) -> int:
        """Records that were read.

        Raises:
            KafkaException: a partition cannot be read.
        """
        if self._failed is not None:
            raise KafkaException(self._failed)
        return self._records

    @property
    def silent_s(self) -> float:
        """How long nothing was there to read, s."""
        return time.monotonic() - self._last_s

    def at_us(self, partition: int, offset: int) -> int | None:
        """When a record was read, µs since the epoch; None if it was not."""
        return self._read_times[partition].at_us(offset)

    def _run(self) -> None:
        while not self._ended.is_set():
            messages = self._consumer.consume(1, _WAIT_S)
            if not messages:
                continue
            messages += self._consumer.consume(_BATCH - 1, 0)  # a longer list is waited for
            now_us = time.time_ns() // 1_000
            for message in messages:
                self._failed = message.error()
                if self._failed is not None:
                    return
                self._read_times[message.partition() or 0].add(message.offset() or 0, now_us)
            self._records += len(messages)
            self._last_s = time.monotonic()
