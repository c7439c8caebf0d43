"""The ports over confluent-kafka; with ``codes`` the only file that imports it.

Two things decide the speed here and are easy to undo by accident. ``fetch.queue.backoff.ms`` must
stay small: with librdkafka's second a fast consumer idles most of the time. And nothing per record
may be a Python call of ours: each column is one ``list(map(...))`` over the messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as RawPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    OffsetSpec,
)
from confluent_kafka.admin import NewTopic as RawTopic  # type: ignore[attr-defined]

from streamlet.clock import Clock, SystemClock
from streamlet.errors import (
    BrokerError,
    BrokerTooOldError,
    DeliveryError,
    RecordRefusedError,
    TimedOutError,
    UndeliveredError,
    UnreachableError,
)
from streamlet.kafka.codes import HARMLESS, NO_ANSWER, NO_TOPIC, STALE_LEADER
from streamlet.kafka.log import Repeats
from streamlet.kafka.ports import Headers, NewTopic, PartitionBatch, TopicInfo
from streamlet.kafka.split import split
from streamlet.types import TopicPartition

log = logging.getLogger(__name__)
log.addFilter(Repeats())

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


def _quiet(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Settings every client has: librdkafka's own log goes to ours, not to standard error."""
    return {"client.id": name, "logger": log, "log.connection.close": False, **config}


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
            _quiet(
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
        messages = self._consumer.consume(max_records, timeout_ms / 1000)
        if not messages:
            return []
        if any(map(_error, messages)):
            messages = _good(messages)
        return [
            self._columns(topic, partition, run)
            for topic, partition, run in split(messages, len(self._topics), _topic, _partition)
        ]

    def close(self) -> None:
        """Free the client."""
        self._consumer.close()

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


def _good(messages: list[Message]) -> list[Message]:
    """The records among what consume() returned; an error that will not pass is raised."""
    for message in messages:
        error = message.error()
        if error is not None and error.code() not in HARMLESS:
            where = f"{message.topic()}-{message.partition()}"
            raise BrokerError(f"reading {where}: {error.str()} ({error.name()})")
    return [m for m in messages if m.error() is None]


class KafkaSink:
    """A ``RecordSink``: an idempotent producer; failures are noticed, good deliveries cost nothing.

    Args:
        bootstrap_servers: ``host:port,…``.
        config: more librdkafka settings, last word.
        delivery_timeout_ms: how long a record may stay undelivered. It must not exceed the session
            timeout, or a process that lost its tasks could still write to their changelogs.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        delivery_timeout_ms: int = 10_000,
        name: str = "streamlet",
    ) -> None:
        self._config = _quiet(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "delivery.report.only.error": True,
                "message.timeout.ms": delivery_timeout_ms,
                # Else a topic that does not exist only ever looks like a broker that is away.
                "topic.metadata.propagation.max.ms": delivery_timeout_ms // 2,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 65_536,
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


class KafkaAdmin:
    """An ``Admin``. Every request is bounded by ``timeout_ms``.

    Raises:
        BrokerError: the broker cannot be reached or refuses; the message bears its address.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 15_000,
        clock: Clock | None = None,
        name: str = "streamlet-admin",
    ) -> None:
        self._where = bootstrap_servers
        self._timeout = timeout_ms / 1000
        self._timeout_ms = timeout_ms
        self._clock = clock or SystemClock()
        self._client = AdminClient(
            _quiet({"bootstrap.servers": bootstrap_servers, **(config or {})}, name)
        )

    def topics(self) -> dict[str, TopicInfo]:
        """All topics by name, without ids (see ``topic_ids``)."""
        try:
            found = self._client.list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise self._unreachable(error) from error
        return {
            name: TopicInfo(name, len(topic.partitions), internal=name.startswith("__"))
            for name, topic in sorted(found.items())
        }

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """The id of each topic that exists; a topic made anew has another."""
        if not names:
            return {}
        futures = self._client.describe_topics(
            TopicCollection(list(names)), request_timeout=self._timeout
        )
        ids: dict[str, str] = {}
        for name, future in futures.items():
            try:
                ids[name] = str(future.result().topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._failed(f"describing topic {name}", error) from error
        return ids

    def topic_config(self, name: str) -> dict[str, str]:
        """All settings of a topic that exists, defaults included."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        found = self._client.describe_configs([resource], request_timeout=self._timeout)
        try:
            return {key: str(entry.value) for key, entry in found[resource].result().items()}
        except KafkaException as error:
            raise self._failed(f"settings of topic {name}", error) from error

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create what is missing and wait until every partition has a leader."""
        if not topics:
            return
        raw = [RawTopic(t.name, t.partitions, t.replication, config=dict(t.config)) for t in topics]
        for name, future in self._client.create_topics(raw, request_timeout=self._timeout).items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._failed(f"creating topic {name}", error) from error
        self._await_leaders([t.name for t in topics])

    def _await_leaders(self, names: Sequence[str]) -> None:
        deadline = self._clock.now_ms() + self._timeout_ms
        while True:
            found = self._client.list_topics(timeout=self._timeout).topics
            ready = [
                name
                for name in names
                if name in found
                and found[name].partitions
                and all(p.leader >= 0 for p in found[name].partitions.values())
            ]
            if len(ready) == len(names):
                return
            if self._clock.now_ms() > deadline:
                missing = sorted(set(names) - set(ready))
                raise TimedOutError(f"topics without a leader after creation: {missing}")
            self._client.poll(0.02)

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete; unknown names are ignored."""
        if not names:
            return
        futures = self._client.delete_topics(list(names), request_timeout=self._timeout)
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._failed(f"deleting topic {name}", error) from error

    def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """First offset of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Offset behind the last record of each partition (read_uncommitted)."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _offsets(
        self, partitions: Sequence[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        deadline = self._clock.now_ms() + self._timeout_ms
        while len(found) < len(set(partitions)):
            left = [tp for tp in partitions if tp not in found]
            stale = self._offsets_once(left, spec, found)
            if stale is None:
                continue
            if self._clock.now_ms() > deadline:
                raise stale
            # The client asks by what it remembers of leaders, and does not look again by itself.
            self.topics()
            self._client.poll(0.02)
        return found

    def _offsets_once(
        self,
        partitions: Sequence[TopicPartition],
        spec: OffsetSpec,
        found: dict[TopicPartition, int],
    ) -> BrokerError | None:
        """Ask once; an error that newer metadata mends is returned, any other is raised."""
        futures = self._client.list_offsets(
            {RawPartition(tp.topic, tp.partition): spec for tp in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._timeout,
        )
        stale = None
        for raw, future in futures.items():
            try:
                found[TopicPartition(raw.topic, raw.partition)] = int(future.result().offset)
            except KafkaException as error:
                failed = self._failed(f"offsets of {raw.topic}-{raw.partition}", error)
                if error.args[0].code() not in STALE_LEADER:
                    raise failed from error
                stale = failed
        return stale

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Let the broker drop records below these offsets; answers are not waited for."""
        if before:
            self._client.delete_records(
                [RawPartition(tp.topic, tp.partition, offset) for tp, offset in before.items()]
            )

    def close(self) -> None:
        """Nothing to do: the client has no connection state worth a farewell."""

    def _unreachable(self, error: KafkaException) -> BrokerError:
        reason = error.args[0].str()
        if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
            return BrokerTooOldError(f"{self._where} is too old, Kafka 2.5 is needed: {reason}")
        return UnreachableError(
            f"no answer from {self._where} within {self._timeout_ms} ms: {reason}. "
            "Is the broker running, and is the address right (--bootstrap-servers)?"
        )

    def _failed(self, what: str, error: KafkaException) -> BrokerError:
        cause = error.args[0]
        if cause.code() in NO_ANSWER:
            return self._unreachable(error)
        return BrokerError(f"{what}: {cause.str()} ({cause.name()})")
