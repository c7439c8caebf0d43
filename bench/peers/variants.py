"""Programs that do the same work on the same topic, each run by itself and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from confluent_kafka import Message

from bench.broker import PARTITIONS, committed, read_all
from bench.check import counts_in, difference, windows_in
from bench.peers.kafka_streams import Programs
from bench.rounds import Outcome, Variant
from bench.streams import Bench

WORKLOADS = ("wordcount", "on-commit", "window", "passthrough")
#: Stream threads of Kafka Streams; the better number counts.
THREADS = (1, 2)
CLIENTS = ("python", "native")
VARIANTS = (
    *(f"kafka_streams_{threads}" for threads in THREADS),
    "bare",
    *(f"streamlet_{client}" for client in CLIENTS),
    "quix",
)
#: Quix Streams is measured on the first records: its rate is even, and 4 to 60 times lower.
QUIX_RECORDS = 200_000


def variants(bench: Bench, programs: Programs, quix: Sequence[str] | None) -> dict[str, Variant]:
    """The runs of each round by name: of ``VARIANTS`` those that there are."""
    found: dict[str, Variant] = {
        f"kafka_streams_{threads}": partial(_kafka_streams, bench, programs, threads)
        for threads in THREADS
    }
    found["bare"] = bench.bare
    for client in CLIENTS:
        environ = {"STREAMLET_KAFKA_CLIENT": client}
        found[f"streamlet_{client}"] = partial(bench.streamlet, environ=environ)
    if quix is not None and bench.workload != "on-commit":
        found["quix"] = partial(_quix, bench, quix)
    return found


def _kafka_streams(bench: Bench, programs: Programs, threads: int) -> Outcome:
    words = ("--total", bench.records, "--threads", threads, "--partitions", PARTITIONS)
    return bench.run((), [words], launcher=programs.command("Measured"))


def _quix(bench: Bench, launcher: Sequence[str]) -> Outcome:
    words = ("--total", min(bench.records, bench.preload + QUIX_RECORDS))
    wrong = partial(_wrong_part, bench)
    return bench.run(("bench.peers.quix_app",), [words], wrong=wrong, launcher=launcher)


def _wrong_part(bench: Bench, output: str) -> str:
    """The faults of the output of the input before the committed positions."""
    read = list(_committed(bench, output))
    if bench.workload == "wordcount":
        words = Counter(message.key() or b"" for message in read)
        counts, updates = counts_in(bench.bootstrap, output)
        return difference(words, counts, len(read), updates)
    if bench.windows is not None:
        size = bench.windows.size_ms
        times = ((message.key() or b"", message.timestamp()[1]) for message in read)
        starts = Counter((word, at_ms - at_ms % size) for word, at_ms in times)
        windows, updates = windows_in(bench.bootstrap, output)
        return difference(starts, windows, len(read), updates)
    copied = Counter(
        (message.key() or b"", message.value() or b"")
        for batch in read_all(bench.bootstrap, output)
        for message in batch
    )
    there = Counter((message.key() or b"", message.value() or b"") for message in read)
    return difference(there, copied, len(read), copied.total())


def _committed(bench: Bench, group: str) -> Iterator[Message]:
    """The records of the input before the positions that a group has committed."""
    found = committed(bench.bootstrap, group, [bench.source])
    for batch in read_all(bench.bootstrap, bench.source):
        for message in batch:
            if (message.offset() or 0) < found[bench.source, message.partition() or 0]:
                yield message
