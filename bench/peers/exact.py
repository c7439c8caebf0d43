"""The same input through Kafka Streams with exactly_once_v2 and through streamlet, compared.

``python -m bench peers --equal``: counts, counts in windows and a join of a stream with a table. A
third of the input lies in transactions that were aborted, some records come late, some too late,
and streamlet's process is killed once on the way. What a reader with ``read_committed`` is given of
each key must be the same from both, value by value and with the same times.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from confluent_kafka import Producer

from bench.broker import PARTITIONS, Topics, committed, ends, read_all
from bench.load import flushed, key
from bench.peers.kafka_streams import Programs, compiled
from bench.processes import MeasurementError

#: Topics that are compared, behind the name of an application.
OUTPUTS = ("counts", "windows", "joined")
_SIZE_MS, _GRACE_MS = 100, 50
#: Records of a transaction; of three, one is aborted.
_TOGETHER = 200
_TIMEOUT_S = 180.0
_POLL_S = 0.1
#: One update of a key: its value and its time, ms.
Update = tuple[bytes | None, int]


@attrs.frozen
class Compared:
    """An input, and what two programs made of it."""

    bootstrap: str
    run: str
    records: int
    keys: int

    def load(self) -> Counter[bytes]:
        """Write the input; how often each key is among the records that were committed.

        Behind all transactions each partition has a record without one, so that positions end
        where topics do and not before a marker.
        """
        rng = random.Random(7)
        settings = {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"}
        producer = Producer({**settings, "transactional.id": self.run})
        producer.init_transactions()
        counted: Counter[bytes] = Counter()
        for begin in range(0, self.records, _TOGETHER):
            producer.begin_transaction()
            words: Counter[bytes] = Counter()
            for index in range(begin, min(begin + _TOGETHER, self.records)):
                words.update(self._write(producer, rng, index))
            if rng.randrange(3):
                producer.commit_transaction()
                counted += words
            else:
                producer.flush()
                producer.abort_transaction()
        last = Producer(settings)
        for partition in range(PARTITIONS):
            word = b"last%d" % partition
            for number, topic in enumerate((self.rows, self.source)):
                at = _time(self.records) + number
                last.produce(topic, b"last", word, partition, timestamp=at)
            counted[word] += 1
        flushed(last)
        return counted

    def _write(self, producer: Producer, rng: random.Random, index: int) -> list[bytes]:
        """A record, and now and then a row before it."""
        word = key(rng.randrange(self.keys))
        if rng.randrange(4) == 0:
            row = b"row%d" % index if rng.randrange(5) else None
            at = _time(index) - 1
            producer.produce(self.rows, row, key(rng.randrange(self.keys)), timestamp=at)
        late = rng.choice((0, 0, 0, 0, _SIZE_MS // 2, _SIZE_MS, 4 * _SIZE_MS))
        at = _time(index) - 2 * late
        producer.produce(self.source, b"%d" % index, word, timestamp=at)
        return [word]

    @property
    def source(self) -> str:
        """The topic of records."""
        return f"{self.run}-in"

    @property
    def rows(self) -> str:
        """The topic of the table."""
        return f"{self.run}-rows"

    def process(self, command: list[str], program: str, killed: bool = False) -> str:
        """Have a program process all; its name, which its output topics begin with.

        Args:
            command: the words that start it.
            program: the end of its name.
            killed: end it amid its input, and start it again.
        """
        name = f"{self.run}-{program}"
        options = {"source": self.source, "rows": self.rows, "output": name}
        options |= {"size": str(_SIZE_MS), "grace": str(_GRACE_MS), "bootstrap": self.bootstrap}
        words = [word for option, value in options.items() for word in (f"--{option}", value)]
        with _folder() as state:
            whole = [*command, *words, "--state", state]
            if killed:
                _run(whole, lambda: self._left(name) < self._size(), orderly=False)
            _run(whole, lambda: self._left(name) == 0)
        return name

    def _size(self) -> int:
        return sum(
            end
            for topic in (self.source, self.rows)
            for end in ends(self.bootstrap, topic).values()
        )

    def _left(self, group: str) -> int:
        """How many offsets of the input are before its end and not committed."""
        found = committed(self.bootstrap, group, (self.source, self.rows))
        return self._size() - sum(found.values())

    def updates(self, name: str) -> dict[str, dict[bytes, list[Update]]]:
        """The records that an application wrote, by output and key."""
        found: dict[str, dict[bytes, list[Update]]] = {}
        for output in OUTPUTS:
            by_key: dict[bytes, list[Update]] = defaultdict(list)
            for batch in read_all(self.bootstrap, f"{name}-{output}"):
                for message in batch:
                    update = message.value(), message.timestamp()[1]
                    by_key[message.key() or b""].append(update)
            found[output] = dict(by_key)
        return found


def compare(bootstrap: str, *, records: int, keys: int) -> dict[str, Any]:
    """The result as it is printed: updates of each output, and keys whose updates differ."""
    with compiled() as programs:
        return _compared(bootstrap, programs, records, keys)


def _compared(bootstrap: str, programs: Programs, records: int, keys: int) -> dict[str, Any]:
    case = Compared(bootstrap, f"bench-equal-{uuid.uuid4().hex[:8]}", records, keys)
    topics = Topics(bootstrap)
    for topic in (case.source, case.rows):
        topics.create(topic)
    for program in ("java", "ours"):
        for output in OUTPUTS:
            topics.create(f"{case.run}-{program}-{output}")
    try:
        loaded = case.load()
        theirs = case.updates(case.process(programs.command("Exact"), "java"))
        own = [sys.executable, "-m", "bench.peers.exact_app"]
        ours = case.updates(case.process(own, "ours", killed=True))
    finally:
        topics.delete(lambda name: name.startswith(case.run))
    written = {output: sum(map(len, theirs[output].values())) for output in OUTPUTS}
    different = {output: differences(theirs[output], ours[output]) for output in OUTPUTS}
    whole = {word: len(found) for word, found in theirs["counts"].items()} == loaded
    return {
        "workload": "peers-equal",
        "records": loaded.total(),
        "updates": written,
        "different": different,
        "right": whole and all(written.values()) and not any(different.values()),
    }


def differences(
    theirs: dict[bytes, list[Update]], ours: dict[bytes, list[Update]]
) -> list[tuple[str, str, str]]:
    """Keys whose updates are not the same, each with the first two that differ."""
    found = []
    for word in sorted({*theirs, *ours}):
        mine, other = ours.get(word, []), theirs.get(word, [])
        if mine != other:
            at = next(
                (n for n, pair in enumerate(zip(other, mine, strict=False)) if pair[0] != pair[1]),
                min(len(mine), len(other)),
            )
            found.append((repr(word), repr(other[at : at + 1]), repr(mine[at : at + 1])))
    return found


def _time(index: int) -> int:
    """The time of a record that is not late, ms: an even number, rows have odd ones."""
    return 1_700_000_000_000 + 2 * index


@contextmanager
def _folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="streamlet-bench-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], done: Callable[[], bool], orderly: bool = True) -> None:
    """Run a program until something holds, and end it."""
    process = subprocess.Popen(command, process_group=0)
    try:
        deadline = time.monotonic() + _TIMEOUT_S
        while not done():
            if process.poll() is not None or time.monotonic() > deadline:
                raise MeasurementError(f"{command[0]} did not process its input")
            time.sleep(_POLL_S)
        if orderly:
            process.terminate()
            process.wait(_TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
