"""Brings the stores of tasks up to a commit by reading their changelogs.

An open task knows its state, where each changelog ends, and the commit that counts. Many share one
consumer and are read side by side, a step at a time. What was read waits in memory until a chunk is
worth a file; all together stay below one bound.

What is read into an open task: ``open_task``. Whether its local state is believed: ``local_state``.
Which records of a changelog count: ``state.changelog``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs

from streamlet.clock import Clock
from streamlet.errors import BrokerError, OutOfRangeError, TaskCorruptedError
from streamlet.kafka.ports import Admin, RecordSource
from streamlet.logs import get_logger
from streamlet.state.plain_reader import PlainReader
from streamlet.tasks.local_state import (
    mistrust,
    outdated,
    outdated_table,
    prepare_rewrite,
    reader_of,
)
from streamlet.tasks.open_task import (
    OPEN_END,
    ChangelogPart,
    OpenTask,
    Phase,
    RestoreProgress,
)
from streamlet.tasks.opening import blamed
from streamlet.tasks.target import Target
from streamlet.types import NO_STATE, TaskId, TopicPartition

log = get_logger(__name__)

#: Records of one poll.
POLL_RECORDS = 10_000
#: What all tasks together may hold in memory before the largest chunk is written.
BUFFER_RECORDS = 250_000
BUFFER_BYTES = 64 << 20
#: A step shorter than this is one between other things; chunks are then kept so small that writing
#: one takes some ten milliseconds.
SHORT_STEP_MS = 50
SHORT_STEP_RECORDS = 10_000
#: Records of one poll, and how many polls are held before the largest chunk is written, while tasks
#: run beside: the client makes a list of a poll, and RocksDB writes a chunk, without letting
#: another thread have the interpreter: 10,000 records held a full machine's loop up to 140 ms.
GENTLE_RECORDS = 1_000
GENTLE_POLLS = 4
#: What a preferred task may hold in memory: little is then left to write when it is promoted. And
#: what is read at once while there is one, so that an order to promote it is taken soon.
PREFERRED_RECORDS = 500
#: Progress of a store is reported no more often than this.
PROGRESS_MS = 250


@attrs.define(eq=False, slots=False)
class StoreChangelogReader:
    """Restores tasks side by side; see the module. For one thread.

    Args:
        source: a consumer of its own, with headers (tombstones bear their number there).
        admin: for the starts of changelogs.
        clock: for the bound of a step and for rates.
        progress: called with the progress of each store, a few times a second and at its end.
        buffer_records: bound on the records held in memory.
        buffer_bytes: bound on their bytes.
    """

    _source: RecordSource
    _admin: Admin
    _clock: Clock
    progress: Callable[[RestoreProgress], None] | None = None
    _buffer_records: int = BUFFER_RECORDS
    _buffer_bytes: int = BUFFER_BYTES
    _added: list[OpenTask] = attrs.field(factory=list, init=False)
    _runs: dict[TaskId, OpenTask] = attrs.field(factory=dict, init=False)
    #: Partitions with something left to read: assigned to the consumer, all but the waiting.
    _open: dict[TopicPartition, ChangelogPart] = attrs.field(factory=dict, init=False)
    _abandoned: list[OpenTask] = attrs.field(factory=list, init=False)
    _preferred: frozenset[TaskId] = attrs.field(factory=frozenset, init=False)
    #: Whether there was nothing to read in the last step.
    quiet: bool = attrs.field(default=True, init=False)
    #: Those that wait until preferred tasks are done: not assigned meanwhile, since librdkafka
    #: may take some hundred ms to fetch a partition again that was paused.
    _waiting: set[TopicPartition] = attrs.field(factory=set, init=False)
    #: What the client said last, which it says but once, until it is known what came of it.
    _trouble: BrokerError | None = attrs.field(default=None, init=False)

    @property
    def idle(self) -> bool:
        """True if there is nothing to restore."""
        return not self._added and not self._runs

    @property
    def urgent(self) -> bool:
        """True if a preferred task is among those that are read."""
        return not self._preferred.isdisjoint(self._runs)

    def add(self, opened: OpenTask) -> None:
        """Restore this task, from the next step on."""
        self._added.append(opened)

    def remove(self, task: TaskId) -> None:
        """Give a task up, if it is here; its state is as far as it was written last."""
        self._added = [opened for opened in self._added if opened.task != task]
        self._abandoned = [opened for opened in self._abandoned if opened.task != task]
        opened = self._runs.pop(task, None)
        if opened is not None:
            self._stop(opened.parts)
            self._tell_all(opened, "suspended")

    def promote(self, task: TaskId, target: Target) -> bool:
        """Promote a followed task, see ``OpenTask.promote``; False also if it is not here.

        A later ``step`` gives it back as done.
        """
        added = (one for one in self._added if one.task == task)
        opened = self._runs.get(task) or next(added, None)
        if opened is None or not opened.promote(target):
            return False
        self._read_on(opened.parts)  # the topic of a table was read to an earlier commit
        return True

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        """Read only these tasks for as long as any of them has something left to read.

        What was fetched of the others is let go: the last records of a task that changes hands
        would come behind it.
        """
        if tasks != self._preferred:
            self._preferred = tasks
            self._share()

    def _share(self) -> None:
        """Assign what is to be read now."""
        first = {tp for tp, part in self._open.items() if part.task in self._preferred}
        wait = set(self._open) - first if first else set()
        waited, self._waiting = self._waiting, wait
        if wait - waited:
            self._source.unassign(sorted(wait - waited))
        if waited - wait:
            self._source.assign({tp: self._open[tp].position for tp in sorted(waited - wait)})

    def extend(self, task: TaskId, ends: Mapping[TopicPartition, int]) -> None:
        """Let a followed task read source topics of its tables up to these offsets."""
        opened = self._runs.get(task)
        parts = () if opened is None else opened.parts
        tables = [p for p in parts if p.tp in ends and isinstance(p.reader, PlainReader)]
        for part in tables:
            part.end = max(part.end, ends[part.tp])
        self._read_on(tables)

    def lags(self) -> dict[TaskId, int]:
        """Records that the changelog furthest behind has still to read, by task begun.

        Of tasks that wait for preferred ones it is not known: the ends of their logs are not read
        yet.
        """
        waiting = {self._open[tp].task for tp in self._waiting}
        return {
            task: max(map(self._lag, opened.parts), default=0)
            for task, opened in self._runs.items()
            if task not in waiting
        }

    def reads(self) -> dict[TaskId, tuple[int, int]]:
        """Offset reached and end, summed over the changelogs, by task begun."""
        return {
            task: (
                sum(part.position for part in opened.parts),
                sum(part.position + self._lag(part) for part in opened.parts),
            )
            for task, opened in self._runs.items()
        }

    def _lag(self, part: ChangelogPart) -> int:
        end: int | None = part.end
        if end == OPEN_END:
            end = None if part.tp in self._waiting else self._source.known_end(part.tp)
        if end is None:
            end = self._runs[part.task].ends[part.tp]
        return max(0, end - part.position)

    def step(self, max_ms: int, *, gentle: bool = False) -> list[OpenTask]:
        """Restore for about so long; returns as soon as tasks are done, with those.

        Reads at least once. Reading and writing a chunk is not interrupted, so a step can take
        longer. ``gentle``: tasks run beside; so little that it takes a millisecond or two.

        Raises:
            BrokerError: the changelogs cannot be read.
            StateError: a store cannot be written, or a record is not streamlet's; it names the
                task, which stays here until ``remove``.
        """
        until = self._clock.now_ms() + max_ms
        polled = GENTLE_RECORDS if gentle else POLL_RECORDS
        held = SHORT_STEP_RECORDS if max_ms < SHORT_STEP_MS else self._buffer_records
        held = GENTLE_POLLS * GENTLE_RECORDS if gentle else held
        self._begin_added()
        self._stop_read()
        left = max_ms
        while True:
            done = self._finish()
            if done:
                return done
            read = bool(self._open) and self._read(polled, max(0, left))
            self._write_chunks(held)
            self.quiet = not read
            if not read:
                return []
            left = until - self._clock.now_ms()
            if left <= 0:
                return self._finish()

    def close(self) -> None:
        """Give up everything and free the consumer; the states stay open."""
        for task in [*self._runs]:
            self.remove(task)
        self._added = []
        self._source.close()

    # Beginning, and beginning again.

    def _begin_added(self) -> None:
        wanted = sorted({tp for opened in self._added for tp in opened.state.changelogs.values()})
        starts = self._admin.start_offsets(wanted) if wanted else {}
        old = outdated(self._added, self._admin, self._clock.wall_ms())
        while self._added:  # what the broker does not answer for is begun in a later step
            opened = self._added[0]
            prepare_rewrite(opened, starts)
            reason = mistrust(opened, starts)
            # Nothing else has what is written again.
            if reason is None and not opened.target.rewrite:
                reason = outdated_table(opened, self._admin, self._clock.wall_ms())
            if reason is not None:
                log.warning("task %s starts over: %s", opened.task, reason)
                with blamed(opened.task):
                    opened.state.wipe()
            self._begin(opened, starts, old)
            del self._added[0]

    def _begin(
        self,
        opened: OpenTask,
        starts: Mapping[TopicPartition, int],
        old: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Read what a task lacks; ``old`` says why changelogs may have forgotten some of that."""
        state, now, ids = opened.state, self._clock.now_ms(), opened.target.topic_ids or {}
        kept = old if old and state.positions else {}
        for tp in state.changelogs.values():
            if ids.get(tp.topic):
                state.topic_ids[tp.topic] = ids[tp.topic]
        opened.parts = [
            ChangelogPart(
                opened.task,
                tp,
                store,
                reader_of(opened, store, tp),
                state.loader(store),
                max(state.positions.get(tp, 0), starts[tp]),
                OPEN_END if opened.followed and store not in state.plain else opened.ends[tp],
                started_ms=now,
                reported_ms=now,
                outdated=kept.get(tp, ""),
                outdated_end=opened.ends[tp],
                look=partial(self._look, tp) if opened.followed else None,
            )
            for store, tp in sorted(state.changelogs.items())
        ]
        opened.begun = True
        self._read_on(opened.parts)
        self._runs[opened.task] = opened
        self._tell_all(opened, "start")

    def _look(self, tp: TopicPartition) -> tuple[int, int | None]:
        """Wall-clock time, and the end of a log that is read just now."""
        read = tp in self._open and tp not in self._waiting
        return self._clock.wall_ms(), self._source.known_end(tp) if read else None

    def _begin_again(self, opened: OpenTask, reason: str) -> None:
        starts = self._admin.start_offsets([part.tp for part in opened.parts])
        log.warning("task %s starts over: %s", opened.task, reason)
        self._stop(opened.parts)
        self._tell_all(opened, "suspended")
        if opened.target.rewrite and opened.target.limit not in (None, NO_STATE):
            self._abandon(opened)
            return
        with blamed(opened.task):
            opened.state.wipe()
        self._begin(opened, starts)

    def _abandon(self, opened: OpenTask) -> None:
        """Give up a task whose local state is damaged, and not in its changelogs either."""
        with blamed(opened.task):
            opened.state.wipe()
        del self._runs[opened.task]
        opened.beyond = opened.target.limit or NO_STATE
        self._abandoned.append(opened)

    def _read_on(self, parts: Sequence[ChangelogPart]) -> None:
        """Have the consumer read those that are behind their end."""
        behind = {p.tp: p for p in parts if p.position < p.end and p.tp not in self._open}
        if behind:
            self._source.assign({tp: part.position for tp, part in behind.items()})
            self._open.update(behind)
            self._share()

    def _stop(self, parts: Sequence[ChangelogPart]) -> None:
        reading = [part.tp for part in parts if self._open.pop(part.tp, None) is not None]
        if reading:
            self._waiting.difference_update(reading)
            self._source.unassign(reading)
            if isinstance(self._trouble, OutOfRangeError) and self._trouble.partition in reading:
                self._trouble = None
            self._share()

    # Reading.

    def _read(self, most: int, timeout_ms: int) -> bool:
        """Poll once; whether anything came of it."""
        try:
            if self._trouble is not None:
                raise self._trouble
            batches = self._source.poll(PREFERRED_RECORDS if self.urgent else most, timeout_ms)
        except BrokerError as error:
            self._trouble = error  # no broker may be there to say where logs begin
            found = self._begin_cut_off_again()
            self._trouble = None
            if not found:
                raise
            log.debug("restoring goes on after: %s", error)
            return True
        for batch in batches:
            part = self._open.get(TopicPartition(batch.topic, batch.partition))
            if part is not None:
                with blamed(part.task):
                    part.take(batch)
        reading = list(self._open.keys() - self._waiting)
        for tp, position in self._source.positions(reading).items():  # past gaps without records
            self._open[tp].reach(position)
        self._begin_outdated_again()
        stopped = self._stop_read()
        self._tell(self._clock.now_ms())
        return bool(batches) or stopped

    def _stop_read(self) -> bool:
        """Read no more of what was read to its end, in one call; whether there was any."""
        read = [part for part in self._open.values() if part.position >= part.end]
        self._stop(read)
        return bool(read)

    def _begin_outdated_again(self) -> None:
        """Begin tasks again whose state is old where compaction removed what it lacks."""
        for _, opened in sorted(self._runs.items()):
            gaps = [part for part in opened.parts if part.gap]
            if gaps:
                reason = f"{gaps[0].tp} was compacted behind its position, {gaps[0].outdated}"
                self._begin_again(opened, reason)

    def _begin_cut_off_again(self) -> bool:
        """Begin tasks again whose logs lost their positions meanwhile; whether there are any.

        A copy beyond the end of its log is perhaps all that is left of the state: it is read no
        more, and stays as it is. One whose owner has raised its log's start goes on there.
        """
        starts = self._admin.start_offsets(list(self._open))
        ends = self._admin.end_offsets(list(self._open))
        read = [
            p
            for _, opened in sorted(self._runs.items())
            for p in opened.parts
            if p.tp in self._open
        ]
        beyond = [p for p in read if p.position > ends[p.tp] and self._runs[p.task].followed]
        for part in beyond:
            log.warning("the copy of task %s is kept: %s lost records", part.task, part.tp)
            self._runs[part.task].parked = True
        self._stop(beyond)
        late = [p for p in read if p.position < starts[p.tp]]
        late = [p for p in late if self._runs[p.task].cut_by_owner(p.tp, starts[p.tp])]
        for part in late:
            part.position = starts[part.tp]
        self._source.assign({p.tp: p.position for p in late if p.tp not in self._waiting})
        cut_off = {
            part.task: self._runs[part.task]
            for part in read
            if not starts[part.tp] <= part.position <= ends[part.tp] and part not in beyond
        }
        for opened in cut_off.values():
            self._begin_again(opened, "its changelog was cut off while it was read")
        return bool(cut_off or beyond or late)

    # Writing.

    def _write_chunks(self, records: int) -> None:
        """Write the largest chunks until what stays in memory is below the bounds."""
        parts = [(part, opened) for opened in self._runs.values() for part in opened.parts]
        for part, opened in parts:
            if opened.task in self._preferred and part.loader.records > PREFERRED_RECORDS:
                self._written(opened, part.flush)
                return  # one at a time: there may be an order by now
        held = sum(part.loader.records for part, _ in parts)
        size = sum(part.loader.bytes for part, _ in parts)
        parts.sort(key=lambda pair: pair[0].loader.bytes, reverse=True)
        for part, opened in parts:
            if held <= records and size <= self._buffer_bytes:
                return
            held -= part.loader.records
            size -= part.loader.bytes
            if not self._written(opened, part.flush):
                return

    def _finish(self) -> list[OpenTask]:
        """Write the last of the tasks that have read everything; those."""
        read = [opened for _, opened in sorted(self._runs.items()) if opened.read]
        done = [opened for opened in read if self._written(opened, opened.finish)]
        for opened in done:
            del self._runs[opened.task]
            self._tell_all(opened, "end")
        abandoned, self._abandoned = self._abandoned, []
        return done + abandoned

    def _written(self, opened: OpenTask, write: Callable[[], None]) -> bool:
        """Write; if the store turns out to be damaged, begin the task again, once."""
        try:
            with blamed(opened.task):
                write()
        except TaskCorruptedError as error:
            if opened.wiped:
                raise
            self._begin_again(opened, str(error))
            opened.wiped = True
            return False
        return True

    def _tell(self, now: int) -> None:
        if self.progress is None:
            return
        for opened in self._runs.values():
            for part in opened.parts:
                if part.position < part.end and now - part.reported_ms >= PROGRESS_MS:
                    self.progress(part.progress("batch", now))

    def _tell_all(self, opened: OpenTask, phase: Phase) -> None:
        if self.progress is not None:
            now = self._clock.now_ms()
            for part in opened.parts:
                self.progress(part.progress(phase, now))
