"""``TopologyTestDriver``: an application's topology without a broker.

The tasks, operators and stores are those of a worker; only the topics are lists here. Every topic
that the application reads has one partition. What is written to a topic that the application reads,
a repartition topic or another, is read at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import attrs

from streamlet.app import App
from streamlet.clock import ManualClock
from streamlet.errors import ConfigError, NotFoundError
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.runtime.outputs import Output
from streamlet.runtime.task import Task
from streamlet.serdes import Serde, SerdeLike
from streamlet.serdes import serde as serde_of
from streamlet.state.store import CachedStore
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import SourceNode
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition

#: Memory that the stores of one task may use for objects, bytes.
CACHE_BYTES = 16 * 1024 * 1024

#: Records piped in without a time, and the wall clock, begin here: not 0, so that a time in ms that
#: was taken for seconds shows.
START_MS = 1_577_836_800_000  # 2020-01-01T00:00:00Z


@attrs.frozen
class OutputRecord:
    """A record that the application wrote, decoded.

    ``timestamp`` is in ms since the epoch. ``partition`` is the one that the partitioner chose, or
    that Kafka's default partitioner gives the key; None where the producer may take any, which is
    where a record without a key goes to one of several.
    """

    key: Any
    value: Any
    timestamp: int
    headers: Headers | None = attrs.field(default=None, eq=False)
    partition: int | None = 0


@attrs.define
class _Part:
    """One subtopology's only task, with the state it commits."""

    task: Task
    state: TaskState
    commits: int = 0


