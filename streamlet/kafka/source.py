"""The consumer: a ``RecordSource`` over confluent-kafka.

Two things decide the speed here and are easy to undo by accident. ``fetch.queue.backoff.ms`` must
stay small: librdkafka's second caps a fast consumer at a fifth of its rate. And nothing per record
may be a Python call of ours: each column is one ``list(map(...))`` over the messages.

Memory is what librdkafka has queued: 380 to 530 bytes for each record beside its key and value,
which are all that ``queued.max.messages.kbytes`` counts. So short records need bounds of their own:
few of a partition, and little of all partitions in one answer of a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from operator import methodcaller
from typing import Any, TypeGuard

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as RawPartition

from streamlet.clock import Clock, SystemClock
from streamlet.errors import BrokerError, OutOfRangeError
from streamlet.kafka.broker_loss import BrokerLossDetector
from streamlet.kafka.codes import HARMLESS, OUT_OF_RANGE, broker_error, opened
from streamlet.kafka.farewell import let_go
from streamlet.kafka.log import log, quiet
from streamlet.kafka.metadata import look_up
from streamlet.kafka.poll_bound import Polled, PollSize, joined
from streamlet.kafka.ports import PartitionBatch
from streamlet.kafka.refusals import missing_right
from streamlet.kafka.split import read_headers, split
from streamlet.kafka.stable_offsets import StableOffsets
from streamlet.rights import REFUSED, Right
from streamlet.types import TopicPartition

_error = Message.error
_topic = Message.topic
_partition = Message.partition
_key = Message.key
_value = Message.value
_timestamp = Message.timestamp
_headers = Message.headers

#: Records that confluent-kafka's client is asked for at once: at first, and at most. A message has
#: its headers, in a form of 100 bytes each, from when the client takes it.
_FIRST_PIECE, _LARGEST_PIECE = 32, 128

#: Records of a partition that the client queues at least, where their headers may be large.
_FEW_QUEUED = 10


class KafkaSource:
    """A ``RecordSource``: manual assignment, no offset ever committed through it.

    Args:
        bootstrap_servers: ``host:port,…``.
        config: more librdkafka settings, last word.
        headers: whether to read record headers (a call per record).
        isolation: ``read_uncommitted`` or ``read_committed``.
        clock: the time.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        headers: bool = False,
        isolation: str = "read_uncommitted",
        name: str = "streamlet",
        clock: Clock | None = None,
    ) -> None:
        self._config = quiet(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"{name}-unused",  # asked for by librdkafka, never joined
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": isolation,
                "fetch.queue.backoff.ms": 5,
                # A partition added later waits for the fetch under way, which takes so long where
                # nothing comes. At 20 ms three idle workers cost the broker a fifth of a processor.
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 32_768,
                "queued.min.messages": 6_000,
                "fetch.max.bytes": 4 << 20,
                **(config or {}),
            },
            name,
        )
        self._stable = StableOffsets()
        if self._config["isolation.level"] == "read_committed":
            self._config |= {"statistics.interval.ms": 1_000, "stats_cb": self._stable.take}
        self._with_headers = headers
        self._clock = clock or SystemClock()
        #: Offsets that partitions were assigned at, and which of them are paused.
        self._assigned: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._topics: set[str] = set()
        self._introduced: set[str] = set()
        #: What polls met beside the records that they returned, each to be raised once.
        self._errors: list[BrokerError] = []
        #: Where another client went on; it knows a position only of what it has read itself.
        self._went_on: dict[TopicPartition, int] = {}
        self._size = PollSize()
        self._open()

    def _open(self) -> None:
        """A client that has nothing assigned."""
        self._loss = BrokerLossDetector(self._clock)
        self._consumer = opened(self._client, "consumer", {**self._config, "error_cb": self._loss})

    def _client(self, config: dict[str, Any]) -> Consumer:
        """A client of librdkafka with these settings."""
        return Consumer(config)

    def introduce(self, topics: Iterable[str]) -> None:
        """Have the client look up the leaders of topics before they are assigned.

        Left to itself librdkafka looks for leaders of new topics once a second.

        Raises:
            BrokerError: no broker answers.
        """
        new = set(topics) - self._introduced
        for topic in sorted(new):
            look_up(self._consumer, topic)
        self._introduced |= new

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions at offsets; one already assigned is moved there."""
        self.introduce(tp.topic for tp in positions)
        known = [tp for tp in positions if tp in self._assigned]
        if known:
            self.unassign(known)
        self._begin(positions)
        self._assigned.update(positions)
        self._topics = {tp.topic for tp in self._assigned}

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop partitions; those not assigned are ignored."""
        known = [tp for tp in partitions if tp in self._assigned]
        if not known:
            return
        paused = [tp for tp in known if tp in self._paused]
        if paused:
            self.resume(paused)  # librdkafka may remember for good that a partition was paused
        self._call(self._consumer.incremental_unassign, _raw(known))
        for tp in known:
            del self._assigned[tp]
            self._went_on.pop(tp, None)
        self._errors = [
            error
            for error in self._errors
            if not (isinstance(error, OutOfRangeError) and error.partition in known)
        ]
        self._topics = {tp.topic for tp in self._assigned}

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch no more of these until resumed."""
        self._paused.update(partitions)
        self._call(self._consumer.pause, _raw(partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch paused partitions again."""
        self._paused.difference_update(partitions)
        self._call(self._consumer.resume, _raw(partitions))

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Next offset of each that has one, gaps without records included."""
        found = self._consumer.position(_raw(partitions))
        own = {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}
        return {tp: self._went_on[tp] for tp in partitions if tp in self._went_on} | own

    def known_end(self, partition: TopicPartition) -> int | None:
        """High watermark as of the last fetch, without asking the broker; None before the first.

        The client remembers it of a partition that was unassigned and comes back later. What lies
        below the offset that it came back at is such a memory, by which all would seem read.
        """
        low_high = self._consumer.get_watermark_offsets(
            RawPartition(partition.topic, partition.partition), cached=True
        )
        least = self._assigned.get(partition, 0)
        if low_high is None or low_high[1] < least:
            return None
        return self._stable.end(partition, int(low_high[1]))

    def held_from(self, partition: TopicPartition) -> int | None:
        """The offset from which on an open transaction holds records back; None: none does."""
        return self._stable.held_from(partition)

    def poll(self, max_records: int, timeout_ms: int, idle_ms: int = 0) -> list[PartitionBatch]:
        """Up to ``max_records``, waiting at most ``timeout_ms`` for that many.

        ``idle_ms``, if it is more: how long to wait for the first of them.
        """
        if self._errors:
            raise self._errors.pop(0)
        polled = self._read(self._size.of(max_records), timeout_ms, idle_ms)
        self._size.adapt(polled)
        if polled.rest:
            self._go_back(polled.rest)
        if polled.troubles:
            # The records must not be lost to errors that came with them, which the next polls
            # raise, one each: the client reports an error of a partition only once.
            self._errors += filter(self._matters, starmap(_error_of, polled.troubles))
            if self._errors and not polled.batches:
                raise self._errors.pop(0)
        if not polled.batches:
            self._go_on_with_another()
            return []
        self._loss.heard()
        return polled.batches

    def close(self) -> None:
        """Free the client."""
        let_go([self._consumer], methodcaller("close"))

    def _go_on_with_another(self) -> None:
        """Replace a client that finds no broker by a new one at the same positions."""
        topic = next(iter(self._introduced), None)
        if topic is None or not self._loss.lost(self._consumer, topic):
            return
        log.debug("another client goes on: this one has lost all its brokers")
        self._open_again(self.positions(list(self._assigned)))

    def _open_again(self, positions: dict[TopicPartition, int]) -> None:
        """Have another client read on at these positions."""
        self._went_on = positions
        let_go([self._consumer], methodcaller("close"))
        self._open()
        self._begin({**self._assigned, **self._went_on})
        self.pause([tp for tp in self._assigned if tp in self._paused])

    def _begin(self, positions: Mapping[TopicPartition, int]) -> None:
        raw = [RawPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
        self._call(self._consumer.incremental_assign, raw)

    def _go_back(self, rest: dict[TopicPartition, int]) -> None:
        """Have the client read on at records that it has returned already.

        The first time by one that queues few records, since no headers count in its queue.
        """
        queued = int(self._config["queued.min.messages"])
        if queued > _FEW_QUEUED:
            self._config["queued.min.messages"] = _FEW_QUEUED
            self._open_again(self.positions(list(self._assigned)) | rest)
        else:
            self.assign(rest)
            self._went_on |= rest

    def _read(self, most: int, timeout_ms: int, idle_ms: int) -> Polled:
        """Records by partition, and the errors among them; waits as ``poll`` says."""
        found, left, begun_ms = Polled(), most, self._clock.now_ms()
        piece, wait_ms = _FIRST_PIECE, timeout_ms
        while left and not found.rest:
            asked = min(left, piece)
            messages = self._consume(asked, wait_ms / 1000, idle_ms / 1000)
            self._take(messages, found)
            left -= len(messages)
            if len(messages) < asked:
                break
            wait_ms, idle_ms = max(begun_ms + timeout_ms - self._clock.now_ms(), 0), 0
            piece = min(2 * piece, _LARGEST_PIECE)
        found.batches = joined(found.batches)
        return found

    def _take(self, messages: list[Message], found: Polled) -> None:
        if any(map(_error, messages)):
            found.troubles += [(m.topic(), m.partition(), e) for m in messages if (e := m.error())]
            messages = [message for message in messages if message.error() is None]
        for part in split(messages, len(self._topics), _topic, _partition):
            found.take(self._columns(*part))

    def _consume(self, most: int, timeout_s: float, idle_s: float) -> list[Message]:
        """``consume`` waits for all that it may return, also where one would do to begin with."""
        if idle_s <= timeout_s:
            return self._consumer.consume(most, timeout_s)
        first = self._consumer.consume(1, idle_s)
        return first and first + self._consumer.consume(most - 1, timeout_s)

    def _matters(self, error: BrokerError | None) -> TypeGuard[BrokerError]:
        """True if an error is news: the client may report one of a partition it was taken from."""
        if isinstance(error, OutOfRangeError):
            return error.partition in self._assigned
        return error is not None

    def _columns(self, topic: str, partition: int, run: list[Message]) -> PartitionBatch:
        first, last = run[0].offset(), run[-1].offset()
        offsets: Sequence[int] = range(first, last + 1)  # type: ignore[operator, arg-type]
        if len(offsets) != len(run):
            offsets = [m.offset() for m in run]  # type: ignore[misc]
        # A call per record (30 ns). To keep and write headers costs much more: without any there is
        # no column, and the batch goes the quick way through operators and the producer.
        headers, unreadable = read_headers(run, _headers) if self._with_headers else (None, None)
        return PartitionBatch(
            topic,
            partition,
            offsets,
            list(map(_key, run)),
            list(map(_value, run)),
            [t[1] for t in map(_timestamp, run)],
            headers if headers and any(headers) else None,
            unreadable,
        )

    def _call(self, method: Callable[..., Any], partitions: list[RawPartition]) -> None:
        try:
            method(partitions)
        except KafkaException as error:
            raise broker_error(error) from error


def _raw(partitions: Iterable[TopicPartition]) -> list[RawPartition]:
    return [RawPartition(tp.topic, tp.partition) for tp in partitions]


def _error_of(topic: str | None, partition: int | None, error: KafkaError) -> BrokerError | None:
    """The error that came in place of a record, if that will not pass by itself."""
    if error.code() in HARMLESS:
        return None
    where = TopicPartition(str(topic), int(partition or 0))
    reason = f"reading {where}: {error.str()} ({error.name()})"
    if error.code() in OUT_OF_RANGE:
        return OutOfRangeError(reason, where)
    if error.code() in REFUSED:
        return missing_right(f"reading {where}", error, Right("READ", "topic", where.topic))
    return BrokerError(reason)
