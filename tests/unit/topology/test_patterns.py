"""Streams of all topics that match a pattern: which these are, and what is refused."""

from __future__ import annotations

import re

import pytest

import streamlet as sl
from streamlet.errors import MissingTopicError, NotFoundError, TopologyError
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.describe import as_json, as_mermaid, as_text
from streamlet.topology.edges import edges_of
from streamlet.types import TaskId, TopicPartition

ORDERS = re.compile(r"orders-.+")


def counting(pattern: re.Pattern[str] = ORDERS) -> sl.App:
    app = sl.App("shop")
    orders = app.stream(pattern, key=str, value=str)
    orders.group_by_key().count(store="n").to_stream().to("out")
    return app


def test_tasks_follow_from_the_topics_that_match_as_a_whole() -> None:
    topology = counting().topology()
    counts = {"orders-eu": 2, "orders-us": 3, "orders-": 9, "my-orders-eu": 9}
    assert topology.tasks(counts) == tuple(TaskId(0, n) for n in range(3))
    (part,) = topology.subtopologies
    assert part.inputs(0, counts) == (
        TopicPartition("orders-eu", 0),
        TopicPartition("orders-us", 0),
    )
    assert part.inputs(2, counts) == (TopicPartition("orders-us", 2),)
    assert topology.source_topics == ()
    assert topology.source_topics_among(counts) == ("orders-eu", "orders-us")


def test_topics_of_brokers_and_of_the_application_never_match() -> None:
    app = sl.App("shop")
    stream = app.stream(re.compile(".*"), key=str, value=str)
    stream.group_by(lambda k, v: v, key=str).count(store="n")
    topology = app.topology()
    counts = {
        **{"a": 1, "__consumer_offsets": 50, "shop-n-repartition": 4, "shop-n-changelog": 4},
        **{"shop-streamlet-control": 1, "other-n-changelog": 2},
    }
    assert topology.source_topics_among(counts) == ("a", "other-n-changelog")
    first, second = topology.subtopologies
    assert second.topics_among(counts) == ("shop-n-repartition",)
    assert second.source_of("shop-n-repartition").pattern is None
    assert first.task_count(counts) == 2


@pytest.mark.parametrize("name", ["orders", "sales"])
def test_topics_that_are_only_called_like_internal_ones_match(name: str) -> None:
    app = sl.App(name)
    app.stream(re.compile("orders-.*"), key=str, value=str).group_by_key().count(store="n")
    users = ("orders-eu-topic", "orders-users-changelog", "orders-x-repartition")
    there = {*users, "orders-n-changelog", "orders-streamlet-control"}
    ours = there - {*users} if name == "orders" else set()
    topology = app.topology()
    assert topology.source_topics_among(there) == tuple(sorted(there - ours))
    with TopologyTestDriver(app, partitions=dict.fromkeys(there - ours, 1)) as driver:
        for topic in users:
            driver.pipe_input(topic, "a", "x", partition=0)
        assert driver.store("n", partition=0).get("a") == 3


def test_a_pattern_and_a_topic_called_like_an_internal_one_read_it_once() -> None:
    app = sl.App("orders")
    app.stream(re.compile("orders-.*"), key=str, value=str).to("out")
    with pytest.raises(TopologyError, match="matches topic 'orders-eu-topic', which is read by"):
        app.table("orders-eu-topic", key=str, value=str)


def test_a_pattern_without_a_topic_is_a_missing_topic() -> None:
    with pytest.raises(MissingTopicError, match=r"no topic matches 'orders-\.\+'; create one"):
        counting().topology().tasks({"other": 1})


def test_a_topic_is_read_by_one_source_only() -> None:
    app = counting()
    with pytest.raises(TopologyError, match=r"'orders-\.\+' matches topic 'orders-eu', which"):
        app.stream("orders-eu", key=str, value=str)
    named = sl.App("shop")
    named.table("orders-eu", key=str, value=str)
    with pytest.raises(TopologyError, match="matches topic 'orders-eu', which is read by"):
        named.stream(ORDERS, key=str, value=str)
    two = counting()
    two.stream(re.compile(".*-eu"), key=str, value=str).to("all")
    with pytest.raises(TopologyError, match=r"orders-eu is read by .* and by .* by a pattern"):
        two.topology().tasks({"orders-eu": 1})


def test_a_pattern_asked_for_twice_is_one_source() -> None:
    app = counting()
    app.stream(re.compile(ORDERS.pattern), key=str, value=str).to("all")
    assert len(app.topology().subtopologies[0].sources) == 1


def test_the_hash_is_of_the_pattern_and_not_of_the_topics() -> None:
    one, same, other = counting(), counting(), counting(re.compile("orders-[a-z]+"))
    hashes = [app.topology().subtopologies[0].hash for app in (one, same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert "pattern orders-.+" in one.topology().subtopologies[0].belongings


def test_a_description_shows_the_pattern_as_java_does() -> None:
    topology = counting().topology()
    assert "Source: KSTREAM-SOURCE-0000000000 (topics: orders-.+)" in as_text(topology)
    (source,) = as_json(topology)["subtopologies"][0]["sources"]
    assert (source["topics"], source["pattern"]) == ([], "orders-.+")
    assert '{{"orders-.+"}}' in as_mermaid(topology)


def test_a_repartition_topic_behind_a_pattern_is_not_exact() -> None:
    app = sl.App("shop")
    app.stream(ORDERS, key=str, value=str).group_by(lambda k, v: v, key=str).count(store="n")
    (edge,) = edges_of(app.topology())
    assert edge.reason == "the topics that match orders-.+ may change"


def test_a_driver_is_told_which_topics_match() -> None:
    with TopologyTestDriver(counting(), partitions={"orders-eu": 1, "orders-us": 2}) as driver:
        driver.pipe_input("orders-eu", "a", "x")
        driver.pipe_input("orders-us", "a", "x", partition=0)
        assert driver.store("n", partition=0).get("a") == 2
        with pytest.raises(NotFoundError, match=r"partitions=\{'orders-asia': 1\}"):
            driver.pipe_input("orders-asia", "a", "x")


def test_a_regular_expression_that_is_text_is_told_how_patterns_are_read() -> None:
    with pytest.raises(
        TopologyError, match=r"not 'orders-\.\*'; stream\(re\.compile\(\.\.\.\)\) r"
    ):
        sl.App("a").stream("orders-.*", key=str, value=str)


def test_a_topology_is_short_as_text_and_names_what_shows_it() -> None:
    app = sl.App("counts")
    app.stream("in", key=str, value=str).group_by(lambda _, value: value).count()
    said = "<Topology of 'counts', 2 subtopologies: App.describe() shows it>"
    assert repr(app.topology()) == said
