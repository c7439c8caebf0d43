"""Settings of internal topics (``topic.…``), and what they allow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

import streamlet as sl
from streamlet.config.topic_properties import DECIDED, TOPIC_PROPERTIES
from streamlet.errors import ConfigError, ProcessingError
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from streamlet.runtime.catalog import prepare_topics
from streamlet.types import TopicPartition

pytestmark = pytest.mark.integration

LARGE = 2_000_000
ROOM = 3_000_000


@pytest.fixture
def name(admin: KafkaAdmin, bootstrap_servers: str) -> Iterator[str]:
    """An application's: ``NAME-in`` holds two records of 2 MB, ``NAME-out`` none."""
    name = f"large-{uuid4().hex[:8]}"
    room = (("max.message.bytes", str(ROOM)),)
    admin.create_topics([NewTopic(f"{name}-in", 1, 1, room), NewTopic(f"{name}-out", 1, 1, room)])
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": ROOM})
    for key, value in (("a", b"x" * LARGE), ("b", b"y" * LARGE), ("a", b"z")):
        producer.produce(f"{name}-in", value, key)
    assert producer.flush(300) == 0
    yield name
    admin.delete_topics([one for one in admin.topics() if one.startswith(name)])


def longest(name: str, bootstrap_servers: str, folder: Path, config: dict[str, object]) -> sl.App:
    """The longest text by its first character, through a repartition topic and a changelog."""
    app = sl.App(
        name,
        bootstrap_servers=bootstrap_servers,
        config={"state.dir": str(folder), "commit.interval.ms": 100, **config},
    )
    texts = app.stream(f"{name}-in", key=str, value=str).group_by(lambda k, v: v[0], key=str)
    table = texts.reduce(lambda one, two: max(one, two, key=len), store="longest")
    table.to_stream().to(f"{name}-out")
    return app


def test_a_record_of_2_mb_passes_a_repartition_topic_and_a_changelog(
    bootstrap_servers: str, admin: KafkaAdmin, name: str, tmp_path: Path
) -> None:
    config = {"producer.message.max.bytes": ROOM, "topic.max.message.bytes": ROOM}
    app = longest(name, bootstrap_servers, tmp_path / "one", config)
    found = {record.key: len(record.value) for record in app.run(count=3, timeout=300)}
    assert found == {"x": LARGE, "y": LARGE, "z": 1}
    for topic in (f"{name}-longest-repartition", f"{name}-longest-changelog"):
        assert admin.topic_config(topic)["max.message.bytes"] == str(ROOM)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(f"{name}-in", b"x", "a")
    assert producer.flush(300) == 0
    restored = longest(name, bootstrap_servers, tmp_path / "two", config)
    assert [len(r.value) for r in restored.run(count=1, timeout=300)] == [LARGE]


def test_without_the_setting_the_record_is_refused_by_name(
    bootstrap_servers: str, name: str, tmp_path: Path
) -> None:
    app = longest(name, bootstrap_servers, tmp_path, {"producer.message.max.bytes": ROOM})
    with pytest.raises(ProcessingError, match=rf"{name}-longest-repartition.*max\.message\.bytes"):
        app.run(timeout=300)


def test_a_topic_has_its_own_settings_and_another_name_is_refused(
    bootstrap_servers: str, admin: KafkaAdmin, name: str, tmp_path: Path
) -> None:
    one = f"topic.{name}-longest-changelog"
    wrong = {f"{one[:-1]}.segment.bytes": "20 MB"}
    with pytest.raises(ConfigError, match=f"did you mean {name}-longest-changelog"):
        longest(name, bootstrap_servers, tmp_path, wrong).run(timeout=300)
    assert not any("longest" in topic for topic in admin.topics())

    config = {f"{one}.segment.bytes": "20 MB", "topic.segment.ms": "1h"}
    config |= {"producer.message.max.bytes": ROOM, "topic.max.message.bytes": ROOM}
    app = longest(name, bootstrap_servers, tmp_path, config)
    assert len(app.run(count=3, timeout=300)) == 3
    changelog = admin.topic_config(f"{name}-longest-changelog")
    assert (changelog["segment.bytes"], changelog["segment.ms"]) == ("20000000", "3600000")
    assert changelog["cleanup.policy"] == "compact"
    between = admin.topic_config(f"{name}-longest-repartition")
    assert (between["segment.bytes"], between["segment.ms"]) == ("52428800", "3600000")


def test_every_setting_that_the_broker_knows_of_topics_is_taken_or_refused_by_name(
    admin: KafkaAdmin, name: str
) -> None:
    assert set(admin.topic_config(f"{name}-in")) <= TOPIC_PROPERTIES.keys() | DECIDED.keys()


def test_an_old_changelog_of_windows_is_altered_and_can_be_cut_off(
    admin: KafkaAdmin, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker refuses that of a topic which is compacted only; then a warning names it, once."""
    changelog = f"{name}-hours-changelog"
    admin.create_topics([NewTopic(changelog, 1, 1, (("cleanup.policy", "compact"),))])
    for _ in range(2):
        admin.delete_records({TopicPartition(changelog, 0): 0})
        deadline = time.monotonic() + 300
        while not caplog.messages and time.monotonic() < deadline:
            admin.topics()
    (warning,) = caplog.messages
    assert warning.startswith(f"the broker does not delete records of {changelog}")
    assert "POLICY_VIOLATION" in warning

    app = sl.App(name)
    hours = app.stream(f"{name}-in", key=str, value=str).group_by_key()
    hours.windowed_by(sl.tumbling("1h")).count(store="hours")
    prepare_topics(app.topology(), admin)
    found = admin.topic_config(changelog)
    wanted = {"cleanup.policy": "compact,delete", "retention.bytes": "-1", "retention.ms": "-1"}
    assert {one: found[one] for one in wanted} == wanted
    assert admin.alter_topics({changelog: {"no.such.setting": "1"}}).keys() == {changelog}
