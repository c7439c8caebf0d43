"""Programs that do the same work on the same topic, each run by itself and checked."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import attrs
from confluent_kafka import Message

from bench.broker import PARTITIONS, Topics, committed, read_all
from bench.check import (
    check_passthrough,
    check_windows,
    check_wordcount,
    counts_in,
    difference,
    windows_in,
)
from bench.peers.kafka_streams import Programs
from bench.processes import PYTHON, measure
from bench.rounds import Outcome, Variant
from bench.window_load import WindowLoad

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


@attrs.frozen
class Peers:
    """One workload on one loaded topic.

    Attributes:
        workload: one of ``WORKLOADS``.
        bootstrap: the broker.
        source: the topic.
        records: how many it has; ``keys``: how many different ones.
        windows: the load of windows, where that is the workload.
    """

    workload: str
    bootstrap: str
    source: str
    records: int
    keys: int
    windows: WindowLoad | None = None

    @property
    def preload(self) -> int:
        """The number of records before the measurement begins."""
        return 0 if self.windows is None else self.windows.unmeasured

    def variants(self, programs: Programs, quix: list[str] | None) -> dict[str, Variant]:
        """The runs of each round by name: of ``VARIANTS`` those that there are."""
        found: dict[str, Variant] = {
            f"kafka_streams_{threads}": partial(self._kafka_streams, programs, threads)
            for threads in THREADS
        }
        found["bare"] = partial(self._run, "bench.bare", changelog=True)
        for client in CLIENTS:
            found[f"streamlet_{client}"] = partial(self._streamlet, client)
        if quix is not None and self.workload != "on-commit":
            found["quix"] = partial(self._quix, quix)
        return found

    def _kafka_streams(self, programs: Programs, threads: int) -> Outcome:
        words = ("--total", self.records, "--threads", threads, "--partitions", PARTITIONS)
        return self._run("Measured", *words, launcher=programs.command("Measured"))

    def _streamlet(self, client: str) -> Outcome:
        words = ("--total", self.records, "--number", 0, "--members", 1)
        return self._run("bench.ours", *words, environ={"STREAMLET_KAFKA_CLIENT": client})

    def _quix(self, launcher: list[str]) -> Outcome:
        total = min(self.records, self.preload + QUIX_RECORDS)
        words = ("--total", total)
        return self._run("bench.peers.quix_app", *words, launcher=launcher, part=True)

    def _run(
        self,
        module: str,
        *more: object,
        launcher: list[str] | tuple[str, ...] = PYTHON,
        environ: Mapping[str, str] | None = None,
        changelog: bool = False,
        part: bool = False,
    ) -> Outcome:
        """Run a program once and check what it wrote; ``part``: of what it has committed."""
        run = f"bench-run-{uuid.uuid4().hex[:8]}"
        state = tempfile.mkdtemp(prefix="streamlet-bench-")
        topics = Topics(self.bootstrap)
        topics.create(run)
        if changelog:
            topics.create(f"{run}-changelog", {"cleanup.policy": "compact"})
        options: dict[str, object] = {
            "bootstrap": self.bootstrap,
            "source": self.source,
            "output": run,
            "state": state,
            "preload": self.preload,
        }
        if self.windows is not None:
            options |= {"size": self.windows.size_ms, "grace": self.windows.grace_ms}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        own = [] if launcher[-1] == module else [module]
        command = [*own, self.workload, *words, *map(str, more)]
        try:
            measurement = measure([command], self.records, launcher, environ)
            return Outcome(measurement, self._wrong_part(run) if part else self._wrong(run))
        finally:
            shutil.rmtree(state, ignore_errors=True)
            topics.delete(lambda name: run in name)

    def _wrong(self, output: str) -> str:
        """The faults of the output of the whole input."""
        if self.windows is not None:
            return check_windows(self.bootstrap, output, self.windows)
        load = self.records, self.keys
        if self.workload == "passthrough":
            return check_passthrough(self.bootstrap, self.source, output, *load)
        on_commit = self.workload == "on-commit"
        return check_wordcount(self.bootstrap, output, *load, on_commit=on_commit)

    def _wrong_part(self, output: str) -> str:
        """The faults of the output of the input before the committed positions."""
        read = list(self._committed(output))
        if self.workload == "wordcount":
            words = Counter(message.key() or b"" for message in read)
            counts, updates = counts_in(self.bootstrap, output)
            return difference(words, counts, len(read), updates)
        if self.windows is not None:
            size = self.windows.size_ms
            times = ((message.key() or b"", message.timestamp()[1]) for message in read)
            starts = Counter((word, at_ms - at_ms % size) for word, at_ms in times)
            windows, updates = windows_in(self.bootstrap, output)
            return difference(starts, windows, len(read), updates)
        copied = Counter(
            (message.key() or b"", message.value() or b"")
            for batch in read_all(self.bootstrap, output)
            for message in batch
        )
        there = Counter((message.key() or b"", message.value() or b"") for message in read)
        return difference(there, copied, len(read), copied.total())

    def _committed(self, group: str) -> Iterator[Message]:
        """The records of the input before the positions that a group has committed."""
        found = committed(self.bootstrap, group, [self.source])
        for batch in read_all(self.bootstrap, self.source):
            for message in batch:
                if (message.offset() or 0) < found[self.source, message.partition() or 0]:
                    yield message
