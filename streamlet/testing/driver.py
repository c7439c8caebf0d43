"""``TopologyTestDriver``: an application's topology without a broker.

The tasks, operators and stores are those of a worker; only the topics are lists, each of one
partition unless ``partitions=`` says more. Records for a topic that is read are read at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar, overload

from streamlet.absent import explains_misuse
from streamlet.app import App
from streamlet.arguments import calls_told_by_form, never_copied
from streamlet.clock import ManualClock, no_pause
from streamlet.closing import Closing
from streamlet.dsl.graph.durations import Duration
from streamlet.dsl.processors.store_builders import StoreBuilder
from streamlet.dsl.processors.store_faces import GlobalStores
from streamlet.errors import NotFoundError, WrongValueError
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.processing.edges.records import edge_of
from streamlet.processing.edges.writer import EdgeWriter
from streamlet.processing.global_state import GlobalState
from streamlet.processing.outputs import Output
from streamlet.processing.record_failures import RetryPause
from streamlet.serdes import SerdeLike
from streamlet.serdes import serde as serde_of
from streamlet.state.row_headers import row_headers
from streamlet.state.task_state import TaskState
from streamlet.testing import driver_inputs
from streamlet.testing.driver_calls import DriverCalls
from streamlet.testing.driver_inputs import START_MS, Time
from streamlet.testing.driver_stores import DriverStores, DriverTask, shown_store
from streamlet.testing.driver_topics import DriverTopics, OutputRecord
from streamlet.topology.nodes import SourceNode
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import StateNumber, TaskId, TopicPartition
from streamlet.user_code import listed, shown

S = TypeVar("S")

#: Memory that the stores of one task may use for objects, bytes.
CACHE_BYTES = 16 * 1024 * 1024


@never_copied("make another one of the same App, which begins without records")
@explains_misuse
@calls_told_by_form
class TopologyTestDriver(Closing):
    """Runs an application's topology in the calling thread.

    Every call processes all there is to process and commits, so that stores and outputs can be
    looked at behind it. Close it, or use it as a context manager. A record that an error policy has
    tried again is tried at once, without a pause. Where the application sets ``max.task.idle.ms``,
    records of a task wait for one of each input until the wall clock has gone on by so much.

    Args:
        app: the application; its error policy holds here too, and its ``tracer_provider``.
        start_ms: the record time and the wall clock at the beginning, ms since the epoch.
        partitions: how many partitions topics have; 1 without. A topic that the application reads
            has a task for each: ``{"in": 3}`` makes 0_0, 0_1 and 0_2. Repartition topics then have
            as many as they would get on a broker.

    Raises:
        ConfigError: ``partitions`` names a topic that the application neither reads nor writes.
        TopologyError: topics that are joined or read together have different counts.
    """

    def __init__(
        self, app: App, *, start_ms: Time = START_MS, partitions: Mapping[str, int] | None = None
    ) -> None:
        self.application = driver_inputs.checked_app(app).name
        self._topology = app.topology()
        self._policy, self._idle_ms = app.policy, app.settings.max_task_idle_ms
        self._tracing = driver_inputs.tracing_of(app)
        self._record_ms = driver_inputs.time_ms("start_ms=", start_ms)
        self._wall = ManualClock(self._record_ms)
        self._calls = DriverCalls()
        self._parts: list[DriverTask] = []
        self._reader: dict[TopicPartition, DriverTask] = {}
        self._sources: dict[str, SourceNode] = {}
        policy, given = self._policy, driver_inputs.checked_partitions(partitions)
        self._topics = DriverTopics(self._topology, policy.topics, given, any_letters=policy.asks)
        tables = self._topology.global_tables
        stores = TaskState.open(None, [table.store for table in tables], CACHE_BYTES)
        #: Dead letters of global tables in topics that are read.
        self._letters: deque[PartitionBatch] = deque()
        given_to = tables, stores, policy, self.application, self._lettered
        self._globals = GlobalState(*given_to, RetryPause(in_parts=False, block=no_pause))
        self._sources |= {table.topic: table.source for table in tables}
        specs = {table.store.name: table.store for table in tables}
        self._global_stores = DriverStores(specs, GlobalStores(stores.stores))
        for part in self._topology.subtopologies:
            for number in range(part.task_count(self._topics.counts)):
                self._open(part, number)

    # Input.

    def pipe_input(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp_ms: Time | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Write one record, encoded as the application reads the topic, and process it.

        ``headers`` are pairs of a name and bytes. Without ``partition`` the key decides, as with
        Kafka's default partitioner; a record without a key goes to partition 0.

        Raises:
            NotFoundError: the application does not read the topic, or that has no such partition.
            SerdeError: the record cannot be encoded.
            TypeError: time or headers are of another type.
            ValueError: the driver is closed, or a function of the application calls it.
            ProcessingError: it failed under the error policy ``fail``.
        """
        self.pipe_inputs(topic, [(key, value)], timestamp_ms, headers=headers, partition=partition)

    def pipe_bytes(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: Time | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Write one raw record, also one that cannot be decoded; otherwise as ``pipe_input``."""
        self._reading(topic)
        self._pipe(topic, [key], [value], timestamp_ms, headers, partition)

    def pipe_inputs(
        self,
        topic: str,
        records: Iterable[tuple[Any, Any]],
        timestamp_ms: Time | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Write several records and process those of a partition as one batch.

        Each record has the ``headers``; ``partition`` and errors as of ``pipe_input``.
        """
        source = self._reading(topic)
        pairs = driver_inputs.checked_pairs(records)
        keys = driver_inputs.encoded(topic, "key", source.key, [key for key, _ in pairs])
        values = driver_inputs.encoded(topic, "value", source.value, [value for _, value in pairs])
        self._pipe(topic, keys, values, timestamp_ms, headers, partition)

    # Time.

    def set_record_time(self, timestamp_ms: Time) -> None:
        """Set the timestamp of later records that are piped in without one, ms since the epoch.

        Stream time follows when such a record is processed.
        """
        self._record_ms = driver_inputs.time_ms("set_record_time()", timestamp_ms)

    def advance_record_time(self, by: Duration) -> None:
        """Make the timestamp of later records that are piped in without one later by this.

        Raises:
            ValueError: the time would go back; ``set_record_time`` sets any.
        """
        any_time = "set_record_time() sets any time"
        self._record_ms += driver_inputs.length_ms("advance_record_time()", by, any_time)

    @property
    def stream_time(self) -> int | None:
        """The highest timestamp that a task has seen, ms since the epoch; None before a record."""
        times = (part.task.stream_time for part in self._parts)
        return max((time for time in times if time >= 0), default=None)

    def advance_stream_time(self, by: Duration) -> None:
        """Move the stream time of all tasks on without a record, to this after the highest.

        Windows close and updates that ``suppress`` keeps back are sent as by a record of that time.
        It does not change the timestamps of later records. What a left or outer join sends of
        records without a match waits for the next record, as in a run.

        Raises:
            ValueError: stream time would move back, or there is none before the first record.
        """
        highest, step = self.stream_time, driver_inputs.length_ms("advance_stream_time()", by)
        if highest is None:
            self._calls.check_open()
            raise WrongValueError("advance_stream_time(): no stream time before a first record")
        with self._calls.working():
            for part in self._parts:
                outputs = part.task.advance_stream_time(highest + step)
                self._process(deque(self._taken(part, outputs)))
                self._commit(part)

    def advance_wall_clock(self, by: Duration) -> None:
        """Let so much time pass (ms, ``"5s"``, a ``timedelta``); tasks do what is due."""
        with self._calls.working():
            self._wall.advance(driver_inputs.length_ms("advance_wall_clock()", by))
            for part in self._parts:
                self._process(deque(self._taken(part, part.task.resume(self._wall.now_ms()))))
                self._commit(part)

    # Results.

    @property
    def tasks(self) -> tuple[TaskId, ...]:
        """The tasks, one per subtopology and partition of what it reads."""
        return tuple(part.task.task for part in self._parts)

    def produced_topic_names(self) -> list[str]:
        """Names of the topics that records were written to so far, sorted."""
        return self._topics.produced()

    def read_output(
        self, topic: str, *, key: SerdeLike[Any] = None, value: SerdeLike[Any] = None
    ) -> list[OutputRecord]:
        """All records written to a topic since they were last read.

        They are decoded as the application encoded them. ``key`` and ``value`` say otherwise, which
        topics need that are no sink of the application, such as one for dead letters (else bytes).
        Where topics are chosen for each record, any name may be given.

        Raises:
            NotFoundError: the application writes no topic of this name.
            SerdeError: a record cannot be decoded as ``key`` or ``value`` says; the next call has
                all of them again.
        """
        serdes = zip((key, value), self._topics.serdes(topic), strict=True)
        of_key, of_value = (known if given is None else serde_of(given) for given, known in serdes)

        def read(record: OutputRecord) -> OutputRecord:
            return replace(
                record,
                key=driver_inputs.decoded(topic, "key", of_key, record.key),
                value=driver_inputs.decoded(topic, "value", of_value, record.value),
            )

        return self._topics.taken(topic, read)

    @overload
    def store(self, store: str, /, *, partition: int | None = None) -> Any: ...
    @overload
    def store(self, store: str, kind: type[S], /, *, partition: int | None = None) -> S: ...
    @overload
    def store(self, store: StoreBuilder[S], /, *, partition: int | None = None) -> S: ...
    def store(self, store: Any, kind: Any = None, /, *, partition: int | None = None) -> Any:
        """A store of the application, to read or to fill, as processors see it.

        ``kind`` is such as ``WindowStore[str, int]``; it is checked, the types are believed. Rows
        of a table are a ``KeyValueStore``, or a ``TimestampedStore`` if that is asked for.
        ``partition`` is that of the task, where there are several with this store.

        Raises:
            NotFoundError: there is no store of that name, or several and no partition is given.
            TypeError: it is of another kind.
            ValueError: the driver is closed.
        """
        self._calls.check_open()
        name = driver_inputs.store_name(store)
        tasks = [(part.task.task.partition, part.stores) for part in self._parts]
        return self._calls.given(shown_store(name, kind, partition, tasks, self._global_stores))

    def get_all_state_stores(self, *, partition: int | None = None) -> dict[str, Any]:
        """All stores by their names, each as ``store`` gives it; ``partition`` as there.

        Raises:
            NotFoundError: a store is in several tasks, and no partition is given; or none has it.
        """
        parts = [part for part in self._parts if partition in (None, part.task.task.partition)]
        if not parts and partition is not None:
            raise NotFoundError(f"no task has partition {partition}")
        names = {*self._global_stores.specs, *(n for part in parts for n in part.stores.specs)}
        return {name: self.store(name, partition=partition) for name in sorted(names)}

    def dropped(self) -> int:
        """Records left out by rule so far: null keys, negative timestamps."""
        return sum(part.task.counters.dropped for part in self._parts)

    def late(self) -> int:
        """Records left out of closed windows so far; a record counts for each of its windows."""
        return sum(part.task.counters.late for part in self._parts)

    def skipped(self) -> int:
        """Records that the error policy took out so far."""
        of_tasks = sum(part.task.counters.skipped for part in self._parts)
        return of_tasks + self._globals.counters.skipped

    def close(self) -> None:
        """Close the stores; what they held is gone, and those that ``store`` gave answer no more.

        Raises:
            ValueError: a function of the application calls it.
        """
        self._calls.close()
        for part in self._parts:
            part.task.close()
            part.state.close()
        self._globals.state.close()

    # Inside.

    def _open(self, subtopology: Subtopology, number: int) -> None:
        changelogs = {
            spec.name: TopicPartition(topic, number)
            for spec in subtopology.stores
            if (topic := subtopology.changelog_topic(spec.name)) is not None
        }
        state = TaskState.open(None, subtopology.stores, CACHE_BYTES, changelogs)
        state.row_headers = row_headers(state.stores, subtopology.stores, self._tracing.kept)
        state.check_entries(None, {})
        counts = self._topics.counts
        inputs = subtopology.inputs(number, counts)
        task = self._tracing.new_task(
            TaskId(subtopology.id, number),
            subtopology,
            state,
            dict.fromkeys(inputs, 0),
            policy=self._policy,
            partition_counts={topic: counts.get(topic, 1) for topic in subtopology.output_topics},
            wall_ms=self._wall.wall_ms,
            global_stores=self._globals.stores,
            pause=no_pause,
            idle_ms=self._idle_ms,
        )
        headed = {
            topic: counts.get(topic, 1)
            for topic in self._topology.topics_with_origins & {*subtopology.output_topics}
        }
        writer = EdgeWriter(headed, {tp: edge_of(tp) for tp in inputs}, headed)
        kept = DriverStores({spec.name: spec for spec in subtopology.stores}, task)
        opened = DriverTask(task, state, writer, kept)
        self._parts.append(opened)
        self._sources |= {tp.topic: subtopology.source_of(tp.topic) for tp in inputs}
        self._reader |= dict.fromkeys(inputs, opened)

    def _reading(self, topic: str) -> SourceNode:
        self._calls.check_open()
        if topic not in self._sources:
            known = listed(sorted(self._sources.keys() - self._topics.ours)) or "nothing yet"
            hint = ""
            if topic in self._topology.source_topics_among([topic]):
                hint = f"; name a topic that matches a pattern in partitions={{{topic!r}: 1}}"
            what = f"{self.application} does not read {shown(topic)}"
            raise NotFoundError(f"{what}; it reads {known}{hint}")
        return self._sources[topic]

    def _pipe(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamp_ms: Time | None,
        headers: Headers | None,
        partition: int | None,
    ) -> None:
        self._topics.check_partition(topic, partition)
        given = self._record_ms if timestamp_ms is None else timestamp_ms
        time = driver_inputs.time_ms("timestamp_ms=", given)
        head = driver_inputs.checked_headers(headers)
        heads: list[Headers | None] | None = [head] * len(keys) if head else None
        places = None if partition is None else [partition] * len(keys)
        times = [time] * len(keys)
        with self._calls.working():
            self._process(deque(self._topics.batches(topic, keys, values, times, heads, places)))

    def _process(self, batches: deque[PartitionBatch]) -> None:
        """Process batches and what comes of them in topics that are read, in order; commit."""
        while batches:
            batch = batches.popleft()
            if batch.topic in self._globals.topics:
                self._globals.apply(batch, self._wall.now_ms())
                batches.extend(self._letters)
                self._letters.clear()
                continue
            part = self._reader[TopicPartition(batch.topic, batch.partition)]
            batches.extend(self._taken(part, part.task.process(batch, self._wall.now_ms())))
            batches.extend(self._taken(part, part.task.settle()))
            self._commit(part)

    def _lettered(self, letter: Output) -> None:
        self._letters.extend(self._topics.take(letter))

    def _taken(self, part: DriverTask, outputs: Iterable[Output]) -> Iterator[PartitionBatch]:
        """Keep outputs to be read by the test; those the application reads, as input."""
        return chain.from_iterable(self._topics.take(part.origins.prefixed(o)) for o in outputs)

    def _commit(self, part: DriverTask) -> None:
        part.commits += 1
        drained = part.state.drain()
        part.state.write(drained, StateNumber(1, part.commits), {})
