"""Commits under at-least-once: nothing lost, a task's state exact with its committed positions.

The order is the whole point. First everything written so far is delivered: outputs, and the stores'
dirty entries as changelog records that bear the commit's number. Then the input positions are
committed through our membership, so that a process that lost its tasks is refused. Only when that
is accepted are the entries written to the local store. A crash at any point leaves a store that is
never ahead of the commit, and changelog records that the next owner knows not to count.

One commit is under way at most. While the coordinator answers, processing goes on; the entries of
the commit stay readable in the cache. After an unknown outcome the very same commit is repeated, in
a new generation, before the next one begins.

What takes long is done task by task, a few milliseconds a call, with batches processed in between:
encoding what is dirty before the commit, writing it to the local stores after it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import attrs

from streamlet.clock import Clock
from streamlet.errors import (
    BrokerError,
    ChangelogLostError,
    EntryTooLargeError,
    RecordRefusedError,
    StateError,
    TaskMigratedError,
)
from streamlet.group.session_events import CommitOutcome
from streamlet.kafka.ports import Admin, RecordSink, RecordSource
from streamlet.runtime.active import ActiveTask, TaskStage
from streamlet.runtime.opening import blamed
from streamlet.runtime.task_commit import (
    TaskCommit,
    claim_of,
    local_positions,
    same_of,
    times_of,
)
from streamlet.runtime.zombie_writes import foreign_keys
from streamlet.state.backing import Columns
from streamlet.state.changelog import encode_column
from streamlet.state.entries import CommitEntry, entry_last
from streamlet.types import StateNumber, TaskId, TopicPartition

log = logging.getLogger(__name__)

#: How often the changelogs of a task that has nothing to write are looked at all the same, ms: well
#: within the time for which they are not compacted (``topology.internal_topics``).
LOOK_MS = 300_000
#: How long one call may go on with the next task; one task is never cut in pieces.
STEP_NS = 4_000_000
#: How often to check whether the first records of our changelogs were deleted.
STARTS_MS = 5_000


class CommitGroup(Protocol):
    """The part of the membership that commits use (``group.session``)."""

    @property
    def member_id(self) -> str:
        """Our id in the group."""
        ...

    @property
    def generation(self) -> int:
        """The last synced generation."""
        ...

    @property
    def gated(self) -> bool:
        """True if a commit would be refused: a join is under way, or the tasks were lost."""
        ...

    def commit(
        self,
        token: int,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        hold: int | None = None,
    ) -> None:
        """Send; the answer comes as an event with the token. ``hold``: the unit it belongs to."""
        ...

    def alive(self) -> bool:
        """True if a heartbeat was answered within the session timeout; if not, one is tried now."""
        ...


@attrs.frozen(eq=False)
class Settled:
    """A commit and what became of it.

    ``hold`` is the token of the unit that it belongs to, if any; ``last``: it ends that unit.
    """

    outcome: CommitOutcome
    parts: tuple[TaskCommit, ...]
    hold: int | None = None
    last: bool = False


class AtLeastOnceCommit:
    """The commit port of the worker.

    Args:
        group: our membership.
        sink: where outputs and changelog records go, one queue for both.
        admin: tells where changelogs end.
        clock: for measuring.
        open_source: a consumer with headers, to read the zombie writes in a changelog.
        flush_timeout_ms: how long delivery may take.
        look_ms: how often a stateful task is committed though it has nothing to say, to find what
            others wrote to its changelogs, and to note the age of its stores.
    """

    def __init__(
        self,
        group: CommitGroup,
        sink: RecordSink,
        admin: Admin,
        clock: Clock,
        *,
        open_source: Callable[[], RecordSource],
        flush_timeout_ms: int,
        look_ms: int = LOOK_MS,
    ) -> None:
        self._group = group
        self._sink = sink
        self._admin = admin
        self._clock = clock
        self._open_source = open_source
        self._flush_timeout_ms = flush_timeout_ms
        self._look_ms = look_ms
        self._token = 0
        self._starts_at_ms = clock.now_ms() + STARTS_MS
        #: The one commit under way: prepared, and perhaps sent. Empty when there is none.
        self._parts: list[TaskCommit] = []
        #: Tasks that it is to cover too, and parts of the one before that are not yet written.
        self._unprepared: deque[ActiveTask] = deque()
        self._unwritten: deque[TaskCommit] = deque()
        self._delivered = False
        self._sent = False
        #: Member id that the commit under way was sent under.
        self._by = ""
        #: The unit that the commit under way belongs to, and whether it ends that: its tasks are
        #: stopped for good.
        self._hold: int | None = None
        self._last = False
        #: Commits accepted so far, and nanoseconds their flushes took, for metrics.
        self.accepted = 0
        self.flush_ns = 0
        #: Called with a task before its share is taken: ends the batch that it has under way.
        self.settle: Callable[[ActiveTask], None] = lambda active: None

    @property
    def under_way(self) -> bool:
        """True if a commit is not yet accepted, or not yet written to the local stores."""
        return bool(self._parts or self._unprepared or self._unwritten)

    @property
    def sent(self) -> bool:
        """True if the coordinator has not answered a commit yet."""
        return self._sent

    def begin(
        self, tasks: Iterable[ActiveTask], hold: int | None = None, *, at_once: bool = False
    ) -> None:
        """Prepare and send a commit of every task that has something to say, claims included.

        With one under way, go on with that, and send it again if it was turned away: call this
        until it is sent, or with ``at_once`` just once. ``hold`` is the token of a unit that waits
        for it: a join that is due waits for that unit, so it goes out all the same, and at once.

        Raises:
            TaskMigratedError: our last heartbeat is too old and the group does not know us any
                more.
            DeliveryError: something was not delivered; nothing was committed.
            BrokerError: the broker does not answer just now; call again.
            StateError: a task's stores fail, which the error names; ``forget`` it and call again.
        """
        most_ns = None if at_once or hold is not None else STEP_NS
        if self._unwritten:
            self._write(most_ns)
            return
        if self._hold is None and self.under_way:
            self._hold = hold
        if self._hold is None and self._group.gated:
            return
        if not self.under_way:
            self._start(list(tasks))
        self._prepare(most_ns)
        if not self._unprepared:
            self._go_on()

    def begin_claims(self, hold: int, tasks: Sequence[ActiveTask]) -> bool:
        """Claim those stopped tasks of a unit that were not claimed yet; False: there is none.

        What they did can only be committed after that. Raises as ``begin``.
        """
        assert not self.under_way, "two commits under way"
        self._parts = [claim_of(active) for active in tasks if not active.claimed]
        if not self._parts:
            return False
        self._delivered, self._hold = True, hold
        self._go_on()
        return True

    def begin_last(
        self, hold: int, tasks: Sequence[ActiveTask], marks: Mapping[TaskId, str]
    ) -> None:
        """Commit stopped tasks, as the unit of a granted hold; none may be under way.

        Every one of them is committed, also with nothing new to say: ``marks`` tells whom it is
        released to. Raises as ``begin``.
        """
        assert not self.under_way, "two commits under way"
        if not self._group.alive():
            raise TaskMigratedError("no heartbeat was answered for a session timeout")
        self._delivered = False
        self._hold, self._last = hold, True
        self._parts = [self._flush_state(active) for active in tasks]
        for part in self._parts:
            part.release_to = marks.get(part.active.task)
        self._go_on()

    def _go_on(self) -> None:
        if self._parts and not self._delivered:
            self._deliver()
        if self._parts and not self._sent:
            self._send()

    def done(self, token: int, outcome: CommitOutcome, code: int) -> Settled | None:
        """Take the coordinator's answer; None if no commit waits for it any more.

        A commit that was turned away, or whose outcome is unknown, stays under way and is sent
        again by ``begin``, without its marks: the order they answered is not held any more.

        Raises:
            BrokerError: the coordinator will never accept it.
        """
        if token != self._token or not self._sent:
            return None
        self._sent = False
        settled = Settled(outcome, tuple(self._parts), self._hold, self._last)
        self._end_unit()
        match outcome:
            case CommitOutcome.ACCEPTED:
                self._accepted()
            case CommitOutcome.REFUSED:
                raise BrokerError(f"the group coordinator refused a commit (error {code})")
            case CommitOutcome.LOST:
                self.abort()
            case CommitOutcome.GATED | CommitOutcome.SWITCHED | CommitOutcome.UNKNOWN:
                log.debug("commit %d: %s; the same again later", token, outcome)
                for part in self._parts:
                    part.release_to = None
        return settled

    def forget(self, active: ActiveTask) -> None:
        """Leave a task that is about to be closed out of the commit under way.

        What was accepted of it is written: its copy on disk is then as of its last commit.
        """
        self._parts = [part for part in self._parts if part.active is not active]
        self._unprepared = deque(task for task in self._unprepared if task is not active)
        for part in [part for part in self._unwritten if part.active is active]:
            self._unwritten.remove(part)
            try:
                _write(part)
            except StateError as error:
                log.warning("the copy of %s stays as of the commit before: %s", active.task, error)

    def abort(self) -> None:
        """Drop the commit under way."""
        self._parts = []
        self._unprepared.clear()
        self._sent = False
        self._end_unit()

    def _end_unit(self) -> None:
        self._hold, self._last = None, False

    def forget_queued(self) -> None:
        """Deliver nothing any more of what was written so far: all tasks it stems from are lost."""
        self._sink.reset()

    def finish(self) -> None:
        """Write all that was accepted to the local stores.

        Raises:
            StateError: a store refuses.
        """
        self._write(None)

    def _start(self, tasks: Sequence[ActiveTask]) -> None:
        """Say what a commit covers: claims, and tasks of which something is to be sent."""
        running = [t for t in tasks if t.stage in (TaskStage.RUNNING, TaskStage.STOPPED)]
        changed = [t for t in running if t.claimed and (t.changed or self._look_due(t))]
        if changed and not self._group.alive():
            raise TaskMigratedError("no heartbeat was answered for a session timeout")
        self._delivered = not changed
        self._parts = [claim_of(t) for t in running if not t.claimed]
        self._unprepared = deque(changed)

    def _look_due(self, active: ActiveTask) -> bool:
        due = self._clock.now_ms() - active.looked_ms >= self._look_ms
        return due and active.subtopology.stateful

    def _prepare(self, most_ns: int | None) -> None:
        """Send what the next tasks have to say; what is dirty then belongs to the next commit.

        A running task in the middle of a batch has its share in a later commit.
        """
        began = self._clock.now_ns()
        while self._unprepared:
            active = self._unprepared[0]
            if active.stage is TaskStage.STOPPED or active.can_commit():
                self._parts.append(self._flush_state(active))
            self._unprepared.popleft()
            if most_ns is not None and self._clock.now_ns() - began >= most_ns:
                return

    def _write(self, most_ns: int | None) -> None:
        """Write what was accepted of the next tasks to their stores."""
        began = self._clock.now_ns()
        while self._unwritten:
            _write(self._unwritten[0])
            self._unwritten.popleft()
            if most_ns is not None and self._clock.now_ns() - began >= most_ns:
                return

    def _deliver(self) -> None:
        """Wait until all of it is delivered, and note where the changelogs end."""
        started = self._clock.now_ns()
        parts = [part for part in self._parts if part.drained is not None]
        self._sink.flush(self._flush_timeout_ms)
        self._read_ends(parts)
        while self._overwrite_zombie_writes(parts):
            self._sink.flush(self._flush_timeout_ms)
            self._read_ends(parts)
        self._delivered = True
        taken_ns = self._clock.now_ns() - started
        self.flush_ns += taken_ns
        log.debug("delivered in %d ms", taken_ns // 1_000_000)

    def _flush_state(self, active: ActiveTask) -> TaskCommit:
        """Send the dirty entries of a task's stores to their changelogs."""
        assert active.processor is not None
        self.settle(active)
        if active.processor.calling:
            log.info("task %s: its next owner repeats what its calls are made for", active.task)
            return same_of(active)
        number = active.number + 1
        contained = StateNumber(active.epoch, number)
        with blamed(active.task):
            drained = active.state.drain()
        positions = dict(active.processor.positions)
        part = TaskCommit(active, number, positions, contained, drained, active.notes_now)
        part.checked = dict(active.ends)
        part.look = self._look_due(active)
        flushed: dict[TopicPartition, Columns] = {}
        for store, columns in drained.columns.items():
            changelog = active.changelog(store)
            if changelog is not None:
                flushed[changelog] = columns
        if number == 1:
            flushed = _fences(active) | flushed
        active.written |= {changelog.topic: number for changelog in flushed}
        starts = {} if part.rebuilt is None else part.rebuilt.starts
        written_from = {tp.topic: start for tp, start in starts.items()}
        entry = CommitEntry(contained, positions, active.written, written_from).header()
        for changelog, columns in flushed.items():
            self._send_flush(part, changelog, columns, entry)
        return part

    def _send_flush(
        self,
        part: TaskCommit,
        changelog: TopicPartition,
        columns: Columns,
        entry: tuple[str, bytes],
    ) -> None:
        """Send a flush to one changelog; its last record bears the commit entry."""
        keys, values = entry_last(columns.keys, columns.values)
        self._send_entries(part, changelog, keys[:-1], values[:-1])
        try:
            self._send_entries(part, changelog, keys[-1:], values[-1:], entry)
        except EntryTooLargeError:  # perhaps without the entry it is not
            self._send_entries(part, changelog, keys[-1:], values[-1:])

    def _send_entries(
        self,
        part: TaskCommit,
        changelog: TopicPartition,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        entry: tuple[str, bytes] | None = None,
    ) -> None:
        if not keys:
            return
        encoded, headers = encode_column(part.contained, values)
        if entry is not None:
            headers = [(*(head or ()), entry) for head in headers or [None] * len(keys)]
        try:
            self._sink.send(
                changelog.topic, keys, encoded, partitions=changelog.partition, headers=headers
            )
        except RecordRefusedError as refused:
            if not refused.too_large:
                raise
            task, key = part.active.task, keys[refused.index]
            raise EntryTooLargeError(
                f"task {task}, key {key[:100]!r}: {refused}", task
            ) from refused
        part.sent[changelog] = part.sent.get(changelog, 0) + len(keys)

    def _overwrite_zombie_writes(self, parts: Sequence[TaskCommit]) -> bool:
        """Write the keys again that another process wrote since our last flush; True if there were.

        What they had contained is as of this commit, so the values are the drained ones.
        """
        found = False
        for part in parts:
            for changelog, store in part.active.stores_by_changelog.items():
                start, end = part.checked[changelog], part.ends[changelog]
                if end <= start + part.sent.get(changelog, 0):
                    self._checked(part, changelog)
                    continue
                keys = foreign_keys(
                    self._open_source,
                    changelog,
                    start,
                    end,
                    part.active.epoch,
                    clock=self._clock,
                    timeout_ms=self._flush_timeout_ms,
                )
                self._checked(part, changelog)  # not before: they may not be readable just now
                log.warning(
                    "%s: a process that lost the task wrote %d keys; writing them again",
                    changelog,
                    len(keys),
                )
                with blamed(part.active.task):
                    values = part.active.state.encoded(store, keys)
                self._send_entries(part, changelog, keys, values)
                found = True
        return found

    @staticmethod
    def _checked(part: TaskCommit, changelog: TopicPartition) -> None:
        """Note that all zombie writes up to its end will be overwritten."""
        part.sent.pop(changelog, None)
        part.checked[changelog] = part.ends[changelog]

    def _read_ends(self, parts: Sequence[TaskCommit]) -> None:
        """One request for the ends of all changelogs just written; the others have not moved.

        Raises:
            ChangelogLostError: one is shorter than what we know to be in it.
        """
        wanted = [tp for part in parts for tp in part.active.changelogs]
        wanted += [tp for part in parts if part.look for tp in part.active.tables]
        now_ms, ends = self._clock.wall_ms(), self._admin.end_offsets(wanted)
        self._look_at_starts(parts)
        for part in parts:
            part.ends_ms = now_ms
            part.ends = {tp: ends[tp] for tp in part.active.changelogs}
            part.table_ends = {tp: ends[tp] for tp in part.active.tables if tp in ends}
            for tp, end in part.ends.items():
                known = part.checked[tp] + part.sent.get(tp, 0)
                if end < known:
                    raise ChangelogLostError(
                        f"{tp} ends at {end}, although it was written up to {known}: it lost "
                        "records or was created again"
                    )

    def _look_at_starts(self, parts: Sequence[TaskCommit]) -> None:
        """Look from time to time whether the changelogs still begin where they did."""
        now = self._clock.now_ms()
        if now < self._starts_at_ms:
            return
        self._starts_at_ms = now + STARTS_MS
        starts = self._admin.start_offsets([tp for part in parts for tp in part.active.changelogs])
        for part in parts:
            whole = {} if part.active.rebuilt is None else part.active.rebuilt.starts
            for tp in part.active.changelogs:
                if starts[tp] > whole.get(tp, 0):
                    raise ChangelogLostError(
                        f"{tp} begins at {starts[tp]}, its records before that are gone"
                    )

    def _send(self) -> None:
        member_id, generation = self._group.member_id, self._group.generation
        self._by = member_id
        offsets: dict[TopicPartition, tuple[int, str]] = {}
        for part in self._parts:
            told = part.contained, part.ends, part.release_to, part.notes, part.rebuilt
            texts = part.active.metadata(member_id, generation, *told)
            offsets |= {tp: (offset, texts[tp]) for tp, offset in part.offsets.items()}
        self._token += 1
        self._sent = True
        self._group.commit(self._token, offsets, self._hold)

    def _accepted(self) -> None:
        parts, self._parts = self._parts, []
        for part in parts:
            active = part.active
            active.committed = part.offsets
            active.notes = part.notes
            active.rebuilt = part.rebuilt
            if active.edge_writer is not None:
                active.edge_writer.committed(part.offsets)
            active.contained = part.contained
            active.claimed = True
            active.number = part.number
            active.by = self._by
            if part.look or not part.number:
                active.looked_ms = self._clock.now_ms()
            if part.drained is not None:
                active.ends = part.ends
                self._unwritten.append(part)
        self.accepted += 1


def _fences(active: ActiveTask) -> dict[TopicPartition, Columns]:
    """A record of our epoch for every changelog, also where there is nothing to write.

    Without one a reader that goes by our commit would still believe what a stale owner writes to a
    changelog of ours that bears no mark of us.
    """
    found = {}
    for changelog, store in active.stores_by_changelog.items():
        with blamed(active.task):
            key, value = active.state.some_entry(store)
        found[changelog] = Columns(store, [key], [value])
    return found


def _write(part: TaskCommit) -> None:
    """Put an accepted part into the local store."""
    assert part.drained is not None
    positions = local_positions(part)
    with blamed(part.active.task):
        times, inputs = times_of(part), part.offsets
        part.active.state.write(part.drained, part.contained, positions, times, inputs)
