"""The producer of transactions: a ``TransactionSink`` over confluent-kafka.

A transaction begins with the first record behind the last commit, and all that is sent until the
next one is in it. It is *sealed* with the positions that belong to it; then nothing more is sent
until it has ended. librdkafka's producers speak transaction version 1, in which a request of an old
transaction that was delayed on the way can end the next one, or bring it positions (KIP-890). What
keeps them apart is the producer's epoch. So whatever ends otherwise than by a commit that is known
ends the producer: another one begins, and with it a new epoch, before anything else is sent. So
does a commit that took so long that the client may have sent a request of it twice: it does where
the connection broke, says nothing of it, and the first one may still arrive.

librdkafka takes the membership that fences a commit as bytes in a form of its own. They are made
here, and compared with the client's own before the first transaction.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as RawPartition

from streamlet.clock import pause
from streamlet.coordinator.messages import OffsetCommit
from streamlet.errors import (
    BrokerError,
    ConfigError,
    DeliveryError,
    UndeliveredError,
    UnreachableError,
)
from streamlet.kafka.codes import broker_error, opened
from streamlet.kafka.log import quiet
from streamlet.kafka.ports import OutgoingRecords
from streamlet.kafka.refusals import missing_right
from streamlet.kafka.sink import ANSWER_MS, DELIVERY_MS, DROPPED, KafkaSink
from streamlet.logs import get_logger
from streamlet.rights import REFUSED, Right
from streamlet.types import TopicPartition

log = get_logger(__name__)

#: The answers that say that nothing was committed, as those to a plain commit do: the membership
#: that it was sent under does not count any more, or the positions cannot be written.
_DEFINITE = frozenset({12, 22, 25, 28, 29, 30, 69, 82, 110})
#: A commit that may have happened, as the table of answers has it.
_UNKNOWN = -1
#: How long a new producer waits for its epoch at first: brokers end what was open before.
_INIT_MS = 15_000
#: How long each later try waits, on the stream thread.
_AGAIN_MS = 250
#: Of a producer that only aborts what another one has open.
_ABORT_MS = 10_000
#: How long the client waits before it sends a request again whose answer may be lost, ms, and how
#: much of that at least.
_RESENT_MS, _JITTER = 300, 0.8
#: How long a producer that ends waits for its open transaction to be aborted.
_ABORT_S = 2.0


@attrs.frozen(eq=False)
class _Sealed:
    """A transaction to which nothing more is added."""

    producer: Producer
    offsets: Mapping[TopicPartition, tuple[int, str]]


class TransactionalSink(KafkaSink):
    """A ``KafkaSink`` whose records count once they are committed, all of them or none.

    Args:
        transactional_id: ends what a process before us left open under it.
        timeout_ms: when brokers abort a transaction.
        bootstrap_servers: ``host:port,…``.
        config: more librdkafka settings, last word.
        others: as of ``KafkaSink``.

    Raises:
        ConfigError: the client writes memberships in another form, or refuses a setting.
        BrokerError: no epoch can be had.
    """

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        bootstrap_servers: str,
        config: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self._id, self._timeout_ms = transactional_id, timeout_ms
        self._lock = threading.Lock()
        check_group_form()
        own = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": min(ANSWER_MS, timeout_ms),
            "retry.backoff.ms": _RESENT_MS,
        }
        delivery_ms = min(DELIVERY_MS, timeout_ms)
        super().__init__(
            bootstrap_servers,
            {**own, **(config or {})},
            delivery_timeout_ms=delivery_ms,
            **others,
        )
        self._resent_ms = _JITTER * float(self._config["retry.backoff.ms"])
        self._await_epoch(_INIT_MS)

    def _open(self) -> None:
        with self._lock:
            super()._open()
            self._has_epoch = self._begun = self._doubtful = False
            self._sealed: _Sealed | None = None

    @property
    def begun(self) -> bool:
        """True if something was sent since the last commit."""
        return self._begun

    def has_room(self, *, hurried: bool) -> bool:
        """True if half of what may be queued is free, and the producer has its epoch."""
        if not self._has_epoch:
            try:
                self._await_epoch(_AGAIN_MS)
            except UnreachableError as error:
                log.debug("%s", error)
                return False
        return super().has_room(hurried=hurried)

    def send(self, records: OutgoingRecords) -> None:
        """Queue records in order, in the open transaction, which begins with the first."""
        topic = records.topic
        assert self._sealed is None, f"a record to {topic} behind the end of its transaction"
        if not self._begun:
            self._begin(topic)
        super().send(records)

    def seal(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Add nothing more to the transaction, which these positions and texts belong to."""
        if not self._begun:
            self._begin(next(iter(self._topics), ""))
        self._sealed = _Sealed(self._producer, dict(offsets))

    def commit(self, request: OffsetCommit, timeout_ms: int) -> int:
        """Commit the sealed transaction; see ``coordinator.transactions.TransactionEnder``."""
        sealed = self._sealed
        if sealed is None or sealed.offsets != request.offsets:
            return _UNKNOWN
        raw = [
            RawPartition(tp.topic, tp.partition, offset, text)
            for tp, (offset, text) in request.offsets.items()
        ]
        began_ms = self._clock.now_ms()
        until_ms = began_ms + timeout_ms
        try:
            group = self._membership(request)
            self._until(
                until_ms,
                lambda left_s: sealed.producer.send_offsets_to_transaction(raw, group, left_s),
            )
        except KafkaException as error:
            return self._failed_commit(error.args[0], positions=True)
        if self._sealed is not sealed:  # it was given up meanwhile
            return _UNKNOWN
        try:
            self._until(until_ms, sealed.producer.commit_transaction)
        except KafkaException as error:
            return self._failed_commit(error.args[0], positions=False)
        with self._lock:
            if self._sealed is sealed:
                self._doubtful = self._clock.now_ms() - began_ms >= self._resent_ms
                self._sealed, self._begun = None, False
        return 0

    def _membership(self, request: OffsetCommit) -> Any:
        """The membership of a commit, as the client takes it."""
        return group_bytes(
            request.group, request.generation, request.member_id, request.instance_id
        )

    def reset(self) -> None:
        """Deliver and commit nothing of what was sent since the last commit.

        Another producer begins with a new epoch, by which brokers abort what was open.
        """
        super().reset()
        try:
            self._await_epoch(_INIT_MS)
        except UnreachableError as error:
            log.warning("%s", error)

    def close(self) -> None:
        """Abort the open transaction, and free the client."""
        if self._begun and self._sealed is None:
            try:
                self.fence()
                self._held.each(lambda producer: producer.abort_transaction(_ABORT_S))
            except KafkaException as error:
                log.debug("an open transaction is left to its time-out: %s", error)
        self._sealed = None
        super().close()

    def _begin(self, topic: str) -> None:
        """Begin a transaction, with another client if this one has lost its brokers."""
        if self._doubtful:
            log.info("a commit took long: another epoch begins, which no late request belongs to")
            self.reset()
        if topic:
            super()._renew(topic)
        if not self._has_epoch:
            try:
                self._await_epoch(_AGAIN_MS)
            except UnreachableError as error:
                raise UndeliveredError(str(error)) from error
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._ended(error.args[0]) from error
        self._begun = True

    def _renew(self, topic: str) -> None:
        """Another client would lack what the open transaction has."""
        self._serve(self._producer.poll, 0)

    def _await_epoch(self, timeout_ms: int) -> None:
        """Register the producer: brokers abort its open transaction and give it the next epoch.

        Raises:
            UnreachableError: not in this time.
            BrokerError: they refuse.
            ConfigError: they refuse the time-out.
        """
        until_ms = self._clock.now_ms() + timeout_ms
        while not self._has_epoch:
            try:
                self._until(until_ms, self._initialized)
                self._has_epoch = True
            except KafkaException as error:
                why, refused = error.args[0], self._refused_epoch(error.args[0])
                if not why.fatal() or not isinstance(refused, UnreachableError):
                    raise refused from error
                pause(_AGAIN_MS)  # as a client that was fenced has none for ever, another one asks
                super().reset()
                if self._clock.now_ms() >= until_ms:
                    raise refused from error

    def _initialized(self, timeout_s: float) -> None:
        self._producer.init_transactions(timeout_s)

    def _refused_epoch(self, why: KafkaError) -> BrokerError | ConfigError:
        what = f"transactional id {self._id}"
        if why.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return missing_right(what, why, Right("WRITE", "transactional-id", self._id))
        if why.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return ConfigError(
                [
                    f"transaction.timeout.ms = {self._timeout_ms} is more than the brokers' "
                    "transaction.max.timeout.ms"
                ]
            )
        if why.code() in REFUSED:
            return broker_error(KafkaException(why))
        return UnreachableError(f"{what} has no epoch yet: {why.str()} ({why.name()})")

    def _until(self, until_ms: int, call: Callable[[float], Any]) -> None:
        """Call, and again after errors that the client calls retriable, until the time is up."""
        while True:
            left_ms = until_ms - self._clock.now_ms()
            try:
                call(max(left_ms, 1) / 1000)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or self._clock.now_ms() >= until_ms:
                    raise

    def _failed_commit(self, why: KafkaError, *, positions: bool) -> int:
        """The code of a commit that failed; ``positions``: no end was asked for yet."""
        code = int(why.code())
        log.warning("a transaction was not committed: %s (%s)", why.str(), why.name())
        return code if positions and code in _DEFINITE else _UNKNOWN

    def _ended(self, why: KafkaError) -> DeliveryError:
        """A transaction that cannot go on is begun again; nothing of it counts."""
        found = super()._ended(why)
        return found if why.code() in REFUSED else UndeliveredError(str(found))

    def _check(self) -> None:
        """Raise what ended the transaction, and not that its other records were dropped then."""
        own = [failed for failed in self._failed if failed[1].code() not in DROPPED]
        if own:
            self._failed[:] = own
        elif self._failed and self._begun and (why := self._aborted_by()):
            self._failed.clear()
            raise super()._ended(why)
        super()._check()

    def _aborted_by(self) -> KafkaError | None:
        """The right that an open transaction failed for want of, if it did.

        A partition that may not be part of it is reported by no record: the client answers the
        beginning of another transaction with it.
        """
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            why: KafkaError = error.args[0]
            return why if why.code() in REFUSED else None
        return None

    def _refusal(self, topic: str, index: int, why: KafkaError) -> DeliveryError:
        """No record is refused for what became of its transaction."""
        if why.code() in (KafkaError._STATE, KafkaError._FENCED, KafkaError._FATAL):
            return UndeliveredError(f"the transaction cannot go on: {why.str()}")
        return super()._refusal(topic, index, why)


