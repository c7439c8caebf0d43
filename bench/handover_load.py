"""The load of the hand-over benchmark, a process of its own.

``python -m bench.handover_load --bootstrap … --topic … --keys … --rate …`` writes every key once
and says ``{"loaded": n}``. From the first line on standard input it goes on at the rate, key after
key, until standard input ends; then it says ``{"sent": n}``. A record's value is its send time, ms.
Records are sent in beats: fewer beats mean fewer requests, which is what many instances on one
machine can bear least.
"""

from __future__ import annotations

import argparse
import struct
import sys
import threading
import time

from bench.load import fast_producer, flushed
from bench.span import say

BEAT_MS = 10
_TIME = struct.Struct(">q")
#: Prime, so that it visits every key whatever their number (but a multiple of it).
_STRIDE = 7_919


def key(number: int, keys: int) -> bytes:
    """The key of the record of that number; all keys in turn."""
    return b"k%07d" % (number * _STRIDE % keys)


def main() -> None:
    options = _parse()
    producer = fast_producer(options.bootstrap, linger_ms=2)

    def send(first: int, end: int) -> None:
        value = _TIME.pack(time.time_ns() // 1_000_000)
        for number in range(first, end):
            producer.produce(options.topic, value, key(number, options.keys))
            if number % 10_000 == 0:
                producer.poll(0)
        producer.poll(0)

    send(0, options.keys)
    flushed(producer)
    say({"loaded": options.keys})
    sys.stdin.readline()
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    sent, began = options.keys, time.monotonic()
    while not ended.wait(options.beat_ms / 1000):
        due = options.keys + int((time.monotonic() - began) * options.rate)
        send(sent, due)
        sent = due
    flushed(producer)
    say({"sent": sent})


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("keys", "rate"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--beat-ms", type=int, default=BEAT_MS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
