"""Which topics need equal partition counts, and how many a repartition topic gets."""

from __future__ import annotations

import pytest

from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.dsl.windowing.definitions import tumbling, unlimited
from streamlet.errors import ConfigError, MissingTopicError, TopologyError
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import (
    MIN_COMPACTION_LAG_MS,
    TIME_CONFIG,
    expiring_changelogs,
    internal_topics,
    known_settings,
)
from streamlet.types import TaskId


def joined(rekeyed: bool, partitions: int | None = None) -> App:
    app = App("shop")
    orders = app.stream("orders", key=str, value=str)
    if rekeyed:
        orders = orders.select_key(lambda k, v: v, key=str)
    if partitions is not None:
        orders = orders.repartition(name="by-person", partitions=partitions)
    people = app.table("people", key=str, value=str)
    orders.join(people, lambda order, person: f"{order}{person}").to("out")
    return app


def test_a_join_over_unequal_counts_is_refused_with_both_topics_and_counts() -> None:
    with pytest.raises(TopologyError, match="orders has 3 partitions and people has 5"):
        joined(rekeyed=False).topology().tasks({"orders": 3, "people": 5})


def merged(app: App) -> KStream[str, str]:
    """Three topics in one stream, in both ways that there are."""
    return app.stream(["a", "b"], key=str, value=str).merge(app.stream("c", key=str, value=str))


def test_merged_topics_may_have_unequal_counts() -> None:
    """As in Kafka Streams: as many tasks as the largest has partitions, with what there is."""
    app = App("merge")
    merged(app).group_by_key().count(store="n")
    topology, counts = app.topology(), {"a": 1, "b": 3, "c": 2}
    assert topology.tasks(counts) == (TaskId(0, 0), TaskId(0, 1), TaskId(0, 2))
    (part,) = topology.subtopologies
    assert [[tp.topic for tp in part.inputs(n, counts)] for n in range(3)] == [
        ["a", "b", "c"],
        ["b", "c"],
        ["b"],
    ]
    (changelog,) = internal_topics(topology, counts)
    assert (changelog.name, changelog.partitions) == ("merge-n-changelog", 3)


def test_a_merged_stream_that_is_joined_needs_equal_counts_in_all_its_topics() -> None:
    app = App("merge")
    people = app.table("people", key=str, value=str)
    merged(app).join(people, lambda left, right: f"{left}{right}").to("out")
    topology = app.topology()
    assert len(topology.tasks(dict.fromkeys(("a", "b", "c", "people"), 2))) == 2
    with pytest.raises(TopologyError, match="people has 2 partitions and c has 3"):
        topology.tasks({"a": 2, "b": 2, "c": 3, "people": 2})


def test_topics_that_are_cogrouped_need_equal_counts() -> None:
    app = App("both")
    first = app.stream("a", key=str, value=str).group_by_key()
    second = app.stream("b", key=str, value=str).group_by_key()
    grouped = first.cogroup(lambda k, v, n: n + 1).cogroup(second, lambda k, v, n: n + 2)
    grouped.aggregate(lambda: 0, store="n")
    with pytest.raises(TopologyError, match="a has 1 partition and b has 2"):
        app.topology().tasks({"a": 1, "b": 2})


def test_what_is_merged_after_a_repartition_keeps_the_count_of_its_own() -> None:
    app = App("merge")
    moved = app.stream("a", key=str, value=str).repartition(name="moved")
    moved.merge(app.stream("b", key=str, value=str)).to("out")
    topology = app.topology()
    assert topology.partition_counts({"a": 2, "b": 5})["merge-moved-repartition"] == 2
    assert len(topology.tasks({"a": 2, "b": 5})) == 2 + 5


def test_a_table_has_a_partition_for_each_task_beside_it() -> None:
    """Its topic is its changelog, which a task without one of its partitions would lack."""

    def merged(store: str | None) -> Topology:
        app = App("merge")
        table = app.table("people", key=str, value=str, store=store)
        table.to_stream().merge(app.stream("more", key=str, value=str)).to("out")
        return app.topology()

    assert len(merged("people").tasks({"people": 3, "more": 2})) == 3
    with pytest.raises(TopologyError, match="people is read as a table and has 2 partitions, but"):
        merged("people").tasks({"people": 2, "more": 3})
    assert len(merged(None).tasks({"people": 2, "more": 3})) == 3, "it has no store to restore"


def test_a_repartition_topic_takes_the_count_of_what_it_is_joined_with() -> None:
    counts = joined(rekeyed=True).topology().partition_counts({"orders": 3, "people": 5})
    assert counts == {
        "orders": 3,
        "people": 5,
        "shop-KSTREAM-KEY-SELECT-0000000001-repartition": 5,
    }


def test_a_repartition_topic_read_alone_takes_the_count_it_is_written_from() -> None:
    app = App("sum")
    stream = app.stream("in", key=str, value=str)
    stream.group_by(lambda k, v: v, key=str).count(store="n")
    assert app.topology().partition_counts({"in": 4})["sum-n-repartition"] == 4


def test_a_chain_of_repartitions_hands_the_count_down() -> None:
    app = App("chain")
    stream = app.stream("in", key=str, value=str)
    stream.repartition(name="one").repartition(name="two").to("out")
    counts = app.topology().partition_counts({"in": 7})
    assert counts == {"in": 7, "chain-one-repartition": 7, "chain-two-repartition": 7}


