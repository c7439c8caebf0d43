"""Gives dead letters back to the topics that their records came from, each once.

Before letters are given back, the group's text notes which, and where the topics end that they go
to. Each record bears the place of its letter in a header. A replay that was broken off is looked
through by the next one, from those ends on: letters whose records are there are dealt with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import attrs

from streamlet.clock import Clock
from streamlet.control.topic import applications_of, is_control_topic
from streamlet.errors import MissingTopicError, StreamletError
from streamlet.kafka.murmur2 import partition_of
from streamlet.kafka.ports import Admin, OutgoingRecords, PartitionBatch, RecordSink, RecordSource
from streamlet.kafka.reading import read_until
from streamlet.letters.handled import Handled
from streamlet.letters.letter import REPLAYED, Letter, LetterFilter, letters, mark_of
from streamlet.logs import get_logger
from streamlet.topology.names import may_be_of
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: Letters of one partition that are given back at a time.
CHUNK = 100
#: Characters of the text beside a position; a broker takes 4,096 bytes unless it is set otherwise.
MOST_TEXT = 4_000
#: Characters of it when letters are begun: fewer of them may have been given back, here and there.
_MOST_BEGUN = 2_000
#: Reasons that are told apart, and the last one: any producer can write a letter.
_MOST_REASONS, _OTHERS = 1_000, "its record is from elsewhere"
_SILENT_MS = 30_000
_FLUSH_MS = 4_000  # within half of the group's session


class LetterPositions(Protocol):
    """The part of ``LetterGroup`` that a replay uses; see there."""

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The position and text of each partition that has one."""
        ...

    def commit(self, states: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit positions and texts, as the group's only member."""
        ...

    def keep_alive(self) -> None:
        """Send a heartbeat, if this process is a member."""
        ...

    def check_alive(self) -> None:
        """Refuse to go on where others may have taken over."""
        ...


@attrs.frozen
class ReplayResult:
    """The letters that were, or would be, given back, by topic; ``unfit`` cannot be, by reason."""

    topics: Mapping[str, int]
    unfit: Mapping[str, int]

    @property
    def count(self) -> int:
        """The number of letters that match."""
        return sum(self.topics.values())


@attrs.define(eq=False)
class DeadLetters:
    """The letters of one topic, and what is dealt with of them.

    Args:
        topic: of the letters.
        admin: knows topics.
        open_source: opens a consumer with headers, which reads uncommitted records too.
        positions: the group that notes what is dealt with.
        clock: the time.
    """

    topic: str
    _admin: Admin
    _open_source: Callable[[], RecordSource]
    _positions: LetterPositions
    _clock: Clock
    _counts: dict[str, int] = attrs.field(factory=dict, init=False)
    #: Those of the cluster.
    _applications: list[str] = attrs.field(factory=list, init=False)
    _states: dict[TopicPartition, Handled] = attrs.field(factory=dict, init=False)
    #: Offsets of the letters read of each partition, in order.
    _known: dict[TopicPartition, list[int]] = attrs.field(factory=dict, init=False)

    def open(self) -> None:
        """Read which letters are handled.

        Raises:
            MissingTopicError: there is no such topic.
            StreamletError: the group's texts are not ours.
            BrokerError: the broker does not answer, or refuses.
        """
        self._counts = {one.name: one.partitions for one in self._admin.topics().values()}
        self._applications = sorted(applications_of(self._counts))
        if self.topic not in self._counts:
            raise MissingTopicError(f"there is no topic {self.topic}", hidden=[self.topic])
        partitions = [TopicPartition(self.topic, p) for p in range(self._counts[self.topic])]
        found = self._positions.fetch(partitions)
        try:
            self._states = {tp: Handled.of(*found.get(tp, (0, ""))) for tp in partitions}
        except ValueError as error:
            raise StreamletError(
                f"the positions of {self.topic} were committed by another program: {error}"
            ) from error
        self._known = {tp: [] for tp in partitions}

    @property
    def recovers(self) -> bool:
        """True if a replay was broken off, and has yet to be looked through."""
        return any(state.doing for state in self._states.values())

    def read(self, chosen: LetterFilter, *, every: bool = False) -> Iterator[tuple[Letter, str]]:
        """The letters that are meant, each with ``open``, ``begun`` or ``handled``.

        ``every``: also those that are dealt with.

        Raises:
            TimedOutError: letters that are there do not come.
            BrokerError: the broker does not answer, or refuses.
        """
        partitions = [*self._states]
        self._known = {tp: [] for tp in partitions}
        starts = self._admin.start_offsets(partitions)
        ends = self._admin.readable_ends(partitions)
        lows = {tp: 0 if every else state.low for tp, state in self._states.items()}
        begins = {tp: min(max(starts[tp], lows[tp]), ends[tp]) for tp in partitions}
        for batch in self._batches(begins, ends):
            for letter in letters(batch):
                state = self._states[letter.partition]
                if letter.offset >= state.low:
                    self._known[letter.partition].append(letter.offset)
                handled = state.has(letter.offset)
                if (every or not handled) and chosen.takes(letter):
                    begun = state.began(letter.offset)
                    yield letter, "handled" if handled else "begun" if begun else "open"

    def recover(self) -> int:
        """Deal with what a replay has begun that was broken off; how many letters it gave back.

        Raises:
            StreamletError: as ``read``.
        """
        begun = {tp: state for tp, state in self._states.items() if state.doing}
        found = 0
        for tp, state in begun.items():
            marks = self._marks_since(dict(state.ends))
            known = self._offsets(tp, state)
            doing = (offset for offset in known if state.began(offset))
            given = [offset for offset in doing if mark_of(tp, offset) in marks]
            self._set({tp: state.with_done(known, given)})
            found += len(given)
        return found

    def replay(
        self,
        chosen: LetterFilter,
        sink: RecordSink,
        *,
        to: str | None = None,
        limit: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> ReplayResult:
        """Give back the letters that are meant and not dealt with, as the group's only member.

        Args:
            chosen: which.
            sink: a producer of its own.
            to: a topic in place of the one that the record came from; its key decides where.
            limit: how many at most.
            stopped: asked between letters; what is done then is done.

        Raises:
            RefusedError: another replay took over.
            DeliveryError: records were not delivered; the next replay knows which were.
            StreamletError: as ``read``.
        """
        self.recover()
        topics: Counter[str] = Counter()
        unfit: Counter[str] = Counter()
        waiting: dict[TopicPartition, list[tuple[Letter, TopicPartition]]] = {}
        for letter, where in self._targets(chosen, to, limit, unfit, stopped):
            topics[where.topic] += 1
            chunk = waiting.setdefault(letter.partition, [])
            chunk.append((letter, where))
            if len(chunk) >= CHUNK:
                self._give_back(waiting.pop(letter.partition), sink)
        for chunk in waiting.values():
            self._give_back(chunk, sink)
        return ReplayResult(topics, unfit)

    def plan(
        self, chosen: LetterFilter, *, to: str | None = None, limit: int | None = None
    ) -> ReplayResult:
        """The result that ``replay`` would have, with the letters that were begun."""
        unfit: Counter[str] = Counter()
        topics = Counter(where.topic for _, where in self._targets(chosen, to, limit, unfit))
        return ReplayResult(topics, unfit)

    def skip(self, chosen: LetterFilter, limit: int | None = None) -> int:
        """Mark letters as handled without replaying them, as the group's only member; the count.

        Raises:
            StreamletError: as ``replay``.
        """
        self.recover()
        done: dict[TopicPartition, list[int]] = {}
        count = 0
        for letter, _ in self.read(chosen):
            if count == limit:
                break
            done.setdefault(letter.partition, []).append(letter.offset)
            count += 1
        known, states = self._known, self._states
        self._set({tp: states[tp].with_done(known[tp], some) for tp, some in done.items()})
        return count

    def _targets(
        self,
        chosen: LetterFilter,
        to: str | None,
        limit: int | None,
        unfit: Counter[str],
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[Letter, TopicPartition]]:
        """The letters that can be given back, ``limit`` at most, and where; counts the others."""
        count = 0
        for letter, _ in self.read(chosen):
            if stopped() or count == limit:
                return
            where = self._target(letter, to)
            if isinstance(where, str):
                unfit[where if where in unfit or len(unfit) < _MOST_REASONS else _OTHERS] += 1
            else:
                count += 1
                yield letter, where

    def _target(self, letter: Letter, to: str | None) -> TopicPartition | str:
        """The partition that a letter's record goes to, or the reason why it cannot."""
        source = letter.source
        if to is not None:
            if to not in self._counts:
                raise MissingTopicError(f"there is no topic {to}", hidden=[to], operation="WRITE")
            count = self._counts[to]
            at = letter.offset % count if letter.key is None else partition_of(letter.key, count)
            return TopicPartition(to, at)
        if source is None:
            return "its headers do not say where its record was read"
        if self._is_internal(source.topic, letter.detail("application")):
            return f"its record is from {source.topic}, which only the application writes"
        if source.partition >= self._counts.get(source.topic, 0):
            return f"there is no {source.topic}-{source.partition}"
        return source

    def _is_internal(self, topic: str, application: str) -> bool:
        """True if a topic is Kafka's, or an own one of this or any application of the cluster.

        Who may write letters can name any topic, and any application, in their headers.
        """
        return (
            topic.startswith("__")
            or is_control_topic(topic)
            or any(may_be_of(topic, one) for one in (application, *self._applications))
        )

    def _give_back(self, chunk: list[tuple[Letter, TopicPartition]], sink: RecordSink) -> None:
        """Give back letters of one partition: note, send, note."""
        partition = chunk[0][0].partition
        while chunk:
            some, begun = self._begun(partition, chunk)
            self._set({partition: begun})
            self._positions.check_alive()
            for topic in dict.fromkeys(where.topic for _, where in some):
                mine = [(letter, where) for letter, where in some if where.topic == topic]
                records = OutgoingRecords(
                    topic,
                    [letter.key for letter, _ in mine],
                    [letter.value for letter, _ in mine],
                    [letter.timestamp for letter, _ in mine],
                    [where.partition for _, where in mine],
                    [letter.replayed_headers for letter, _ in mine],
                )
                sink.send(records)
            sink.flush(_FLUSH_MS)
            done = [letter.offset for letter, _ in some]
            self._set({partition: begun.with_done(self._known[partition], done)})
            chunk = chunk[len(some) :]

    def _begun(
        self, partition: TopicPartition, chunk: list[tuple[Letter, TopicPartition]]
    ) -> tuple[list[tuple[Letter, TopicPartition]], Handled]:
        """The letters that a position's text has room for, and the state with them begun."""
        state, known = self._states[partition], self._known[partition]
        count = len(chunk)
        while True:
            some = chunk[:count]
            ends = self._admin.end_offsets([*dict.fromkeys(where for _, where in some)])
            offsets = [letter.offset for letter, _ in some]
            begun = state.beginning(known, offsets, sorted(ends.items()))
            if len(begun.text) <= _MOST_BEGUN:
                return some, begun
            if count == 1:
                raise StreamletError(
                    f"too many single letters of {partition.topic}-{partition.partition} were "
                    "replayed or skipped among others; replay or skip the older ones first"
                )
            count //= 2

    def _set(self, states: dict[TopicPartition, Handled]) -> None:
        if not states:
            return
        for tp, state in states.items():
            if len(state.text) > MOST_TEXT:
                raise StreamletError(
                    f"the letters chosen in {tp.topic}-{tp.partition} lie too scattered among "
                    "others; choose fewer, or replay or skip the older ones first"
                )
        self._positions.commit({tp: (state.low, state.text) for tp, state in states.items()})
        self._states |= states

    def _offsets(self, partition: TopicPartition, state: Handled) -> list[int]:
        """The offsets of letters from the committed position on, up to the last begun one."""
        start = self._admin.start_offsets([partition])[partition]
        end = self._admin.end_offsets([partition])[partition]  # it may have been made again
        last = min(max(end for _, end in state.doing), end)
        begins = {partition: min(max(start, state.low), last)}
        batches = self._batches(begins, {partition: last})
        return [letter.offset for batch in batches for letter in letters(batch)]

    def _marks_since(self, ends: Mapping[TopicPartition, int]) -> set[bytes]:
        """The marks of the records that were written since partitions ended there."""
        there = [tp for tp in ends if tp.partition < self._counts.get(tp.topic, 0)]
        starts, now = self._admin.start_offsets(there), self._admin.end_offsets(there)
        for tp in there:
            if starts[tp] > ends[tp]:
                log.warning(
                    "%s-%d has lost records since a replay was broken off: letters whose records "
                    "are not found there are given back",
                    *(tp.topic, tp.partition),
                )
        begins = {tp: min(max(ends[tp], starts[tp]), now[tp]) for tp in there}
        return {
            value or b""
            for batch in self._batches(begins, {tp: now[tp] for tp in there})
            for headers in batch.headers or ()
            for name, value in headers or ()
            if name == REPLAYED
        }

    def _batches(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Iterator[PartitionBatch]:
        source = self._open_source()
        try:
            for batch in read_until(
                *(source, ends),
                begins=begins,
                clock=self._clock,
                silent_ms=_SILENT_MS,
                admin=self._admin,
            ):
                self._positions.keep_alive()
                yield batch
        finally:
            source.close()
