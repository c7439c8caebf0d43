"""The changelog side of a commit: dirty entries are sent, delivered, and nothing else is behind.

All entries of a commit bear its number. Once they are delivered brokers are asked where the
changelogs end, by a thread of its own, since one may be slow to answer. Each must be longer by just
what was sent. What else lies there are zombie writes: under at_least_once the broker fences no
producer, so a process that lost its task may still deliver what it had queued. Its records bear an
older epoch, and a reader that has met ours skips them; but one that lies below our first record
would be believed as soon as a commit of ours says that everything up to it counts. So the keys of
the zombie are written again, before the commit; and so are those that another program wrote.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait

import attrs

from streamlet.clock import Clock
from streamlet.errors import (
    BrokerError,
    ChangelogLostError,
    EntryTooLargeError,
    MissingTopicError,
    RecordRefusedError,
    StateError,
    StillQueuedError,
    StreamletError,
    TaskMigratedError,
    TimedOutError,
)
from streamlet.kafka.ports import Admin, OutgoingRecords, PartitionBatch, RecordSink, RecordSource
from streamlet.kafka.reading import read_until
from streamlet.logs import get_logger
from streamlet.state.backing import Columns
from streamlet.state.changelog import encode_column, is_timed, number_at
from streamlet.state.entries import CommitEntry, entry_last
from streamlet.state.epochs import MOST_CLAIMS
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit_share import LogEnds, TaskCommit
from streamlet.tasks.opening import blamed
from streamlet.types import StateNumber, TopicPartition
from streamlet.user_code import shown

log = get_logger(__name__)

#: How often to check whether the first records of our changelogs were deleted, ms.
STARTS_MS = 5_000


class DeliveryStage(enum.Enum):
    """The stages of the delivery of a commit."""

    QUEUED = "queued"  # what was sent is on its way: more of it would be in the way
    ASKED = "asked"  # all was delivered, where changelogs end is not known yet
    DONE = "done"


@attrs.define(eq=False)
class ChangelogDelivery:
    """Sends the changes that a commit covers to changelogs, and checks that they arrived.

    Args:
        sink: where outputs and changelog records go, one queue for both.
        admin: tells where changelogs end.
        clock: for measuring.
        open_source: a consumer with headers, to read the zombie writes in a changelog, also those
            that no transaction has committed.
        read_timeout_ms: how long none of the zombie writes may come.
        transactional: it sends in transactions, which are never committed of a zombie: what that
            writes does not count. Only owners before that commit without transactions may have
            written; what comes of them behind our first record does not count.
        thread: asks brokers, which may take long; without any the caller's does.
    """

    _sink: RecordSink
    _admin: Admin
    _clock: Clock
    _open_source: Callable[[], RecordSource]
    _read_timeout_ms: int = 10_000
    _transactional: bool = False
    _thread: Executor | None = None
    _starts_at_ms: int = attrs.field(init=False)

    @_starts_at_ms.default
    def _first_starts_ms(self) -> int:
        return self._clock.now_ms() + STARTS_MS

    def flush(self, active: ActiveTask, *, look: bool, compact: bool) -> TaskCommit:
        """Send the dirty entries of a task's stores to their changelogs.

        Args:
            active: the task.
            look: the ends of its tables' topics are wanted too.
            compact: who may read its commit entries knows their compact form.

        Raises:
            StateError: its stores fail.
            UnwritableEntryError: one of them has an entry without bytes.
            DeliveryError: a changelog takes no more.
        """
        number = active.number + 1
        contained = StateNumber(active.epoch, number)
        with blamed(active.task):
            drained = active.state.drain()
        positions = dict(active.positions)
        part = TaskCommit(active, number, positions, contained, drained, active.notes_now)
        if active.held is not None:
            active.held.taken(number)
        if active.edge_writer is not None:
            forms = active.edge_writer.forms
            part.asks_ends = forms.asks_ends(self._clock.now_ms())
            forms.taken(positions)
        part.checked = dict(active.ends)
        part.look = look
        logs, columns = active.changelogs, drained.columns
        flushed = {logs[store]: columns[store] for store in columns if store in logs}
        if number == 1:
            flushed = _fences(active) | flushed
        active.written |= {changelog.topic: number for changelog in flushed}
        starts = {} if part.rebuilt is None else part.rebuilt.starts
        written_from = {tp.topic: start for tp, start in starts.items()}
        facts = positions, active.written, written_from, active.subtopology.application
        entry = CommitEntry(contained, *facts).header(compact=compact)
        for changelog, flush in flushed.items():
            self._send_flush(part, changelog, flush, entry)
        return part

    def deliver(self, parts: Sequence[TaskCommit], wait_ms: int) -> DeliveryStage:
        """Wait so long for the delivery of all of it, and note where the changelogs end.

        Unless that is done it takes longer; call again.

        Raises:
            DeliveryError: something was not delivered.
            ChangelogLostError: a changelog lacks what was written to it.
            BrokerError: the broker does not answer just now.
        """
        again = True
        while again:
            asked = parts[0].asked if parts else None
            if asked is None:
                try:
                    self._sink.flush(wait_ms)
                except StillQueuedError as error:
                    log.debug("%s", error)
                    return DeliveryStage.QUEUED
                asked = self._ask(parts)
            if not asked.done():
                wait([asked], wait_ms / 1000)
            if not asked.done():
                return DeliveryStage.ASKED
            self._take(parts, asked)
            again = self._overwrite_zombie_writes([p for p in parts if not self._fenced(p)])
        return DeliveryStage.DONE

    def _fenced(self, part: TaskCommit) -> bool:
        """True if no zombie write counts for the task."""
        return self._transactional and (part.number != 1 or part.active.fenced)

    def forget_queued(self) -> None:
        """Deliver nothing any more of what was written so far."""
        self._sink.reset()

    def close(self) -> None:
        """Ask nothing any more."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _send_flush(
        self,
        part: TaskCommit,
        changelog: TopicPartition,
        columns: Columns,
        entry: tuple[str, bytes],
    ) -> None:
        """Send a flush to one changelog; its last record bears the commit entry."""
        keys, values = entry_last(columns.keys, columns.values)
        where = part, changelog, columns.store
        self._send_entries(*where, keys[:-1], values[:-1])
        try:
            self._send_entries(*where, keys[-1:], values[-1:], entry)
        except EntryTooLargeError:  # perhaps without the entry it is not
            self._send_entries(*where, keys[-1:], values[-1:])

    def _send_entries(
        self,
        part: TaskCommit,
        changelog: TopicPartition,
        store: str,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        entry: tuple[str, bytes] | None = None,
    ) -> None:
        if not keys:
            return
        encoded, headers = encode_column(part.contained, values)
        kept = part.active.state.row_headers.get(store)
        if kept is not None:
            headers = kept.added(keys, values, headers)
        if entry is not None:
            headers = [(*(head or ()), entry) for head in headers or [None] * len(keys)]
        where = changelog.topic, keys, encoded, None, changelog.partition, headers
        try:
            self._sink.send(OutgoingRecords(*where))
        except RecordRefusedError as refused:
            if not refused.too_large:
                raise
            task, key = part.active.task, keys[refused.index]
            raise EntryTooLargeError(f"task {task}, key {shown(key)}: {refused}", task) from refused
        part.sent[changelog] = part.sent.get(changelog, 0) + len(keys)

    def _overwrite_zombie_writes(self, parts: Sequence[TaskCommit]) -> bool:
        """Write the keys again that another process wrote since our last flush; True if there were.

        What they had contained is as of this commit, so the values are the drained ones.
        """
        found = False
        for part in parts:
            for store, changelog in part.active.changelogs.items():
                start, end = part.checked[changelog], part.ends[changelog]
                if end <= start + part.sent.get(changelog, 0):
                    self._checked(part, changelog)
                    continue
                with blamed(part.active.task):
                    keys = self._foreign_keys(changelog, start, end, part.active.epoch)
                self._checked(part, changelog)  # not before: they may not be readable just now
                if not keys:  # but markers of transactions
                    continue
                log.warning(
                    "%s: a process that does not have the task wrote %d keys; writing them again",
                    changelog,
                    len(keys),
                )
                with blamed(part.active.task):
                    values = part.active.state.encoded(store, keys)
                self._send_entries(part, changelog, store, keys, values)
                found = True
        return found

    def _foreign_keys(
        self, changelog: TopicPartition, start: int, end: int, epoch: int
    ) -> list[bytes]:
        """Keys of the records in [start, end) that bear no epoch of ours, once, in order.

        Raises:
            TaskMigratedError: a later epoch that can have an owner is among them: then we are the
                zombie.
            BrokerError: they cannot be read in time.
        """
        found: dict[bytes, None] = {}
        unread = 0
        source = self._open_source()
        try:
            for batch in read_until(
                *(source, {changelog: end}),
                begins={changelog: start},
                clock=self._clock,
                silent_ms=self._read_timeout_ms,
            ):
                for row, key in enumerate(batch.keys):
                    try:
                        theirs = _epoch_of(str(changelog), row, batch, epoch)
                    except StateError as error:
                        unread += 1
                        if unread & (unread - 1) == 0:  # ever more seldom
                            log.warning("%s: it does not count (%d such so far)", error, unread)
                        theirs = -1
                    if key is None or theirs == epoch:
                        continue
                    if epoch < theirs <= epoch + MOST_CLAIMS:
                        raise TaskMigratedError(
                            f"{changelog} has records of epoch {theirs}, ours is {epoch}: "
                            "another member took the task over"
                        )
                    found[key] = None
        except TimedOutError as error:
            raise BrokerError(f"{changelog} could not be read again: {error}") from error
        finally:
            source.close()
        return list(found)

    @staticmethod
    def _checked(part: TaskCommit, changelog: TopicPartition) -> None:
        """Note that all zombie writes up to its end will be overwritten."""
        part.sent.pop(changelog, None)
        part.checked[changelog] = part.ends[changelog]

    def _ask(self, parts: Sequence[TaskCommit]) -> Future[LogEnds]:
        """Ask for the ends of all changelogs just written; the others have not moved.

        From time to time also for where these begin.
        """
        logs = [tp for part in parts for tp in part.active.changelogs.values()]
        others = [tp for part in parts if part.look for tp in part.active.tables]
        others += [tp for part in parts if part.asks_ends for tp in part.offsets]
        look = self._clock.now_ms() >= self._starts_at_ms
        if look:
            self._starts_at_ms = self._clock.now_ms() + STARTS_MS

        def ask() -> LogEnds:
            ends = self._admin.end_offsets([*logs, *others])
            return LogEnds(ends, self._admin.start_offsets(logs) if look else {})

        now_ms = self._clock.wall_ms()
        asked = _at_once(ask) if self._thread is None else self._thread.submit(ask)
        for part in parts:
            part.ends_ms, part.asked = now_ms, asked
        return asked

    @staticmethod
    def _take(parts: Sequence[TaskCommit], asked: Future[LogEnds]) -> None:
        """Note what was answered.

        Raises:
            ChangelogLostError: a changelog is shorter than what we know to be in it, or its first
                records are gone.
            BrokerError: one does not exist any more, or the broker does not answer.
        """
        for part in parts:
            part.asked = None
        try:
            ends, starts = asked.result()
        except MissingTopicError as error:  # a worker that starts again creates it
            raise BrokerError(str(error)) from error
        for part in parts:
            _check_starts(part, starts)
            logs = part.active.changelogs.values()
            part.ends = {tp: ends[tp] for tp in logs}
            part.table_ends = {tp: ends[tp] for tp in part.active.tables if tp in ends}
            if part.asks_ends:
                part.input_ends = {tp: ends[tp] for tp in part.offsets}
            for tp, end in part.ends.items():
                known = part.checked[tp] + part.sent.get(tp, 0)
                if end < known:
                    raise ChangelogLostError(
                        f"{tp} ends at {end}, although it was written up to {known}: it lost "
                        "records or was created again"
                    )


