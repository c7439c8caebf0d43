"""Another program writes to repartition topics in the name of the tasks of an application."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

from confluent_kafka import Producer

from streamlet.processing.edges.held_columns import pack
from streamlet.processing.edges.held_records import (
    MARKER,
    pack_head,
    pack_marker,
    period_of,
    writer_of,
)
from tests.integration.chaos.support import Cluster

_PAUSE_S = 0.1
#: In the name of so many tasks at a time: all of them would be more than the load is.
_MOST = 4
#: It knows all but the key.
_KEY = b"another"


class Forger:
    """Begins periods of tasks, ends them and tells commits as accepted, until it is ended.

    Args:
        cluster: whose topics it writes to.
        seed: of its choices.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._dice = cluster, random.Random(seed)
        self._producer = Producer({"bootstrap.servers": cluster.servers})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        #: Words written so far.
        self.words = 0

    def __enter__(self) -> Forger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        topics = self._producer.list_topics().topics
        there = [
            (name, partition)
            for name, topic in topics.items()
            if name.startswith(self._cluster.name) and name.endswith("-repartition")
            for partition in topic.partitions
        ]
        while not self._ended.wait(_PAUSE_S):
            for value in self._words():
                for name, partition in there:
                    self._producer.produce(name, value, partition=partition)
                    self.words += 1
            self._producer.flush()

    def _words(self) -> Iterator[bytes]:
        """The next period, the end of this one, and commits that are still to come."""
        found = self._cluster.committed()
        tasks = list(self._cluster.tasks)
        for task in self._dice.sample(tasks, min(_MOST, len(tasks))):
            commit = self._cluster.of_task(task, found).metadata
            if commit is None or not commit.born:
                continue
            writer, epoch = writer_of(task), commit.epoch
            for later, number in ((1, 1), (0, commit.state.number + 3), (99, 5)):
                period = period_of(commit.born, epoch + later)
                base = (0, 0) if self._dice.random() < 0.5 else (period - 1, 1 << 39)
                yield pack_marker(
                    pack_head(writer, period, number, MARKER, key=_KEY, base=base), 1, base
                )
                yield from pack(pack_head(writer, period, number, key=_KEY), [b"1"], 1 << 40)
