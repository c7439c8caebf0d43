"""Consumer and producer over confluent-kafka; with ``admin`` and ``codes`` all that imports it.

Two things decide the speed here and are easy to undo by accident. ``fetch.queue.backoff.ms`` must
stay small: with librdkafka's second a fast consumer idles most of the time. And nothing per record
may be a Python call of ours: each column is one ``list(map(...))`` over the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as RawPartition

from streamlet.errors import (
    BrokerError,
    DeliveryError,
    OutOfRangeError,
    RecordRefusedError,
    UndeliveredError,
    UnreachableError,
)
from streamlet.kafka.admin import KafkaAdmin
from streamlet.kafka.codes import HARMLESS, NO_ANSWER, NO_TOPIC, OUT_OF_RANGE
from streamlet.kafka.limits import NO_LIMITS, Limits, first_too_large, size_of
from streamlet.kafka.log import quiet
from streamlet.kafka.ports import Headers, PartitionBatch
from streamlet.kafka.split import split
from streamlet.types import TopicPartition

__all__ = ["KafkaAdmin", "KafkaSink", "KafkaSource"]

_error = Message.error
_topic = Message.topic
_partition = Message.partition
_key = Message.key
_value = Message.value
_timestamp = Message.timestamp
_headers = Message.headers

_TOO_LARGE = "; larger ones need producer.message.max.bytes and the topic's max.message.bytes"

#: What is written for a timestamp of 0, which the client takes for "now".
EARLIEST_MS = 1

#: How long to wait for a topic's metadata.
METADATA_S = 10.0


class KafkaSource:
    """A ``RecordSource``: manual assignment, no offset ever committed through it.

    Args:
        bootstrap_servers: ``host:port,…``.
        config: more librdkafka settings, last word.
        headers: whether to read record headers (a call and a list per record).
        isolation: ``read_uncommitted`` or ``read_committed``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        headers: bool = False,
        isolation: str = "read_uncommitted",
        name: str = "streamlet",
    ) -> None:
        self._consumer = Consumer(
            quiet(
                {
                    "bootstrap.servers": bootstrap_servers,
                    "group.id": f"{name}-unused",  # asked for by librdkafka, never joined
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "error",
                    "isolation.level": isolation,
                    "fetch.queue.backoff.ms": 5,
                    # A partition added later waits for the fetch under way.
                    "fetch.wait.max.ms": 20,
                    "queued.max.messages.kbytes": 32_768,
                    **(config or {}),
                },
                name,
            )
        )
        self._with_headers = headers
        self._assigned: dict[TopicPartition, None] = {}
        self._topics: set[str] = set()
        self._introduced: set[str] = set()
        #: What the last poll met beside the records that it returned.
        self._error: BrokerError | None = None

    def introduce(self, topics: Iterable[str]) -> None:
        """Have the client learn where topics lie before they are assigned.

        Left to itself librdkafka looks for leaders of new topics once a second.

        Raises:
            BrokerError: no broker answers.
        """
        new = set(topics) - self._introduced
        for topic in sorted(new):
            _look_up(self._consumer, topic)
        self._introduced |= new

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions at offsets; one already assigned is moved there."""
        known = [tp for tp in positions if tp in self._assigned]
        if known:
            self.unassign(known)
        self.introduce(tp.topic for tp in positions)
        raw = [RawPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
        self._call(self._consumer.incremental_assign, raw)
        self._assigned.update(dict.fromkeys(positions))
        self._topics = {tp.topic for tp in self._assigned}

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop partitions; those not assigned are ignored."""
        known = [tp for tp in partitions if tp in self._assigned]
        if not known:
            return
        self.resume(known)  # librdkafka may remember for good that a partition was paused
        self._call(self._consumer.incremental_unassign, _raw(known))
        for tp in known:
            del self._assigned[tp]
        if isinstance(self._error, OutOfRangeError) and self._error.partition in known:
            self._error = None
        self._topics = {tp.topic for tp in self._assigned}

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch no more of these until resumed."""
        self._call(self._consumer.pause, _raw(partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these again."""
        self._call(self._consumer.resume, _raw(partitions))

    def positions(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Next offset of each that has one, gaps without records included."""
        found = self._consumer.position(_raw(partitions))
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    def known_end(self, partition: TopicPartition) -> int | None:
        """High watermark as of the last fetch, without asking the broker; None before the first."""
        low_high = self._consumer.get_watermark_offsets(
            RawPartition(partition.topic, partition.partition), cached=True
        )
        return None if low_high is None or low_high[1] < 0 else int(low_high[1])

    def poll(self, max_records: int, timeout_ms: int) -> list[PartitionBatch]:
        """Up to ``max_records``, waiting at most ``timeout_ms`` for that many."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        messages = self._consumer.consume(max_records, timeout_ms / 1000)
        if not messages:
            return []
        if any(map(_error, messages)):
            messages = self._good(messages)
        return [
            self._columns(topic, partition, run)
            for topic, partition, run in split(messages, len(self._topics), _topic, _partition)
        ]

    def close(self) -> None:
        """Free the client."""
        self._consumer.close()

    def _good(self, messages: list[Message]) -> list[Message]:
        """The records among what consume() returned.

        They must not be lost to an error that came with them, which the next poll raises.
        """
        good = [message for message in messages if message.error() is None]
        trouble = next(filter(None, map(_trouble, messages)), None)
        if trouble is not None and not good:
            raise trouble
        self._error = trouble
        return good

    def _columns(self, topic: str, partition: int, run: list[Message]) -> PartitionBatch:
        first, last = run[0].offset(), run[-1].offset()
        offsets: Sequence[int] = range(first, last + 1)  # type: ignore[operator, arg-type]
        if len(offsets) != len(run):
            offsets = [m.offset() for m in run]  # type: ignore[misc]
        return PartitionBatch(
            topic,
            partition,
            offsets,
            list(map(_key, run)),
            list(map(_value, run)),
            [t[1] for t in map(_timestamp, run)],
            list(map(_headers, run)) if self._with_headers else None,  # type: ignore[arg-type]
        )

    def _call(self, method: Callable[..., Any], partitions: list[RawPartition]) -> None:
        try:
            method(partitions)
        except KafkaException as error:
            raise _broker_error(error) from error


def _look_up(client: Consumer | Producer, topic: str) -> None:
    """Have a client ask where a topic lies, which it remembers."""
    try:
        client.list_topics(topic, timeout=METADATA_S)
    except KafkaException as error:
        raise _broker_error(error) from error


def _raw(partitions: Iterable[TopicPartition]) -> list[RawPartition]:
    return [RawPartition(tp.topic, tp.partition) for tp in partitions]


def _trouble(message: Message) -> BrokerError | None:
    """What a message says instead of being a record, if that will not pass by itself."""
    error = message.error()
    if error is None or error.code() in HARMLESS:
        return None
    where = TopicPartition(str(message.topic()), int(message.partition() or 0))
    reason = f"reading {where}: {error.str()} ({error.name()})"
    if error.code() in OUT_OF_RANGE:
        return OutOfRangeError(reason, where)
    return BrokerError(reason)


class KafkaSink:
    """A ``RecordSink``: an idempotent producer; failures are noticed, good deliveries cost nothing.

    Args:
        bootstrap_servers: ``host:port,…``.
        config: more librdkafka settings, last word.
        delivery_timeout_ms: how long a record may stay undelivered. It must not exceed the session
            timeout, or a process that lost its tasks could still write to their changelogs.
        limits: topics that take less than the producer.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        delivery_timeout_ms: int = 10_000,
        limits: Limits = NO_LIMITS,
        name: str = "streamlet",
    ) -> None:
        self._limits = limits.by_topic
        self._config = quiet(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "partitioner": "murmur2_random",
                "delivery.report.only.error": True,
                "message.timeout.ms": delivery_timeout_ms,
                # Else a topic that does not exist only ever looks like a broker that is away.
                "topic.metadata.propagation.max.ms": delivery_timeout_ms // 2,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 65_536,
                **limits.settings,
                **(config or {}),
            },
            name,
        )
        self._open()

    def _open(self) -> None:
        """A producer, and a list for its failures that a producer before it does not know."""
        failed: list[tuple[str, KafkaError]] = []

        def on_failure(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append((str(message.topic()), error))

        self._failed = failed
        self._producer = Producer({**self._config, "on_delivery": on_failure})
        self._produce = self._producer.produce

    def introduce(self, topics: Iterable[str]) -> None:
        """Have the client learn where topics lie, so that the first records to them do not wait."""
        for topic in sorted(topics):
            _look_up(self._producer, topic)

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None = None,
        partitions: Sequence[int] | int | None = None,
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        """Queue records in order, waiting while the queue is full."""
        most = self._limits.get(topic)
        index = None if most is None else first_too_large(keys, values, headers, most)
        if index is None:
            self._send(topic, keys, values, timestamps, partitions, headers)
            return
        self._send(topic, keys[:index], values[:index], timestamps, partitions, headers)
        raise RecordRefusedError(
            f"a record to {topic} was refused: {size_of(keys, values, index):,} bytes are more "
            f"than the topic's max.message.bytes, {most:,}",
            index,
            too_large=True,
        )

    def _send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int] | None,
        partitions: Sequence[int] | int | None,
        headers: Sequence[Headers | None] | None,
    ) -> None:
        times: Iterable[int] = repeat(0) if timestamps is None else timestamps
        if timestamps is not None and not all(timestamps):
            times = [time or EARLIEST_MS for time in timestamps]
        if headers is not None:
            self._send_rows(topic, keys, values, times, partitions, headers)
        elif partitions is None or isinstance(partitions, int):
            self._send_run(topic, keys, values, times, -1 if partitions is None else partitions)
        else:
            self._send_rows(topic, keys, values, times, partitions, None)
        self._producer.poll(0)
        self._check()

    def _send_run(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: Iterable[int],
        partition: int,
    ) -> None:
        """The hot loop: one call per record, positional arguments only."""
        produce: Any = self._produce
        done = 0
        while True:
            try:
                rows = islice(zip(keys, values, times, strict=False), done, None)
                for key, value, time in rows:
                    produce(topic, value, key, partition, None, None, time)
                    done += 1
                return
            except BufferError:
                self._wait_for_room()
            except KafkaException as error:
                raise _refused(topic, done, error) from error

    def _send_rows(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: Iterable[int],
        partitions: Sequence[int] | int | None,
        headers: Sequence[Headers | None] | None,
    ) -> None:
        """As ``_send_run``, with a partition or headers of its own for each record."""
        where = repeat(-1) if partitions is None else partitions
        where = repeat(where) if isinstance(where, int) else where
        extra: Iterable[Headers | None] = repeat(None) if headers is None else headers
        rows = zip(keys, values, times, where, extra, strict=False)
        for index, (key, value, time, partition, head) in enumerate(rows):
            more: dict[str, Any] = {"headers": list(head)} if head else {}
            while True:
                try:
                    self._produce(topic, value, key, partition=partition, timestamp=time, **more)
                except BufferError:
                    self._wait_for_room()
                    continue
                except KafkaException as error:
                    raise _refused(topic, index, error) from error
                break

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything queued is delivered."""
        left = self._serve(self._producer.flush, timeout_ms / 1000)
        self._check()
        if left:
            raise UndeliveredError(f"{left} records still undelivered after {timeout_ms} ms")

    def reset(self) -> None:
        """Deliver nothing of what is queued; a new producer, whose sequence has no gap, goes on."""
        self.close()
        self._open()

    def close(self) -> None:
        """Forget what is queued and free the client."""
        self._producer.purge()
        self._producer.poll(0)
        self._failed.clear()

    def _wait_for_room(self) -> None:
        self._serve(self._producer.poll, 0.05)
        self._check()

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Poll or flush; a producer that can never go on raises there, amid its callbacks."""
        try:
            return call(timeout_s)
        except (KafkaException, SystemError) as error:
            fatal = error if isinstance(error, KafkaException) else error.__cause__
            if not isinstance(fatal, KafkaException):
                raise
            raise DeliveryError(f"nothing can be written: {fatal.args[0].str()}") from error

    def _check(self) -> None:
        if self._failed:
            failed = [*self._failed]
            self._failed.clear()
            where, why = failed[0]
            late = all(error.code() == KafkaError._MSG_TIMED_OUT for _, error in failed)
            advice = "; create the topic" if why.code() in NO_TOPIC else ""
            if why.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                advice = "; the topic's max.message.bytes takes less than a batch of ours"
            raise (UndeliveredError if late else DeliveryError)(
                f"{len(failed)} records not delivered, first to {where}: {why.str()}{advice}"
            )


def _refused(topic: str, index: int, error: KafkaException) -> RecordRefusedError:
    cause = error.args[0]
    too_large = cause.code() == KafkaError.MSG_SIZE_TOO_LARGE
    advice = _TOO_LARGE if too_large else ""
    reason = f"a record to {topic} was refused: {cause.str()}{advice}"
    return RecordRefusedError(reason, index, too_large=too_large)


def _broker_error(error: KafkaException) -> BrokerError:
    cause = error.args[0]
    kind = UnreachableError if cause.code() in NO_ANSWER else BrokerError
    return kind(f"{cause.str()} ({cause.name()})")