def _epoch_of(name: str, row: int, batch: PartitionBatch, ours: int) -> int:
    """The epoch of a record; StateError: no owner wrote it."""
    (epoch, _), prefix = number_at(name, row, batch)
    if epoch > ours and not is_timed(prefix):
        offset = batch.offsets[row]
        raise StateError(f"{name}: the record at offset {offset} is not streamlet's: no time")
    return epoch


def _at_once(ask: Callable[[], LogEnds]) -> Future[LogEnds]:
    """Ask on this thread."""
    answer: Future[LogEnds] = Future()
    try:
        answer.set_result(ask())
    except StreamletError as error:
        answer.set_exception(error)
    return answer


def _check_starts(part: TaskCommit, starts: Mapping[TopicPartition, int]) -> None:
    """Raise ``ChangelogLostError`` if the first records of a task's changelogs are gone."""
    whole = {} if part.active.rebuilt is None else part.active.rebuilt.starts
    for tp in part.active.changelogs.values():
        if starts.get(tp, 0) > whole.get(tp, 0):
            raise ChangelogLostError(
                f"{tp} begins at {starts[tp]}, its records before that are gone"
            )


def _fences(active: ActiveTask) -> dict[TopicPartition, Columns]:
    """A record of our epoch for every changelog, also where there is nothing to write.

    Without one a reader that goes by our commit would still believe what a stale owner writes to a
    changelog of ours that bears no mark of us.
    """
    found = {}
    for store, changelog in active.changelogs.items():
        with blamed(active.task):
            key, value = active.state.some_entry(store)
        found[changelog] = Columns(store, [key], [value])
    return found
