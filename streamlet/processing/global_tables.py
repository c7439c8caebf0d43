"""Global tables of a worker: read before it joins the group, and on while it runs.

Each worker process has its own copy, since processes share no store: in a folder beside those of
the tasks, with the positions that it has come to, so that a restart reads only what is new. There
is no changelog: the topics are. A folder that does not go with its topics is emptied, and they are
read from their starts: a topic was created again, or lost records that the copy has not read, or
the copy is older than the topic remembers deletions.

Rows change between two rounds of the worker's loop, never amid a batch.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from streamlet.clock import Clock
from streamlet.counted import counted
from streamlet.errors import (
    MissingTopicError,
    OutOfRangeError,
    StateLockedError,
    StateMismatchError,
    TaskCorruptedError,
)
from streamlet.kafka.ports import Admin, PartitionBatch, RecordSink, RecordSource
from streamlet.kafka.reading import read_until
from streamlet.logs import get_logger
from streamlet.processing.global_state import GlobalState
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.record_collector import RecordCollector
from streamlet.processing.record_failures import RecordCounters, RetryPause
from streamlet.retries import Retries
from streamlet.state.directory import DATABASE, FolderLock
from streamlet.state.rocksdb_files import wipe_folder
from streamlet.state.store_commits import TaskStore
from streamlet.state.task_state import TaskState
from streamlet.topology.nodes import GlobalTableSpec
from streamlet.types import TopicPartition
from streamlet.user_code import listed

log = get_logger(__name__)

#: Records of one poll beside tasks.
STEP_RECORDS = 1_000
#: Progress is logged so often while tables are read at the start, ms.
LOG_MS = 5_000
#: A folder that another process still holds is waited for so long, ms: our own worker before.
LOCKED_MS = 30_000
#: Pause before it is tried again, ms.
LOCKED_RETRY_MS = 20


class GlobalTables:
    """The global tables of one worker.

    Args:
        tables: of the topology.
        folder: of the copy; it is locked, and released by ``close``.
        source: a consumer of its own.
        admin: knows the topics.
        clock: the time.
        policy: what becomes of records that cannot be decoded.
        sink: takes dead letters.
        application: its name, for them.
        flush_timeout_ms: how long their delivery may take.
        cache_bytes: bound on the objects in memory.
        write_ms: how often rows are written to the folder.
        look_ms: how often topics are looked at: for new partitions, and other ids.
    """

    def __init__(
        self,
        tables: Sequence[GlobalTableSpec],
        folder: Path,
        source: RecordSource,
        admin: Admin,
        clock: Clock,
        *,
        policy: ErrorPolicy,
        sink: RecordSink,
        application: str,
        flush_timeout_ms: int,
        cache_bytes: int,
        write_ms: int,
        look_ms: int,
    ) -> None:
        self._source, self._admin, self._clock = source, admin, clock
        self._cache_bytes, self._write_ms, self._look_ms = cache_bytes, write_ms, look_ms
        self._sink, self._flush_timeout_ms = sink, flush_timeout_ms
        letters = RecordCollector(sink, policy, application)
        self._pause = RetryPause(in_parts=True)
        self._lettered = 0  # of those that were delivered
        self._lock = _locked(folder, clock)
        try:
            opened = self._opened(tables)
            self._global = GlobalState(
                *(tables, opened, policy, application, letters.send_now, self._pause)
            )
        except BaseException:
            self._lock.release()
            raise
        self._next_write_ms = self._next_look_ms = 0
        self._assigned: set[TopicPartition] = set()

    @property
    def stores(self) -> Mapping[str, TaskStore]:
        """The stores by name."""
        return self._global.stores

    @property
    def lags(self) -> dict[TopicPartition, int]:
        """Records of each partition that were not read yet, where the end is known."""
        ends = {tp: self._source.known_end(tp) for tp in self._assigned}
        positions = self._global.positions
        return {tp: max(0, end - positions.get(tp, 0)) for tp, end in ends.items() if end}

    @property
    def topic_lags(self) -> tuple[tuple[str, int], ...]:
        """Each topic with the records of it that were not read yet, as of the last fetches."""
        lags = dict.fromkeys(self._global.topics, 0)
        for tp, lag in self.lags.items():
            lags[tp.topic] += lag
        return tuple(lags.items())

    @property
    def counters(self) -> RecordCounters:
        """Counts of the records that the error policy dropped."""
        return self._global.counters

    # Reading.

    def restore(self, keep_going: Callable[[], bool]) -> None:
        """Read the tables up to where their topics end now.

        ``keep_going`` is asked after each poll.

        Raises:
            MissingTopicError: a topic does not exist.
            BrokerError: the broker does not answer.
            ProcessingError: a record cannot be decoded.
            StateError: the folder cannot be written.
        """
        partitions = self._partitions()
        starts, ends = self._admin.start_offsets(partitions), self._admin.readable_ends(partitions)
        ids = self._admin.topic_ids(self._global.topics)
        reason = self._mistrust(starts, ends, ids)
        if reason:
            log.info("global tables are read from their topics' starts: %s", reason)
            self._source.unassign(sorted(self._assigned))
            self._assigned.clear()
            self._global.wipe()
        self._global.state.topic_ids = dict(ids)
        began_ms = self._clock.now_ms()
        begins = {tp: self._global.positions.get(tp, starts[tp]) for tp in partitions}
        read = self._read(begins, ends, keep_going)
        self._write()
        self._next_look_ms = self._clock.now_ms() + self._look_ms
        took = (self._clock.now_ms() - began_ms) / 1000
        log.info("read %s of global tables in %.1f s", counted(read, "record"), took)

    def _read(
        self,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        keep_going: Callable[[], bool],
    ) -> int:
        """Read to the ends, and on from there; how many records that were."""
        self._note_assigned(begins)
        read, log_ms = 0, self._clock.now_ms() + LOG_MS

        def goes_on() -> bool:
            nonlocal log_ms
            if self._clock.now_ms() >= log_ms:
                left = self._left(ends)
                log.info("reading global tables: %d records read, %d to come", read, left)
                log_ms = self._clock.now_ms() + LOG_MS
            return keep_going()

        for batch in read_until(
            *(self._source, ends),
            begins=begins,
            clock=self._clock,
            silent_ms=math.inf,  # a worker outlasts any outage
            reads_on=True,
            keep_going=goes_on,
        ):
            read += len(batch)
            self._apply(batch)
            while self._global.go_on(self._clock.now_ms()):
                self._pause.sit_out()  # nothing else can be done meanwhile
        return read

    def step(self) -> None:
        """Apply new changes, and write tables and positions to disk at intervals.

        Raises:
            BrokerError: what the client reports as fatal.
            ProcessingError: a record cannot be decoded.
            StateError: the folder cannot be written.
        """
        try:
            if not self._global.go_on(self._clock.now_ms()):
                for batch in self._source.poll(STEP_RECORDS, 0):
                    self._apply(batch)
        except OutOfRangeError as error:
            log.warning("a global table lost its place: %s", error)
            self._global.wipe()
            self.restore(lambda: True)
        now = self._clock.now_ms()
        if now >= self._next_write_ms:
            self._write()
        if now >= self._next_look_ms:
            self._look(now)

    def _look(self, now_ms: int) -> None:
        """Read new partitions, and a topic that was made again from its start."""
        self._next_look_ms = now_ms + self._look_ms
        partitions, ids = self._partitions(), self._admin.topic_ids(self._global.topics)
        known = self._global.state.topic_ids
        remade = sorted(topic for topic, one in ids.items() if known.get(topic, one) != one)
        if remade:
            log.warning("%s was deleted and made again: it is read whole", " and ".join(remade))
            self.restore(lambda: True)
            return
        new = set(partitions) - self._assigned
        self._assign(dict(self._admin.start_offsets(sorted(new))))

    def close(self) -> None:
        """Free the consumer and the folder."""
        self._source.close()
        self._admin.close()
        self._global.state.close()
        self._lock.release()

    def _partitions(self) -> list[TopicPartition]:
        found = self._admin.topics()
        missing = sorted(set(self._global.topics) - found.keys())
        if missing:
            raise MissingTopicError(
                f"the topic of a global table does not exist: {listed(missing)}; create it "
                "before the application starts, for example with streamlet topics create",
                hidden=missing,
            )
        return [
            TopicPartition(topic, number)
            for topic in self._global.topics
            for number in range(found[topic].partitions)
        ]

    def _assign(self, positions: Mapping[TopicPartition, int]) -> None:
        if positions:
            self._source.assign(positions)
            self._note_assigned(positions)

    def _note_assigned(self, positions: Mapping[TopicPartition, int]) -> None:
        self._assigned |= positions.keys()
        self._global.positions = {**self._global.positions, **positions}

    def _apply(self, batch: PartitionBatch) -> None:
        self._global.apply(batch, self._clock.now_ms())
        if self._global.state.dirty_bytes() > self._cache_bytes // 2:
            self._write()

    def _left(self, ends: Mapping[TopicPartition, int]) -> int:
        """Records still to read; offsets that are no records do not count once all was polled."""
        at = self._source.positions(sorted(ends))
        positions = self._global.positions
        left = {tp: end - max(positions[tp], at.get(tp, -1)) for tp, end in ends.items()}
        return sum(count for count in left.values() if count > 0)

    # The folder.

    def _opened(self, tables: Sequence[GlobalTableSpec]) -> TaskState:
        """The stores in the folder; what another topology, or damage, left there is emptied."""
        specs = [table.store for table in tables]
        folder = self._lock.folder
        try:
            return TaskState(folder, specs, self._cache_bytes)
        except (TaskCorruptedError, StateMismatchError) as error:
            log.warning("global tables are read again: %s", error)
            wipe_folder(folder / DATABASE)
            return TaskState(folder, specs, self._cache_bytes)

    def _mistrust(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        ids: Mapping[str, str],
    ) -> str:
        """The reason why the copy does not go with its topics; empty if it does."""
        state = self._global.state
        retentions = self._admin.delete_retentions(self._global.topics)
        for tp, position in self._global.positions.items():
            known, now = state.topic_ids.get(tp.topic), ids.get(tp.topic)
            if (known and now and known != now) or tp not in ends:
                return f"topic {tp.topic} was created again"
            if not starts[tp] <= position <= ends[tp]:
                return f"{tp} has {starts[tp]} to {ends[tp]}, the copy was built up to {position}"
            age_ms = self._clock.wall_ms() - state.times.get(tp, 0)
            if tp.topic in retentions and position < ends[tp] and age_ms > retentions[tp.topic]:
                return f"the copy is older than {tp.topic} remembers deletions"
        if self._global.positions and not state.on_disk:
            return "a table is in memory only"
        return ""

    def _write(self) -> None:
        """Write what changed, and until when it is known to be all."""
        self._next_write_ms = self._clock.now_ms() + self._write_ms
        if not self._global.changed:
            return
        if self._lettered != self.counters.dead_lettered:  # they go with the positions behind them
            self._sink.flush(self._flush_timeout_ms)
            self._lettered = self.counters.dead_lettered
        wall = self._clock.wall_ms()
        lags = self.lags
        self._global.write({tp: wall for tp in self._global.positions if not lags.get(tp)})


def _locked(folder: Path, clock: Clock) -> FolderLock:
    """Lock the folder, waiting for a former worker of this instance that still ends.

    Raises:
        StateError: the folder cannot be used.
    """
    tries = Retries(LOCKED_RETRY_MS, LOCKED_RETRY_MS, clock=clock, limit_ms=LOCKED_MS)
    return tries.until_done(
        lambda: FolderLock(folder / "task.lock", f"the folder of global tables {folder}"),
        wait=threading.Event().wait,
        failed=lambda error: log.debug("%s", error),
        passes=lambda error: isinstance(error, StateLockedError),
    )
