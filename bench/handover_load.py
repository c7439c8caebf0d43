"""The load of the hand-over benchmark, a process of its own.

``python -m bench.handover_load --bootstrap … --topic … --partitions … --keys … --rate …`` writes
every key once and says ``{"loaded": n}``. From the first line on standard input it goes on at the
rate, key after key and partition after partition, until standard input ends; then it says
``{"sent": n}``. A record's value is its send time, ms.
Records are sent in beats: fewer beats mean fewer requests, which is what many instances on one
machine can bear least.
"""

from __future__ import annotations

import argparse
import itertools
import struct
import sys
import threading
import time

from bench.load import fast_producer, flushed
from bench.span import say
from streamlet.kafka.murmur2 import partition_of

BEAT_MS = 10
_TIME = struct.Struct(">q")


def keys_in_turn(keys: int, partitions: int) -> list[bytes]:
    """So many keys, of each partition one in turn.

    Every beat writes to every partition then, if it has as many records. What the keys' hashes
    leave to chance are silences of a tenth of a second, now and then, which are nobody's doing.
    """
    each = -(-keys // partitions)
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    left = each * partitions
    for number in itertools.count():
        key = b"k%07d" % number
        of_partition = found[partition_of(key, partitions)]
        if len(of_partition) < each:
            of_partition.append(key)
            left -= 1
            if not left:
                break
    return [found[number % partitions][number // partitions] for number in range(keys)]


def main() -> None:
    options = _parse()
    producer = fast_producer(options.bootstrap, linger_ms=2)
    keys = keys_in_turn(options.keys, options.partitions)

    def send(first: int, end: int) -> None:
        value = _TIME.pack(time.time_ns() // 1_000_000)
        for number in range(first, end):
            producer.produce(options.topic, value, keys[number % len(keys)])
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
    for name in ("keys", "partitions", "rate"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--beat-ms", type=int, default=BEAT_MS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
