"""Reads what brokers know of topics: before a client needs it, and out of descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    ConfigSource,
    TopicMetadata,
)

from streamlet.errors import BrokerError
from streamlet.kafka.admin_errors import AdminErrors
from streamlet.kafka.codes import UNTOLD, broker_error
from streamlet.kafka.ports import NewTopic, TopicInfo

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


def settings_in(
    answers: Mapping[ConfigResource, Future[Any]], errors: AdminErrors
) -> dict[str, dict[str, str]]:
    """The settings of each topic that exists and whose settings we may see.

    Raises:
        BrokerError: a topic's settings are refused for another reason.
    """
    settings = {}
    for resource, future in answers.items():
        try:
            entries = future.result().items()
        except KafkaException as error:
            if error.args[0].code() not in UNTOLD:
                raise errors.settings(resource.name, error) from error
        else:
            settings[resource.name] = {key: str(entry.value) for key, entry in entries}
    return settings


def definition(name: str, topic: TopicMetadata, settings: Iterable[Any]) -> NewTopic:
    """The definition that would create a topic again, with the settings that are its own."""
    own = [e for e in settings if e.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value]
    config = tuple(sorted((e.name, str(e.value)) for e in own))
    replicas = len(topic.partitions[0].replicas)
    return NewTopic(name, len(topic.partitions), replicas, config)


def without_leaders(found: Mapping[str, TopicMetadata], least: Mapping[str, int]) -> list[str]:
    """The topics that lack partitions of the number they have at least, or leaders of some."""
    return sorted(
        name
        for name, partitions in least.items()
        if name not in found
        or len(found[name].partitions) < partitions
        or any(p.leader < 0 for p in found[name].partitions.values())
    )
