"""Topics that a stream reads on a real broker: unequal partition counts, patterns."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as RawPartition

from streamlet.app import App
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration


def test_topics_of_unequal_partition_counts_are_merged(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """There are three tasks; only the first of them has a partition of the smaller topic."""
    small, large = f"small-{uuid4().hex[:8]}", f"large-{uuid4().hex[:8]}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics(
        [NewTopic(small, 1, 1), NewTopic(large, 3, 1), NewTopic(f"{small}-out", 1, 1)]
    )
    admin.close()
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition in range(3):
        producer.produce(large, b"x", f"large-{partition}".encode(), partition)
    producer.produce(small, b"x", b"small", 0)
    assert producer.flush(300) == 0
    config = {"state.dir": str(tmp_path)}
    app = App(f"merged-{small}", bootstrap_servers=bootstrap_servers, config=config)
    both = app.stream(large, key=str, value=str).merge(app.stream(small, key=str, value=str))
    both.group_by_key().count(store="counts").to_stream().to(f"{small}-out")
    results = app.run(count=4, timeout=300)
    assert sorted((r.key, r.value) for r in results) == [
        *((f"large-{partition}", 1) for partition in range(3)),
        ("small", 1),
    ]


def test_a_topic_that_matches_a_pattern_is_read_when_it_is_made_later(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    mark = uuid4().hex[:8]
    early, late, out = (f"orders-{mark}-{name}" for name in ("early", "late", "out"))

    def write(topic: str, *, partitions: int) -> None:
        admin = KafkaAdmin(bootstrap_servers)
        admin.create_topics([NewTopic(topic, partitions, 1)])
        admin.close()
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        producer.produce(topic, b"x", topic.encode(), partitions - 1)
        assert producer.flush(300) == 0

    def seen(key: str, value: str) -> None:
        if key == early:
            write(late, partitions=1)

    write(early, partitions=2)
    config = {"state.dir": str(tmp_path), "metadata.max.age.ms": "500"}
    app = App(f"app-{mark}", bootstrap_servers=bootstrap_servers, config=config)
    orders = app.stream(re.compile(f"orders-{mark}-(early|late)"), key=str, value=str)
    orders.peek(seen).group_by_key().count(store="counts").to_stream().to(out)
    write(out, partitions=1)
    results = app.run(count=2, timeout=300)
    assert [(r.key, r.value) for r in results] == [(early, 1), (late, 1)]


def test_others_go_on_when_a_topic_that_matched_a_pattern_is_deleted(
    bootstrap_servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The only topic with two partitions goes: the state of the second task has no input then."""
    mark = uuid4().hex[:8]
    stays, goes, out = (f"orders-{mark}-{name}" for name in ("stays", "goes", "out"))
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(stays, 1, 1), NewTopic(goes, 2, 1), NewTopic(out, 1, 1)])
    makes_none = {"allow.auto.create.topics": False}  # else it has the broker make the topic again
    producer = Producer({"bootstrap.servers": bootstrap_servers, **makes_none})

    def write(topic: str, partition: int) -> None:
        producer.produce(topic, b"x", f"{topic}-{partition}".encode(), partition)
        assert producer.flush(300) == 0

    def seen(key: str, value: str) -> None:
        if key == f"{goes}-1":
            admin.delete_topics([goes])

    class Writes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "does not exist any more" in record.getMessage():
                write(stays, 0)

    for place in ((stays, 0), (goes, 0), (goes, 1)):
        write(*place)
    config = {"state.dir": str(tmp_path), "commit.interval.ms": "100"}
    app = App(f"app-{mark}", bootstrap_servers=bootstrap_servers, config=config)
    orders = app.stream(re.compile(f"orders-{mark}-(stays|goes)"), key=str, value=str)
    counts = orders.peek(seen).group_by_key().count(store="counts").to_stream()
    counts.peek(lambda _, count: app.close() if count == 2 else None).to(out)
    told = Writes()
    logging.getLogger("streamlet.runtime.catalog").addHandler(told)
    try:
        results = app.run(timeout=300)
    finally:
        logging.getLogger("streamlet.runtime.catalog").removeHandler(told)
    # A task that waited for positions of the topic that goes may write a count once more.
    assert {(r.key, r.value) for r in results} == {
        *((f"{goes}-0", 1), (f"{goes}-1", 1), (f"{stays}-0", 1), (f"{stays}-0", 2)),
    }
    lines = [one.getMessage() for one in caplog.records if goes in one.getMessage()]
    assert [line for line in lines if "does not exist any more" in line] == [
        f"{goes}, which a pattern matched, does not exist any more: its partitions are not read, "
        "and what came of it stays in the stores of its tasks, which go on; without another "
        "input end, and keep their changelogs: 0_1"
    ]


@pytest.mark.parametrize("by", ["pattern", "name"])
def test_a_topic_that_is_made_again_is_read_from_its_first_record(
    bootstrap_servers: str, tmp_path: Path, by: str
) -> None:
    """It has more records than the positions of the old one, and is all that the state is of."""
    mark = uuid4().hex[:8]
    source, out = f"orders-{mark}-in", f"orders-{mark}-out"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(source, 1, 1), NewTopic(out, 1, 1)])
    makes_none = {"allow.auto.create.topics": False}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **makes_none})
    found: dict[str, int] = {}

    def write(kind: str, count: int) -> None:
        for at in range(count):
            producer.produce(source, b"x", f"{kind}-{at}".encode(), 0)
        assert producer.flush(300) == 0

    def seen(kind: str) -> int:
        return sum(key.startswith(kind) for key in list(found))

    config = {"state.dir": str(tmp_path), "commit.interval.ms": "100", "metadata.max.age.ms": "300"}
    app = App(f"app-{mark}", bootstrap_servers=bootstrap_servers, config=config)
    topics = re.compile(f"orders-{mark}-in") if by == "pattern" else source
    counts = app.stream(topics, key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().peek(lambda key, count: found.update({key: count})).to(out)
    thread = threading.Thread(target=app.run)
    thread.start()
    try:
        write("old", 5)
        wait_for(lambda: seen("old") == 5, "the old topic is counted")
        wait_for(lambda: committed(bootstrap_servers, f"app-{mark}", source) == 5, "and committed")
        admin.delete_topics([source])
        admin.create_topics([NewTopic(source, 1, 1)])
        write("new", 9)
        wait_for(lambda: seen("new") == 9, "the new one is read whole")
    finally:
        app.close()
        thread.join()
    assert [found[f"old-{at}"] for at in range(5)] == [1] * 5, "what was counted before stays"
    assert committed(bootstrap_servers, f"app-{mark}", source) == 9
    admin.delete_topics([source, out])
    admin.close()


def committed(servers: str, group: str, topic: str) -> int:
    """The group's position in the first partition of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        (found,) = consumer.committed([RawPartition(topic, 0)], timeout=60)
        return int(found.offset)
    finally:
        consumer.close()
