"""Reads what brokers know of topics: before a client needs it, and out of descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from streamlet.errors import BrokerError
from streamlet.kafka.admin_errors import AdminErrors
from streamlet.kafka.codes import broker_error
from streamlet.kafka.ports import TopicInfo

#: How long to wait for a topic's metadata.
METADATA_S = 10.0

#: How long a client may take to tell whether it has a broker that answers.
ANSWER_S = 1.0


def look_up(client: Consumer | Producer, topic: str, timeout_s: float = METADATA_S) -> None:
    """Have a client ask where a topic lies, which it remembers.

    Raises:
        BrokerError: no broker answers.
    """
    try:
        client.list_topics(topic, timeout=timeout_s)
    except KafkaException as error:
        raise broker_error(error) from error


def finds_brokers(client: Consumer | Producer, topic: str) -> bool:
    """True if any broker answers the client."""
    try:
        look_up(client, topic, ANSWER_S)
    except BrokerError:
        return False
    return True


def topics_in(answers: Mapping[str, Future[Any]], errors: AdminErrors) -> dict[str, TopicInfo]:
    """The topics that exist, out of the descriptions that were asked for.

    Raises:
        BrokerError: one cannot be described.
    """
    found: dict[str, TopicInfo] = {}
    for name, answer in answers.items():
        try:
            one = answer.result()
            found[name] = TopicInfo(name, len(one.partitions), str(one.topic_id))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise errors.settings(name, error, "DESCRIBE") from error
    return found