def test_a_count_that_was_given_holds() -> None:
    topology = joined(rekeyed=False, partitions=5).topology()
    assert topology.partition_counts({"orders": 3, "people": 5})["shop-by-person-repartition"] == 5


def test_a_given_count_that_does_not_fit_the_join_is_refused() -> None:
    topology = joined(rekeyed=False, partitions=2).topology()
    with pytest.raises(
        TopologyError, match="shop-by-person-repartition has 2 partitions and people has 5"
    ):
        topology.partition_counts({"orders": 3, "people": 5})


def test_a_missing_source_topic_is_named_and_one_that_is_called_alike() -> None:
    topology = joined(rekeyed=False).topology()
    with pytest.raises(MissingTopicError, match="does not exist: people; create it"):
        topology.tasks({"orders": 3})
    with pytest.raises(MissingTopicError, match=r"people \(did you mean peoples\?\); create it"):
        topology.tasks({"orders": 3, "peoples": 3})


def test_internal_topics_have_kafkas_names_and_safe_settings() -> None:
    made = internal_topics(counted().topology(), {"in": 4}, replication=3)

    repartition, changelog = made
    assert (repartition.name, repartition.partitions) == ("sum-n-repartition", 4)
    assert dict(repartition.config) == {
        **dict(TIME_CONFIG),
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    }
    assert (changelog.name, changelog.partitions) == ("sum-n-changelog", 4)
    assert dict(changelog.config)["cleanup.policy"] == "compact"
    assert int(dict(changelog.config)["min.compaction.lag.ms"]) >= 3_600_000
    assert {topic.replication for topic in made} == {3}


def test_changelogs_of_windows_can_be_cut_off_and_lose_nothing_by_themselves() -> None:
    """The owner deletes; the broker's own settings for age and size do not count."""
    app = App("w")
    stream = app.stream("in", key=str, value=str).group_by_key()
    stream.windowed_by(tumbling("1m")).count(store="minutes")
    stream.windowed_by(unlimited()).count(store="ever")
    topology = app.topology()
    minutes, ever = internal_topics(topology, {"in": 4})
    assert expiring_changelogs(topology) == {"w-minutes-changelog"} == {minutes.name}
    assert dict(minutes.config) == {
        **dict(TIME_CONFIG),
        "cleanup.policy": "compact,delete",
        "min.compaction.lag.ms": str(MIN_COMPACTION_LAG_MS),
        "retention.bytes": "-1",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    }
    assert dict(ever.config)["cleanup.policy"] == "compact"


def test_times_are_kept_whatever_the_brokers_defaults_say() -> None:
    app = App("w")
    stream = app.stream("in", key=str, value=str).group_by(lambda k, v: v)
    stream.windowed_by(tumbling("1m")).count(store="minutes")
    never = str(2**63 - 1)
    for topic in internal_topics(app.topology(), {"in": 4}):
        own = dict(topic.config)
        assert own["message.timestamp.type"] == "CreateTime"
        assert own["message.timestamp.after.max.ms"] == never
        assert own["message.timestamp.before.max.ms"] == never


def test_a_broker_before_3_6_is_asked_for_no_limit_that_it_does_not_know() -> None:
    made = internal_topics(counted().topology(), {"in": 4})
    full = {"cleanup.policy": "delete", "max.message.bytes": "1", "message.timestamp.type": "x"}
    for topic in known_settings(made, {"in": full}):
        own = dict(topic.config)
        assert own["message.timestamp.type"] == "CreateTime"
        assert "message.timestamp.after.max.ms" not in own
        assert "message.timestamp.before.max.ms" not in own
    newer = {**full, **dict(TIME_CONFIG)}
    for existing in ({"in": newer}, {}, {"in": {"cleanup.policy": "delete"}}):
        assert known_settings(made, existing) == list(made)


def counted() -> App:
    app = App("sum")
    stream = app.stream("in", key=str, value=str)
    stream.group_by(lambda k, v: v, key=str).count(store="n")
    return app


def test_given_settings_are_added_to_those_of_internal_topics() -> None:
    given = {
        "": {"max.message.bytes": "5", "segment.bytes": "6"},
        "sum-n-changelog": {"segment.bytes": "7"},
    }
    repartition, changelog = internal_topics(counted().topology(), {"in": 4}, given=given)
    assert dict(repartition.config) == {
        **dict(TIME_CONFIG),
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "segment.bytes": "6",
        "max.message.bytes": "5",
    }
    assert dict(changelog.config)["segment.bytes"] == "7"
    assert dict(changelog.config)["max.message.bytes"] == "5"
    assert dict(changelog.config)["cleanup.policy"] == "compact"


def test_settings_given_for_a_topic_that_is_not_made_are_all_refused() -> None:
    given = {"sum-m-changelog": {"segment.ms": "1", "flush.ms": "1"}, "zzz": {"flush.ms": "2"}}
    with pytest.raises(ConfigError) as refused:
        internal_topics(counted().topology(), {"in": 4}, given=given)
    begin = "topic.sum-m-changelog"
    end = "sum makes no internal topic sum-m-changelog, did you mean sum-n-changelog?"
    assert refused.value.problems == (
        f"{begin}.segment.ms: {end}",
        f"{begin}.flush.ms: {end}",
        "topic.zzz.flush.ms: sum makes no internal topic zzz, "
        "it makes sum-n-repartition, sum-n-changelog",
    )


def test_a_table_read_from_a_topic_needs_no_changelog() -> None:
    assert internal_topics(joined(False).topology(), {"orders": 1, "people": 1}) == ()
