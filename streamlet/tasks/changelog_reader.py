"""Brings the stores of tasks up to a commit by reading their changelogs.

An open task knows its state, where each changelog ends, and the commit that counts. Many share one
consumer and are read side by side, a step at a time. What was read waits in memory until a chunk is
worth a file; all together stay below one bound.

What is read into an open task: ``open_task``. Whether its local state is believed: ``local_state``.
Which records of a changelog count: ``state.changelog``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from streamlet.clock import Clock
from streamlet.errors import BrokerError, TaskCorruptedError
from streamlet.kafka.ports import Admin, RecordSource
from streamlet.logs import get_logger
from streamlet.state.plain_reader import PlainReader
from streamlet.tasks import held_records, local_state
from streamlet.tasks.open_task import OPEN_END, ChangelogPart, OpenTask, Phase, RestoreProgress
from streamlet.tasks.opening import blamed
from streamlet.tasks.read_partitions import ReadPartitions
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
        held_bytes: bound on the bytes of records that wait for the proof of their commit.
    """

    _source: RecordSource
    _admin: Admin
    _clock: Clock
    progress: Callable[[RestoreProgress], None] | None = None
    _buffer_records: int = BUFFER_RECORDS
    _buffer_bytes: int = BUFFER_BYTES
    _held_bytes: int = held_records.HELD_BYTES
    _added: list[OpenTask] = attrs.field(factory=list, init=False)
    _runs: dict[TaskId, OpenTask] = attrs.field(factory=dict, init=False)
    _abandoned: list[OpenTask] = attrs.field(factory=list, init=False)
    #: Whether there was nothing to read in the last step.
    quiet: bool = attrs.field(default=True, init=False)
    _partitions: ReadPartitions = attrs.field(
        init=False, default=attrs.Factory(lambda self: ReadPartitions(self._source), True)
    )

    @property
    def idle(self) -> bool:
        """True if there is nothing to restore."""
        return not self._added and not self._runs

    @property
    def urgent(self) -> bool:
        """True if a preferred task is among those that are read."""
        return not self._partitions.preferred.isdisjoint(self._runs)

    def add(self, opened: OpenTask) -> None:
        """Restore this task, from the next step on."""
        self._added.append(opened)

    def remove(self, task: TaskId) -> None:
        """Give a task up, if it is here; its state is as far as it was written last."""
        self._added = [opened for opened in self._added if opened.task != task]
        self._abandoned = [opened for opened in self._abandoned if opened.task != task]
        opened = self._runs.pop(task, None)
        if opened is not None:
            self._partitions.stop(opened.parts)
            self._tell_all(opened, "suspended")

    def promote(self, task: TaskId, target: Target) -> bool:
        """Promote a followed task, see ``OpenTask.promote``; False also if it is not here.

        A later ``step`` gives it back as done.
        """
        added = (one for one in self._added if one.task == task)
        opened = self._runs.get(task) or next(added, None)
        if opened is None or not opened.promote(target):
            return False
        self._partitions.read_on(opened.parts)  # the topic of a table was read to an earlier commit
        return True

    def prefer(self, tasks: frozenset[TaskId]) -> None:
        """Read only these tasks for as long as any of them has something left to read.

        What was fetched of the others is let go: the last records of a task that changes hands
        would come behind it.
        """
        self._partitions.prefer(tasks)

    def extend(self, task: TaskId, ends: Mapping[TopicPartition, int]) -> None:
        """Let a followed task read source topics of its tables up to these offsets."""
        opened = self._runs.get(task)
        parts = () if opened is None else opened.parts
        tables = [p for p in parts if p.tp in ends and isinstance(p.reader, PlainReader)]
        for part in tables:
            part.end = max(part.end, ends[part.tp])
        self._partitions.read_on(tables)

    def lags(self) -> dict[TaskId, int]:
        """Records that the changelog furthest behind has still to read, by task begun.

        Not of tasks that wait for preferred ones: the ends of their logs are not read yet.
        """
        waiting = self._partitions.waiting_tasks
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

    def held(self) -> dict[TaskId, str]:
        """The reason why each waits for an open transaction, if it does for long."""
        return self._partitions.held(self._clock.now_ms())

    def _lag(self, part: ChangelogPart) -> int:
        end = self._partitions.known_end(part.tp) if part.end == OPEN_END else part.end
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
        self._partitions.stop_read()
        left = max_ms
        while True:
            done = self._finish()
            if done:
                return done
            read = bool(self._partitions) and self._read(polled, max(0, left))
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
        old = local_state.outdated(self._added, self._admin, self._clock.wall_ms())
        while self._added:  # what the broker does not answer for is begun in a later step
            opened = self._added[0]
            local_state.prepare_rewrite(opened, starts)
            reason = local_state.mistrust(opened, starts)
            # Nothing else has what is written again.
            if reason is None and not opened.target.rewrite:
                reason = local_state.outdated_table(opened, self._admin, self._clock.wall_ms())
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
                local_state.reader_of(opened, store, tp),
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
        self._partitions.read_on(opened.parts)
        self._runs[opened.task] = opened
        self._tell_all(opened, "start")

    def _look(self, tp: TopicPartition) -> tuple[int, int | None]:
        """Wall-clock time, and the end of a log that is read just now."""
        return self._clock.wall_ms(), self._partitions.end_just_now(tp)

    def _begin_again(self, opened: OpenTask, reason: str) -> None:
        starts = self._admin.start_offsets([part.tp for part in opened.parts])
        log.warning("task %s starts over: %s", opened.task, reason)
        self._partitions.stop(opened.parts)
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

    # Reading.

    def _read(self, most: int, timeout_ms: int) -> bool:
        """Poll once; True if anything came of it."""
        try:
            batches = self._partitions.poll(PREFERRED_RECORDS if self.urgent else most, timeout_ms)
        except BrokerError as error:
            found = self._begin_cut_off_again()
            self._partitions.trouble = None
            if not found:
                raise
            log.debug("restoring goes on after: %s", error)
            return True
        held_records.take(batches, self._partitions.parts, self._held_bytes, self._runs)
        self._partitions.reach()
        self._begin_outdated_again()
        stopped = self._partitions.stop_read()
        self._tell(self._clock.now_ms())
        return bool(batches) or stopped

    def _begin_outdated_again(self) -> None:
        """Begin tasks again whose state is old where compaction removed what it lacks."""
        for _, opened in sorted(self._runs.items()):
            gaps = [part for part in opened.parts if part.gap]
            if gaps:
                reason = f"{gaps[0].tp} was compacted behind its position, {gaps[0].outdated}"
                self._begin_again(opened, reason)

    def _begin_cut_off_again(self) -> bool:
        """Begin tasks again whose logs lost their positions meanwhile; True if there are any.

        A copy beyond the end of its log is perhaps all that is left of the state: it is read no
        more, and stays as it is. One whose owner has raised its log's start goes on there.
        """
        reading = self._partitions.parts
        starts = self._admin.start_offsets(list(reading))
        ends = self._admin.end_offsets(list(reading))
        runs = [opened for _, opened in sorted(self._runs.items())]
        read = [part for opened in runs for part in opened.parts if part.tp in reading]
        beyond = [p for p in read if p.position > ends[p.tp] and self._runs[p.task].followed]
        for part in beyond:
            log.warning("the copy of task %s is kept: %s lost records", part.task, part.tp)
            self._runs[part.task].parked = True
        self._partitions.stop(beyond)
        late = [p for p in read if p.position < starts[p.tp]]
        late = [p for p in late if self._runs[p.task].cut_by_owner(p.tp, starts[p.tp])]
        for part in late:
            part.position = starts[part.tp]
        self._partitions.read_from(late)
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
        preferred = self._partitions.preferred
        for part, opened in parts:
            if opened.task in preferred and part.loader.records > PREFERRED_RECORDS:
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
        """Write to the store; if it is damaged, begin the task again, once."""
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