def abort_open(
    transactional_id: str, bootstrap_servers: str, config: Mapping[str, Any] | None = None
) -> None:
    """Have the transaction aborted that a producer of this id has open; that one cannot go on.

    Raises:
        UnreachableError: not in time.
        BrokerError: the brokers refuse.
    """
    TransactionalSink(transactional_id, _ABORT_MS, bootstrap_servers, config).close()


def group_bytes(group: str, generation: int, member_id: str, instance_id: str | None) -> bytes:
    """A membership in the form in which librdkafka passes it on."""
    parts = group.encode() + b"\0" + member_id.encode() + b"\0"
    static = b"\x01" if instance_id is None else b"\x00" + instance_id.encode() + b"\0"
    return b"CGMDv2:" + struct.pack("=i", generation) + parts + static


def check_group_form() -> None:
    """Make sure that this client writes memberships as ``group_bytes`` does.

    Raises:
        ConfigError: it does not: its version is one that we do not know.
    """
    for instance_id in (None, "streamlet-0"):
        static: dict[str, Any] = {} if instance_id is None else {"group.instance.id": instance_id}
        settings = quiet({"group.id": "streamlet-form", **static}, "streamlet-form")
        client = opened(Consumer, "consumer", settings)
        try:
            found = client.consumer_group_metadata()
        finally:
            client.close()
        if found != group_bytes("streamlet-form", -1, "", instance_id):
            raise ConfigError(
                [
                    "processing.guarantee: this version of confluent-kafka writes memberships in "
                    "a form that is not known; use at_least_once, or the version that streamlet "
                    "is installed with"
                ]
            )