class TopologyTestDriver:
    """Runs an application's topology in the calling thread.

    Every call processes all there is to process and commits, so that stores and outputs can be
    looked at behind it. Close it, or use it as a context manager.

    Args:
        app: the application; its error policy holds here too.
        start_ms: the record time and the wall clock at the beginning, ms since the epoch.
        partitions: how many partitions topics have that the application only writes; 1 without.

    Raises:
        ConfigError: ``partitions`` names a topic that the application reads, or does not write.
    """

    def __init__(
        self, app: App, *, start_ms: int = START_MS, partitions: Mapping[str, int] | None = None
    ) -> None:
        self.application = app.name
        self._topology = app.topology()
        self._policy = app.policy
        self._wall = ManualClock(start_ms)
        self._record_ms = start_ms
        self._parts: list[_Part] = []
        self._reader: dict[str, tuple[_Part, SourceNode]] = {}
        self._next_offset: dict[str, int] = {}
        self._written: dict[str, deque[OutputRecord]] = {}
        self._ours = frozenset(self._topology.repartition_topics)
        self._outputs = self._output_topics()
        self._partitions = dict(partitions or {})
        self._check_partitions()
        for part in self._topology.subtopologies:
            self._open(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Input.

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp_ms: int | None = None,
        *,
        headers: Headers | None = None,
    ) -> None:
        """Write one record, encoded as the application reads the topic, and process it.

        ``headers`` are pairs of a name and bytes.

        Raises:
            NotFoundError: the application does not read the topic.
            SerdeError: the record cannot be encoded.
            ProcessingError: it failed under the error policy ``fail``.
        """
        self.pipe_inputs(topic, [(key, value)], timestamp_ms, headers=headers)

    def pipe_bytes(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        *,
        headers: Headers | None = None,
    ) -> None:
        """Write one raw record, also one that cannot be decoded; otherwise as ``pipe_input``."""
        self._reading(topic)
        self._pipe(topic, [key], [value], timestamp_ms, headers)

    def pipe_inputs(
        self,
        topic: str,
        records: Iterable[tuple[Any, Any]],
        timestamp_ms: int | None = None,
        *,
        headers: Headers | None = None,
    ) -> None:
        """Write several records and process them as one batch; raises as ``pipe_input``.

        Each record has the ``headers``.
        """
        _, source = self._reading(topic)
        pairs = list(records)
        keys = source.key.encode_column([key for key, _ in pairs])
        values = source.value.encode_column([value for _, value in pairs])
        self._pipe(topic, keys, values, timestamp_ms, headers)

    # Time.

    def set_record_time(self, timestamp_ms: int) -> None:
        """Set the timestamp of later records that are piped in without one, ms since the epoch.

        Stream time follows when such a record is processed.
        """
        self._record_ms = timestamp_ms

    def advance_record_time(self, by: timedelta | int) -> None:
        """Make the timestamp of later records that are piped in without one later by this (ms)."""
        self._record_ms += _ms(by)

    @property
    def stream_time(self) -> int | None:
        """The highest timestamp that a task has seen, ms since the epoch; None before a record."""
        return max((t for t in self._stream_times() if t >= 0), default=None)

    def advance_stream_time(self, by: timedelta | int) -> None:
        """Move the stream time of all tasks on without a record, to this (ms) after the highest.

        It does not change the timestamps of later records.

        Raises:
            ValueError: stream time would move back, or there is none before the first record.
        """
        highest, step = self.stream_time, _ms(by)
        if highest is None:
            raise ValueError("advance_stream_time(): there is no stream time before a first record")
        if step < 0:
            raise ValueError(f"advance_stream_time({step}): stream time never moves back")
        for part in self._parts:
            part.task.stream_time = highest + step

    def advance_wall_clock(self, by: timedelta | int) -> None:
        """Let this much time pass (ms), and tasks do what they were waiting with."""
        self._wall.advance(_ms(by))
        for part in self._parts:
            self._process(deque(self._taken(part.task.resume(self._wall.now_ms()))))

    # Results.

    def read_output(
        self, topic: str, *, key: SerdeLike[Any] = None, value: SerdeLike[Any] = None
    ) -> list[OutputRecord]:
        """All records written to a topic since they were last read.

        They are decoded as the application encoded them. ``key`` and ``value`` say otherwise, which
        topics need that are no sink of the application, such as one for dead letters (else bytes).

        Raises:
            NotFoundError: the application writes no topic of this name.
            SerdeError: a record cannot be decoded as ``key`` or ``value`` says.
        """
        if topic not in self._outputs:
            known = ", ".join(sorted(self._outputs)) or "no topic"
            raise NotFoundError(f"{self.application} does not write {topic!r}; it writes {known}")
        records = list(self._written.pop(topic, ()))
        serdes = self._sink_serdes(topic)
        decode_key, decode_value = (
            (serde_of(given) if given is not None else known).decode
            for given, known in zip((key, value), serdes, strict=True)
        )
        return [
            attrs.evolve(
                record,
                key=None if record.key is None else decode_key(record.key),
                value=None if record.value is None else decode_value(record.value),
            )
            for record in records
        ]

    def store(self, name: str) -> CachedStore:
        """A store of the application, to read or to fill.

        Raises:
            NotFoundError: there is no store of that name.
        """
        for part in self._parts:
            if name in part.state.stores:
                return part.state.stores[name]
        known = ", ".join(sorted(name for part in self._parts for name in part.state.stores))
        raise NotFoundError(f"no store {name!r}; there are: {known or 'none'}")

    def dropped(self) -> int:
        """Records left out by rule so far: null keys, negative timestamps."""
        return sum(part.task.counters.dropped for part in self._parts)

    def late(self) -> int:
        """Records left out of closed windows so far; a record counts for each of its windows."""
        return sum(part.task.counters.late for part in self._parts)

    def skipped(self) -> int:
        """Records that the error policy took out so far."""
        return sum(part.task.counters.skipped for part in self._parts)

    def close(self) -> None:
        """Close the stores; what they held is gone."""
        for part in self._parts:
            part.state.close()

    # Inside.

    def _open(self, part: Subtopology) -> None:
        changelogs = {
            spec.name: TopicPartition(topic, 0)
            for spec in part.stores
            if (topic := part.changelog_topic(spec.name)) is not None
        }
        state = TaskState.open(None, part.stores, CACHE_BYTES, changelogs)
        task = Task(
            TaskId(part.id, 0),
            part,
            state,
            {TopicPartition(topic, 0): 0 for topic in part.input_topics},
            policy=self._policy,
            partition_counts={
                topic: self._partitions.get(topic, 1) for topic in part.output_topics
            },
        )
        opened = _Part(task, state)
        self._parts.append(opened)
        for source in part.sources:
            for topic in source.topics:
                self._reader[topic] = (opened, source)

    def _reading(self, topic: str) -> tuple[_Part, SourceNode]:
        if topic not in self._reader:
            known = ", ".join(sorted(set(self._reader) - self._ours))
            raise NotFoundError(f"{self.application} does not read {topic!r}; it reads {known}")
        return self._reader[topic]

    def _stream_times(self) -> list[int]:
        return [part.task.stream_time for part in self._parts]

    def _output_topics(self) -> frozenset[str]:
        """The topics that the application writes, dead letters included, repartition topics not."""
        written = {t for part in self._topology.subtopologies for t in part.output_topics}
        letters = {self._policy.topic} if self._policy.topic is not None else set()
        return frozenset((written - self._ours) | letters)

    def _check_partitions(self) -> None:
        read = {t for part in self._topology.subtopologies for t in part.input_topics}
        problems = []
        for topic, count in self._partitions.items():
            if topic in read:
                problems.append(f"{topic!r} is read by {self.application}: it has one partition")
            elif topic not in self._outputs:
                problems.append(f"{topic!r} is not written by {self.application}")
            elif count < 1:
                problems.append(f"{topic!r} cannot have {count} partitions")
        if problems:
            raise ConfigError([f"partitions=: {problem}" for problem in problems])

    def _pipe(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamp_ms: int | None,
        headers: Headers | None,
    ) -> None:
        time = self._record_ms if timestamp_ms is None else timestamp_ms
        heads: list[Headers | None] | None = [list(headers)] * len(keys) if headers else None
        batch = self._batch(topic, keys, values, [time] * len(keys), heads)
        self._process(deque([batch] if keys else []))

    def _batch(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        headers: list[Headers | None] | None = None,
    ) -> PartitionBatch:
        first = self._next_offset.get(topic, 0)
        self._next_offset[topic] = first + len(keys)
        offsets = range(first, first + len(keys))
        return PartitionBatch(topic, 0, offsets, keys, values, timestamps, headers)

    def _process(self, batches: deque[PartitionBatch]) -> None:
        """Process batches and what comes of them in topics that are read, in order; commit."""
        while batches:
            batch = batches.popleft()
            part, _ = self._reader[batch.topic]
            batches.extend(self._taken(part.task.process(batch, self._wall.now_ms())))
            self._commit(part)

    def _taken(self, outputs: Iterable[Output]) -> list[PartitionBatch]:
        """Keep outputs to be read by the test; those the application reads, as input."""
        batches: list[PartitionBatch] = []
        for out in outputs:
            headers = out.headers or [None] * len(out.keys)
            if out.topic not in self._ours:
                partitions: Iterable[int | None] = out.partitions or [
                    self._default(out.topic, key) for key in out.keys
                ]
                columns = zip(
                    out.keys, out.values, out.timestamps, headers, partitions, strict=True
                )
                written = self._written.setdefault(out.topic, deque())
                written.extend(OutputRecord(*record) for record in columns)
            if out.topic in self._reader:
                batches.append(
                    self._batch(
                        out.topic,
                        list(out.keys),
                        list(out.values),
                        list(out.timestamps),
                        out.headers,
                    )
                )
        return batches

    def _default(self, topic: str, key: bytes | None) -> int | None:
        """The partition that Kafka's default partitioner gives a key; None if it may be any."""
        count = self._partitions.get(topic, 1)
        if count == 1:
            return 0
        return None if key is None else partition_of(key, count)

    def _commit(self, part: _Part) -> None:
        part.commits += 1
        drained = part.state.drain()
        part.state.write(drained, StateNumber(1, part.commits), {})

    def _sink_serdes(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        for part in self._topology.subtopologies:
            for sink in part.sinks:
                if sink.topic == topic:
                    return sink.key, sink.value
        return serde_of(bytes), serde_of(bytes)


def _ms(by: timedelta | int) -> int:
    return by // timedelta(milliseconds=1) if isinstance(by, timedelta) else by
