"""Refusals of brokers as errors of ours: of a login or certificate, and for want of a right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaError

from streamlet.counted import counted
from streamlet.errors import (
    AuthenticationError,
    DeliveryError,
    MissingRightError,
    RecordRefusedError,
    UndeliveredError,
    WriteRightError,
)
from streamlet.kafka.codes import NO_TOPIC
from streamlet.kafka.connection_advice import advice_for
from streamlet.rights import CLUSTER_REFUSED, REFUSED, Right, missing

#: What refuses a time that was not known to be refused: the topic was chosen for the record, say.
TIME_ADVICE = (
    "the topic's message.timestamp.after.max.ms, which is an hour unless it is set, or "
    "message.timestamp.before.max.ms does not take the time of a record"
)
_TOO_LARGE = "; larger ones need producer.message.max.bytes and the topic's max.message.bytes"
#: librdkafka's words where it has no token, and those of an endpoint that will give none.
_NO_TOKEN = "OAUTHBEARER token"
_REFUSED_BY_ENDPOINT = re.compile(
    r'"error":\s*"(invalid_client|unauthorized_client|invalid_scope|access_denied)"'
)


def may_pass(refusal: KafkaError) -> bool:
    """True if a refusal may pass by itself: a token endpoint that is away, say."""
    text = refusal.str()
    return _NO_TOKEN in text and _REFUSED_BY_ENDPOINT.search(text) is None


def refused_connection(where: str, error: KafkaError) -> AuthenticationError:
    """The error of a broker that answers, and refuses the login or one side's certificate."""
    return AuthenticationError(
        f"{where} was reached, and the connection is refused: {error.str()} ({error.name()}); "
        f"{advice_for(error.str())}"
    )


def missing_right(what: str, error: KafkaError, right: Right) -> MissingRightError:
    """The error of a request without its right."""
    return MissingRightError(f"{what}: {missing(right)} ({error.name()})")


def unwritable(what: str, error: KafkaError, topics: Iterable[str]) -> WriteRightError:
    """The error of records that may not be written, or of a producer that may write none.

    A producer needs a number of the cluster before it writes. WRITE on any topic is enough for it,
    but not before Kafka 2.8.
    """
    rights = [Right("WRITE", "topic", topic) for topic in sorted(topics)]
    if error.code() == CLUSTER_REFUSED:
        rights.append(Right("IDEMPOTENT_WRITE", "cluster"))
    return WriteRightError(f"{what}: {missing(*rights)} ({error.name()})")


def record_refused(topic: str, index: int, why: KafkaError) -> DeliveryError:
    """The error for a record that the client does not take."""
    if why.code() in REFUSED:
        return unwritable(f"nothing can be written to {topic}", why, [topic])
    too_large = why.code() == KafkaError.MSG_SIZE_TOO_LARGE
    advice = _TOO_LARGE if too_large else ""
    reason = f"a record to {topic} was refused: {why.str()}{advice}"
    return RecordRefusedError(reason, index, too_large=too_large)


def not_sent(number: int) -> str:
    """The beginning of an error for so many records that did not leave."""
    return counted(number, "record was not sent", "records were not sent")


def still_queued(number: int) -> str:
    """The beginning of an error for so many records that wait for their delivery."""
    return f"{counted(number, 'record')} still undelivered"


def undelivered(failed: Sequence[tuple[str, KafkaError]]) -> DeliveryError:
    """The error for records that were queued and not delivered, each with its topic."""
    where, why = failed[0]
    late = all(error.code() == KafkaError._MSG_TIMED_OUT for _, error in failed)
    records = counted(len(failed), "record")
    if why.code() in REFUSED:
        return unwritable(f"{records} not delivered to {where}", why, [where])
    advice = "; create the topic" if why.code() in NO_TOPIC else ""
    if why.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        advice = "; the topic's max.message.bytes takes less than a batch of ours"
    if why.code() == KafkaError.INVALID_TIMESTAMP:
        advice = f"; {TIME_ADVICE}"
    if why.code() == KafkaError.INVALID_RECORD:
        advice = "; a compacted topic takes no record without a key"
    return (UndeliveredError if late else DeliveryError)(
        f"{records} not delivered, first to {where}: {why.str()}{advice}"
    )
