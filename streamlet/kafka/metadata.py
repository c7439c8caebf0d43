"""Reads topic metadata before a client needs it."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Producer

from streamlet.errors import BrokerError
from streamlet.kafka.codes import broker_error

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
