"""Settings of Kafka's clients, given without a prefix or in Java's words: each has its answer."""

from __future__ import annotations

import re

import pytest

from streamlet.config import Settings
from streamlet.config.client_properties import CLIENT_PROPERTIES
from streamlet.config.client_words import ANSWERS, JAVA, OWN
from streamlet.config.kafka_streams import CLIENT_WIDE, ELSEWHERE, answer
from streamlet.errors import ConfigError

#: Names of Java's consumers and producers that are none of librdkafka's.
JAVA_NAMES = (
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
    *("fetch.max.wait.ms", "default.api.timeout.ms", "exclude.internal.topics", "buffer.memory"),
    *("interceptor.classes", "config.providers", "security.providers", "max.block.ms"),
    *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    *("max.request.size", "metadata.max.idle.ms", "partitioner.class", "partitioner.ignore.keys"),
    *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
    *("transaction.two.phase.commit.enable", "metric.reporters", "metrics.num.samples"),
    *("metrics.sample.window.ms", "receive.buffer.bytes", "send.buffer.bytes"),
    "socket.connection.setup.timeout.max.ms",
)


def problems(key: str) -> str:
    """What is said of a setting; empty where it is taken."""
    try:
        Settings.load({key: "1"})
    except ConfigError as error:
        return " / ".join(error.problems)
    return ""


def meant(said: str) -> list[str]:
    """The settings that a message asks to give instead."""
    return re.findall(r"(?:did you mean|it to Kafka's clients, as) ([\w.]+)", said)


@pytest.mark.parametrize("key", ["group.id", "consumer.group.id"])
def test_the_name_of_a_group_is_the_applications_id(key: str) -> None:
    assert re.fullmatch(rf"{key}: .* the application's id.*", problems(key))
    assert "instance" not in problems(key)


@pytest.mark.parametrize("name", sorted(CLIENT_PROPERTIES))
def test_a_property_of_a_client_without_a_prefix_names_the_prefix(name: str) -> None:
    said = problems(name)
    if not said.startswith(f"{name}: unknown setting"):
        return  # taken, of another value, or one of security
    instead = answer(name)
    assert instead is not None
    assert said.endswith(f"unknown setting, {instead}")
    prefixed = [key for key in meant(said) if key.partition(".")[2] == name]
    if name not in ANSWERS and name not in ELSEWHERE:
        assert prefixed, said
    for key in prefixed:
        assert "unknown" not in problems(key)


@pytest.mark.parametrize("name", JAVA_NAMES)
@pytest.mark.parametrize("client", ["", "consumer.", "producer."])
def test_a_word_of_javas_clients_is_answered_by_what_there_is(client: str, name: str) -> None:
    said = problems(client + name)
    if not said and name in CLIENT_WIDE:
        return
    assert re.fullmatch(rf"{client}{name}: .*, .*|security.providers: it is for Java.*", said)
    for key in meant(said):
        assert key.partition(".")[2] in {JAVA.get(name), "queue.buffering.max.kbytes"}
        assert "unknown" not in problems(key)


def test_words_of_clients_lead_to_properties_that_there_are() -> None:
    words = {*JAVA.values(), *OWN["consumer"], *OWN["producer"]}
    assert words <= CLIENT_PROPERTIES
    assert not OWN["consumer"] & OWN["producer"]
    assert not ANSWERS.keys() & JAVA.keys()


@pytest.mark.parametrize(
    "key", ["partition.eof", "stream.threads", "topic.metadata.refresh.sparse", "kafka.version"]
)
def test_a_key_that_is_only_a_little_alike_is_no_hint(key: str) -> None:
    said = problems(key)
    assert said.startswith(f"{key}: unknown setting")
    assert "did you mean" not in said


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("commit.intervall.ms", "commit.interval.ms"),
        ("replication.factr", "replication.factor"),
        ("bootstrap.server", "bootstrap.servers"),
        ("consumer.fetch.mim.bytes", "consumer.fetch.min.bytes"),
    ],
)
def test_a_misspelt_key_is_still_a_hint(key: str, hint: str) -> None:
    assert problems(key).endswith(f"did you mean {hint}?")
