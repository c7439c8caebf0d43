"""Topics that a stream reads on a real broker: unequal partition counts, patterns."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from streamlet.app import App
from streamlet.kafka.client import KafkaAdmin
from streamlet.kafka.ports import NewTopic

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
    assert producer.flush(30) == 0
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
        assert producer.flush(30) == 0

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
        assert producer.flush(30) == 0

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
    orders.peek(seen).group_by_key().count(store="counts").to_stream().to(out)
    told = Writes()
    logging.getLogger("streamlet.runtime.catalog").addHandler(told)
    try:
        results = app.run(count=4, timeout=300)
    finally:
        logging.getLogger("streamlet.runtime.catalog").removeHandler(told)
    assert sorted((r.key, r.value) for r in results) == [
        *((f"{goes}-0", 1), (f"{goes}-1", 1), (f"{stays}-0", 1), (f"{stays}-0", 2)),
    ]
    lines = [one.getMessage() for one in caplog.records if goes in one.getMessage()]
    assert [line for line in lines if "does not exist any more" in line] == [
        f"{goes}, which a pattern matched, does not exist any more: its partitions are not read, "
        "and what came of it stays in the stores of its tasks, which go on; without another "
        "input end, and keep their changelogs: 0_1"
    ]
