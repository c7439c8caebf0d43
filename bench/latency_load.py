"""The load of the latency benchmark, a process of its own.

``python -m bench.latency_load --bootstrap … --topic … --keys … --rate … --seconds … --linger …``
sends JSON records of 1 kB at the rate, a few each millisecond, and then says ``{"sent": n}``. The
header ``t`` of a record is when it was sent: microseconds since the epoch.
"""

from __future__ import annotations

import argparse
import struct
import time

from bench.load import fast_producer, flushed, key
from bench.span import say

RECORD_BYTES = 1_000
SENT_HEADER = "t"
SENT = struct.Struct(">q")
_BEAT_S = 0.001


def main() -> None:
    options = _parse()
    producer = fast_producer(options.bootstrap, linger_ms=options.linger)
    keys = [key(number) for number in range(options.keys)]
    value = b'{"word": "%s", "pad": "%s"}' % (keys[0], b"x" * (RECORD_BYTES - 42))
    total, sent, began = options.rate * options.seconds, 0, time.monotonic()
    while sent < total:
        due = min(total, int((time.monotonic() - began) * options.rate))
        sent_at = SENT.pack(time.time_ns() // 1_000)
        now: list[tuple[str, str | bytes | None]] = [(SENT_HEADER, sent_at)]
        for number in range(sent, due):
            producer.produce(options.topic, value, keys[number % len(keys)], headers=now)
        sent = due
        producer.poll(_BEAT_S)
    flushed(producer)
    say({"sent": sent})


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("keys", "rate", "seconds", "linger"):
        parser.add_argument(f"--{name}", required=True, type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
