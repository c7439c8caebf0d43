"""Writes and reads by the extension at full speed, and looks whether the process grows.

``python -m tests.native_soak --minutes 30`` starts a broker, prints a line every few seconds, and
ends with 1 where the last quarter of the time has more memory than the second one, or where a
record is not read as it was written.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from streamlet.kafka.client import KafkaAdmin, sink_type, source_type
from streamlet.kafka.native.library import native
from streamlet.kafka.ports import Headers, NewTopic, OutgoingRecords
from streamlet.kafka.sink import KafkaSink
from streamlet.kafka.source import KafkaSource
from streamlet.testing import KafkaBroker
from streamlet.types import TopicPartition

COUNT = 20_000
WAIT_S = 300.0
LINES = 40
#: The memory that a process may have more of, MB: what its allocator keeps goes up and down.
GROWTH_MB = 16.0
TOPIC = "soak"
#: The broker keeps little, so that its disk does not fill.
SMALL = (("retention.bytes", "67108864"), ("segment.bytes", "16777216"))

KEYS: list[bytes | None] = [b"key %d" % (number % 1000) for number in range(COUNT)]
TIMES = [1 + number for number in range(COUNT)]
HEADERS: list[Headers | None] = [
    [("name", b"value"), ("none", None)] if number % 10 == 0 else None for number in range(COUNT)
]


def memory_mb() -> float:
    """The memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def turn(sink: KafkaSink, source: KafkaSource, number: int) -> None:
    """Write so many records and read them.

    Raises:
        ValueError: others are read.
    """
    values: list[bytes | None] = [b"%d %d" % (number, at) for at in range(COUNT)]
    sink.send(OutgoingRecords(TOPIC, KEYS, values, TIMES, 0, HEADERS))
    sink.flush(int(WAIT_S * 1000))
    at, deadline = 0, time.monotonic() + WAIT_S
    while at < COUNT:
        for batch in source.poll(COUNT, 50):
            part = slice(at, at + len(batch))
            columns = batch.keys, batch.values, batch.timestamps
            if columns != (KEYS[part], values[part], TIMES[part]):
                raise ValueError(f"turn {number}: other records than were written, from {at} on")
            at += len(batch)
        if time.monotonic() > deadline:
            raise ValueError(f"turn {number}: {at} of {COUNT} records in {WAIT_S:g} s")


def soaked(servers: str, until: float, pause_s: float) -> Iterator[float]:
    """The memory each time that a pause is over, after which other clients go on."""
    number, at = 0, TopicPartition(TOPIC, 0)
    while time.monotonic() < until:
        end = time.monotonic() + pause_s
        with (
            closing(sink_type("native", {})(servers)) as sink,
            closing(source_type("native", {})(servers, headers=True)) as source,
        ):
            source.assign({at: number * COUNT})
            first = number
            while time.monotonic() < end:
                turn(sink, source, number)
                number += 1
        rate = (number - first) * COUNT / pause_s
        print(f"{number * COUNT:>14,} records, {rate:>9,.0f} a second, {memory_mb():7.1f} MB")
        yield memory_mb()


def main(minutes: float) -> int:
    """Run for so long; the exit code."""
    if native().module is None:
        print(native().reason)
        return 1
    with KafkaBroker() as broker:
        KafkaAdmin(broker.bootstrap_servers).create_topics([NewTopic(TOPIC, 1, 1, SMALL)])
        end = time.monotonic() + minutes * 60
        seen = [*soaked(broker.bootstrap_servers, end, minutes * 60 / LINES)]
    quarter = max(1, len(seen) // 4)
    before, behind = max(seen[quarter : 2 * quarter] or seen), min(seen[-quarter:])
    print(f"second quarter at most {before:.1f} MB, last quarter at least {behind:.1f} MB")
    return int(behind > before + GROWTH_MB)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    arguments.add_argument("--minutes", type=float, default=30.0, help="how long it runs")
    sys.exit(main(arguments.parse_args().minutes))
