"""The producer: a ``RecordSink`` over confluent-kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

import attrs
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streamlet.clock import Clock, SystemClock
from streamlet.errors import (
    DeliveryError,
    StillQueuedError,
    UndeliveredError,
)
from streamlet.kafka import refusals
from streamlet.kafka.broker_loss import BrokerLossDetector
from streamlet.kafka.codes import opened
from streamlet.kafka.farewell import HeldClient
from streamlet.kafka.limits import NO_LIMITS, AskSettings, LearnedLimits, TopicLimits
from streamlet.kafka.log import Deliveries, quiet
from streamlet.kafka.metadata import finds_brokers, look_up
from streamlet.kafka.ports import Headers, OutgoingRecords
from streamlet.kafka.queue_bound import QueueBound, mean_size
from streamlet.retries import Retries
from streamlet.rights import REFUSED

#: What is written for a timestamp of 0, which the client takes for "now"; it has no other call
#: (librdkafka issue 1153). Rows of stores keep 0, in changelogs too: their times are in their
#: values. No time below 0 comes here, since such records fail or are dropped when they are read.
EARLIEST_MS = 1

#: How long the reason is awaited for which a producer can never go on; it is at hand at once.
_REASON_S = 1.0
#: How long a push flushes: librdkafka's threads have to see that a flush is going on.
_PUSH_S = 0.001
#: How often a flush looks whether it may go on.
_LOOK_S = 0.25
#: How long to wait for room before it is looked for again, at first and at most.
_ROOM_MS, _MOST_ROOM_MS = 2, 50
#: Records queued at most before it is looked again whether they may be.
_CHUNK = 2_000
#: Without any delivery for so many times ``lost_ms`` a client that said nothing is asked, too.
_SILENT = 3
#: As Kafka Streams' delivery.timeout.ms.
DELIVERY_MS = 120_000
#: As its request.timeout.ms, for lost answers; a quota delays others by more than ten seconds.
ANSWER_MS = 30_000
#: The fate of records that ``fence`` took out of the queue.
DROPPED = frozenset((KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT))
_OTHERS = "another member may have our tasks"


def _ended(*_: object) -> None:
    raise AssertionError("a record behind the end of its producer")


class KafkaSink:
    """A ``RecordSink``: an idempotent producer; failures are noticed, good deliveries cost nothing.

    Args:
        bootstrap_servers: ``host:port,…``.
        config: more librdkafka settings, last word.
        delivery_timeout_ms: how long a record may stay undelivered.
        lost_ms: how long nothing may be delivered before a client counts as lost that found no
            broker; another takes its place.
        limits: topics that take less, or not every time.
        ask: reads settings of topics that are met later, so that their limits are heeded too.
        may_write: asked before records are queued and while they are waited for; if not, all that
            is queued is undelivered.
        clock: the time.

    Attributes:
        waited_ms: how long ``send`` has waited for room so far, ms.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        *,
        delivery_timeout_ms: int = DELIVERY_MS,
        lost_ms: int = 10_000,
        limits: TopicLimits = NO_LIMITS,
        ask: AskSettings | None = None,
        may_write: Callable[[], bool] = lambda: True,
        name: str = "streamlet",
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._limits = LearnedLimits(limits, ask, config or {}, self._clock)
        self._may_write = may_write
        self._lost_ms = lost_ms
        self._bound = QueueBound(self._clock)
        self.waited_ms = 0
        self._config = quiet(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "partitioner": "murmur2_random",
                "delivery.report.only.error": True,
                "message.timeout.ms": delivery_timeout_ms,
                "socket.timeout.ms": ANSWER_MS,
                # Else a topic that does not exist only ever looks like a broker that is away.
                "topic.metadata.propagation.max.ms": min(delivery_timeout_ms, lost_ms) // 2,
                # Else a broker may make a topic again that was deleted, with one partition.
                "allow.auto.create.topics": False,
                "queue.buffering.max.messages": 200_000,
                "queue.buffering.max.kbytes": 65_536,
                **limits.settings,
                **(config or {}),
            },
            name,
        )
        self._topics: set[str] = set()
        #: The client; but for its ``produce`` there is no other reference that lasts.
        self._held: HeldClient[Producer] = HeldClient()
        self._open()

    def _open(self) -> None:
        """A producer, and lists for its failures that a producer before it does not know."""
        failed: list[tuple[str, KafkaError]] = []
        self._deliveries = Deliveries(self._config.get("debug"))
        heard = {"logger": self._deliveries, "debug": self._deliveries.contexts}

        def on_failure(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append((str(message.topic()), error))

        self._failed = failed
        self._fatal: KafkaError | None = None
        self._loss = BrokerLossDetector(self._clock)
        self._bound.forget()
        callbacks = {"on_delivery": on_failure, "error_cb": self._loss}
        producer = opened(self._client, "producer", {**self._config, **heard, **callbacks})
        self._produce: Any = producer.produce
        self._held.take(producer)

    def _client(self, config: dict[str, Any]) -> Producer:
        """A client of librdkafka with these settings."""
        return Producer(config)

    @property
    def _producer(self) -> Producer:
        return self._held.client

    def introduce(self, topics: Iterable[str]) -> None:
        """Have the client look up topics, so that their first records do not wait."""
        for topic in sorted(topics):
            look_up(self._producer, topic)

    def send(self, records: OutgoingRecords) -> None:
        """Queue records in order, waiting while more is queued than was delivered lately."""
        refused = self._limits.refusal(records)
        if refused is not None:
            keys, values = records.keys[: refused.index], records.values[: refused.index]
            records = attrs.evolve(records, keys=keys, values=values)
        self._topics.add(records.topic)
        self._renew(records.topic)
        times = records.timestamps
        if times is not None and not all(times):
            times = [time or EARLIEST_MS for time in times]
            records = attrs.evolve(records, timestamps=times)
        self._queue(records)
        self._serve(self._producer.poll, 0)
        self._check()
        if refused is not None:
            raise refused

    def _queue(self, records: OutgoingRecords) -> None:
        topic, keys, values = records.topic, records.keys, records.values
        given, partitions = records.timestamps, records.partitions
        times: Iterable[int] = repeat(0) if given is None else given
        where: Iterable[int] = repeat(-1) if partitions is None else ()
        if partitions is not None:
            where = repeat(partitions) if isinstance(partitions, int) else partitions
        if records.headers is None:
            self._send_run(topic, keys, values, times, where)
        else:
            self._send_rows(topic, keys, values, times, where, records.headers)

    def _send_run(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: Iterable[int],
        where: Iterable[int],
    ) -> None:
        """The hot loop: one call per record; keyword arguments would cost 0.2 µs a record."""
        produce: Any = self._produce
        done, size = 0, mean_size(keys, values, None)
        rows: Any = zip(keys, values, times, where, strict=False)
        while done < len(keys):
            until = done + self._make_room(size, len(keys) - done)
            try:
                for key, value, time, partition in islice(rows, until - done):
                    produce(topic, value, key, partition, None, None, time)
                    done += 1
            except BufferError:
                self._bound.queued(done - until, (done - until) * size)
                self._await_room()
                rows = islice(zip(keys, values, times, where, strict=False), done, None)
            except KafkaException as error:
                raise self._refusal(topic, done, error.args[0]) from error

    def _send_rows(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        times: Iterable[int],
        where: Iterable[int],
        headers: Sequence[Headers | None],
    ) -> None:
        """Like ``_send_run``, with headers of its own for each record."""
        produce: Any = self._produce
        done, size = 0, mean_size(keys, values, headers)
        rows: Any = zip(keys, values, times, where, headers, strict=False)
        while done < len(keys):
            until = done + self._make_room(size, len(keys) - done)
            try:
                for key, value, time, partition, head in islice(rows, until - done):
                    pairs = list(head) if head else None
                    produce(topic, value, key, partition, None, None, time, pairs)
                    done += 1
            except BufferError:
                self._bound.queued(done - until, (done - until) * size)
                self._await_room()
                rows = islice(zip(keys, values, times, where, headers, strict=False), done, None)
            except KafkaException as error:
                raise self._refusal(topic, done, error.args[0]) from error

    def has_room(self, *, hurried: bool) -> bool:
        """True if half of what may be queued is free, which is less if ``hurried``."""
        bound = self._bound
        bound.hurry(hurried)
        if bound.room < bound.bytes // 2:
            self._serve(self._producer.poll, 0)
            self._look(len(self._producer))
        return bound.room >= bound.bytes // 2

    def push(self) -> None:
        """Have what is queued sent without the linger; takes a millisecond, or less."""
        self._serve(self._producer.flush, _PUSH_S)
        self._check()

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything queued is delivered."""
        left_s = timeout_ms / 1000
        self._bound.look(len(self._producer))
        while left := self._serve(self._producer.flush, min(left_s, _LOOK_S)):
            self._look(left)
            left_s -= _LOOK_S
            if left_s <= 0:
                raise StillQueuedError(f"{refusals.still_queued(left)} after {timeout_ms} ms")
        self._bound.look(0)
        self._check()

    def fence(self) -> None:
        """Deliver nothing more of what is queued, as far as it did not leave; from any thread."""
        self._held.each(lambda producer: producer.purge(blocking=False))

    def reset(self) -> None:
        """Deliver nothing of what is queued; a new producer, whose sequence has no gap, goes on."""
        self.fence()
        self._open()

    def close(self) -> None:
        """Forget what is queued and free the client, even if it cannot go on."""
        self.fence()
        with contextlib.suppress(DeliveryError):
            self._held.each(lambda producer: self._serve(producer.poll, 0))
        self._failed.clear()
        self._produce = _ended
        self._held.free()

    def _renew(self, topic: str) -> None:
        """Have another producer go on from one that lost its brokers, if that lacks no delivery.

        What is still queued there gets through, or is reported as failed in time.
        """
        self._serve(self._producer.poll, 0)
        if not len(self._producer) and (self._loss or self._loss.lost(self._producer, topic)):
            self._check()
            self.reset()
        self._loss.heard()

    def _make_room(self, size: int, rows: int) -> int:
        """Wait for room; how many of so many records, of so many bytes each, are to be queued."""
        if not self._may_write():
            self._give_up(_OTHERS)
        bound, wanted = self._bound, min(rows, _CHUNK)
        if bound.take(wanted, size):
            return wanted
        bound.look(len(self._producer))
        began_ms, looks = self._clock.now_ms(), Retries(_ROOM_MS, _MOST_ROOM_MS)
        while bound.records and bound.room < min(wanted * size, bound.bytes // 2):
            self._await_room(looks.next_ms())
        self.waited_ms += self._clock.now_ms() - began_ms
        fitting = max(min(wanted, bound.room // size), 1)
        bound.queued(fitting, fitting * size)
        return fitting

    def _await_room(self, wait_ms: int = _MOST_ROOM_MS) -> None:
        self._serve(self._producer.poll, wait_ms / 1000)
        self._look(len(self._producer))

    def _look(self, left: int) -> None:
        """Note the queue's length during a wait; raises when waiting is of no use."""
        self._bound.look(left)
        self._check()
        if not self._may_write():
            self._give_up(_OTHERS)
        still_ms = self._clock.now_ms() - self._bound.moved_ms
        if still_ms >= self._lost_ms and self._loss:
            self._give_up("the client lost its brokers")
        if still_ms >= _SILENT * self._lost_ms:
            if self._topics and not finds_brokers(self._producer, min(self._topics)):
                self._give_up("the client finds no broker")
            self._bound.moved_ms = self._clock.now_ms()

    def _give_up(self, why: str) -> None:
        """Drop all queued records."""
        self.fence()
        raise UndeliveredError(f"{refusals.not_sent(self._bound.records)}: {why}")

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Poll or flush; a producer that can never go on raises there, amid its callbacks."""
        try:
            return call(timeout_s)
        except (KafkaException, SystemError) as error:
            del call  # the traceback would keep its client
            fatal = error if isinstance(error, KafkaException) else error.__cause__
            if not isinstance(fatal, KafkaException):
                raise
            self._fatal = fatal.args[0]
            raise self._ended(self._fatal) from error

    def _ended(self, why: KafkaError) -> DeliveryError:
        where = ", ".join(sorted(self._topics)) or "any topic"
        failure = f"nothing can be written to {where}"
        if why.code() in REFUSED:
            return refusals.unwritable(failure, why, self._topics)
        return DeliveryError(f"{failure}: {why.str()}")

    def _refusal(self, topic: str, index: int, why: KafkaError) -> DeliveryError:
        """The reason why a record was refused.

        A producer that can never go on takes nothing, without a reason: the reason is an event of
        its own that may not have been served yet.
        """
        if why.code() != KafkaError._FATAL:
            return refusals.record_refused(topic, index, why)
        try:
            while self._fatal is None and self._serve(self._producer.poll, _REASON_S):
                pass
        except DeliveryError as error:
            return error
        return self._ended(self._fatal or why)

    def _check(self) -> None:
        assumed = self._deliveries.take()
        if assumed:
            raise UndeliveredError(f"not sure to be written: {assumed[0]}")
        if self._failed:
            failed = [*self._failed]
            self._failed.clear()
            if any(error.code() in DROPPED for _, error in failed):
                raise UndeliveredError(f"{refusals.not_sent(len(failed))}: {_OTHERS}")
            raise refusals.undelivered(failed)
