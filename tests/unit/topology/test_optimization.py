"""What ``topology.optimization`` makes of a topology: names and order are Kafka Streams'."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.config import Settings
from streamlet.config.optimizations import OPTIMIZATIONS
from streamlet.dsl.stream import KStream
from streamlet.errors import ConfigError, TopologyError
from streamlet.topology.describe import as_java, as_json, as_optimized_text, as_text
from streamlet.topology.edges import edges_of
from streamlet.topology.moved import check_moved

Stream = KStream[str, str]

# As Kafka Streams 4.1.1 prints it with topology.optimization=all.
MERGED = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-KEY-SELECT-0000000001
    Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
      --> KSTREAM-SINK-0000000004, counts-repartition-filter
      <-- KSTREAM-SOURCE-0000000000
    Processor: counts-repartition-filter (stores: [])
      --> counts-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000001
    Sink: KSTREAM-SINK-0000000004 (topic: all)
      <-- KSTREAM-KEY-SELECT-0000000001
    Sink: counts-repartition-sink (topic: counts-repartition)
      <-- counts-repartition-filter

  Sub-topology: 1
    Source: counts-repartition-source (topics: [counts-repartition])
      --> KSTREAM-FILTER-0000000002, KSTREAM-REDUCE-0000000012
    Processor: KSTREAM-FILTER-0000000002 (stores: [])
      --> KSTREAM-AGGREGATE-0000000005, KSTREAM-SINK-0000000003
      <-- counts-repartition-source
    Processor: KSTREAM-AGGREGATE-0000000005 (stores: [counts])
      --> KTABLE-TOSTREAM-0000000009
      <-- KSTREAM-FILTER-0000000002
    Processor: KSTREAM-REDUCE-0000000012 (stores: [KSTREAM-REDUCE-STATE-STORE-0000000011])
      --> KTABLE-TOSTREAM-0000000016
      <-- counts-repartition-source
    Processor: KTABLE-TOSTREAM-0000000009 (stores: [])
      --> KSTREAM-SINK-0000000010
      <-- KSTREAM-AGGREGATE-0000000005
    Processor: KTABLE-TOSTREAM-0000000016 (stores: [])
      --> KSTREAM-SINK-0000000017
      <-- KSTREAM-REDUCE-0000000012
    Sink: KSTREAM-SINK-0000000003 (topic: filtered)
      <-- KSTREAM-FILTER-0000000002
    Sink: KSTREAM-SINK-0000000010 (topic: numbers)
      <-- KTABLE-TOSTREAM-0000000009
    Sink: KSTREAM-SINK-0000000017 (topic: last)
      <-- KTABLE-TOSTREAM-0000000016

"""

# Likewise.
ONE_STORE = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> KSTREAM-WINDOWED-0000000001
    Processor: KSTREAM-WINDOWED-0000000001 (stores: [KSTREAM-JOINTHIS-0000000003-store])
      --> KSTREAM-MERGE-0000000005
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-MERGE-0000000005 (stores: [KSTREAM-JOINTHIS-0000000003-store])
      --> KSTREAM-SINK-0000000006
      <-- KSTREAM-WINDOWED-0000000001
    Sink: KSTREAM-SINK-0000000006 (topic: out)
      <-- KSTREAM-MERGE-0000000005

"""


def application(optimization: str = "all") -> App:
    return App("a", key=str, value=str, config={"topology.optimization": optimization})


def rekeyed(app: App) -> Stream:
    return app.stream("in", key=str, value=str).select_key(lambda k, v: v, key=str)


def counted(stream: Stream, store: str | None = None) -> None:
    stream.group_by_key().count(store=store)


def last(one: str, other: str) -> str:
    return other


def used_twice(optimization: str = "all") -> App:
    app = application(optimization)
    stream = rekeyed(app)
    filtered = stream.filter(lambda k, v: True)
    filtered.to("filtered")
    stream.to("all")
    filtered.group_by_key().count(store="counts").to_stream().to("numbers")
    stream.group_by_key().reduce(last).to_stream().to("last")
    return app


def joined_with_itself(optimization: str = "all", kind: str = "join") -> App:
    app = application(optimization)
    stream = app.stream("in", key=str, value=str)
    joined = getattr(stream, kind)
    joined(stream, lambda one, other: "", within=sl.join_windows("1s"), value=str).to("out")
    return app


def topics(build: Callable[[Stream], object]) -> tuple[str, ...]:
    """The repartition topics, without the name of the application and the ending."""
    app = application()
    build(rekeyed(app))
    found = app.topology().repartition_topics
    return tuple(topic.removeprefix("a-").removesuffix("-repartition") for topic in found)


def test_topics_behind_one_change_of_keys_become_one_as_in_kafka_streams() -> None:
    topology = used_twice().topology()
    assert as_java(topology) == MERGED
    assert topology.repartition_topics == ("a-counts-repartition",)


def test_a_stream_that_is_joined_with_itself_has_one_store_as_in_kafka_streams() -> None:
    assert as_java(joined_with_itself().topology()) == ONE_STORE


@pytest.mark.parametrize("build", [used_twice, joined_with_itself])
def test_nothing_is_changed_without_the_setting(build: Callable[[str], App]) -> None:
    plain, reused = build("none"), build("reuse.ktable.source.topics")
    assert as_text(plain.topology()) == as_text(reused.topology())
    assert as_text(plain.topology()) != as_text(build("all").topology())
    assert not plain.topology().optimizations


def test_each_rule_is_chosen_by_its_name() -> None:
    merge, share = "merge.repartition.topics", "single.store.self.join"
    assert len(used_twice(share).topology().repartition_topics) == 2
    assert len(used_twice(merge).topology().repartition_topics) == 1
    assert len(joined_with_itself(merge).topology().subtopologies[0].stores) == 2
    assert len(joined_with_itself(share).topology().subtopologies[0].stores) == 1


def test_settings_over_those_of_the_program_decide() -> None:
    app = used_twice("none")
    settings = app.load_settings(overrides=["topology.optimization=all"])
    assert as_java(app.topology(settings)) == MERGED
    assert len(app.topology().repartition_topics) == 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (" None ", ()),
        ("all", OPTIMIZATIONS),
        (
            "single.store.self.join, merge.repartition.topics",
            ("merge.repartition.topics", "single.store.self.join"),
        ),
        (["merge.repartition.topics"], ("merge.repartition.topics",)),
    ],
)
def test_the_values_of_kafka_streams_are_read(value: object, expected: object) -> None:
    assert Settings.load({"topology.optimization": value}).topology_optimization == expected


@pytest.mark.parametrize("value", ["some", "all,none", "all,single.store.self.join", "", 3])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="expected none or all, or some of merge"):
        Settings.load({"topology.optimization": value})


def test_the_hash_of_what_was_changed_is_another() -> None:
    for build in (used_twice, joined_with_itself):
        hashes = [{part.hash for part in build(one).topology().subtopologies} for one in RULES]
        assert not hashes[0] & hashes[1]


RULES = ("none", "all")


def test_describe_shows_what_stands_for_what() -> None:
    merged, joined = used_twice().topology(), joined_with_itself().topology()
    assert as_optimized_text(merged) == (
        f"{MERGED}Optimized:\n  counts-repartition stands for "
        "KSTREAM-REDUCE-STATE-STORE-0000000011-repartition (merge.repartition.topics)\n"
    )
    assert as_optimized_text(joined) == (
        f"{ONE_STORE}Optimized:\n  KSTREAM-JOINTHIS-0000000003-store stands for "
        "KSTREAM-JOINOTHER-0000000004-store (single.store.self.join)\n"
    )
    assert as_json(joined)["optimizations"] == [
        {
            "rule": "single.store.self.join",
            "kept": "KSTREAM-JOINTHIS-0000000003-store",
            "replaced": ["KSTREAM-JOINOTHER-0000000004-store"],
        }
    ]
    plain = used_twice("none").topology()
    assert as_optimized_text(plain) == as_text(plain)


def test_the_first_topic_keeps_its_name_and_all_uses_are_merged() -> None:
    def build(stream: Stream) -> None:
        stream.to_table(store="rows")
        counted(stream.peek(lambda k, v: None), "n")
        stream.group_by_key(name="named").reduce(last)

    assert topics(build) == ("KSTREAM-TOTABLE-0000000002",)


def test_branches_of_a_stream_are_merged() -> None:
    def build(stream: Stream) -> None:
        split = stream.split(name="x-").branch(lambda k, v: bool(v), name="one")
        for number, branch in enumerate(split.default_branch(name="other").values()):
            counted(branch, f"n{number}")

    assert topics(build) == ("n0",)


def test_what_needs_other_values_has_a_topic_of_its_own() -> None:
    def build(stream: Stream) -> None:
        counted(stream.map_values(str.upper, value=str), "upper")
        counted(stream, "n")
        stream.group_by_key().reduce(last, store="r")

    assert topics(build) == ("n", "upper")


def test_topics_of_other_types_stay() -> None:
    def build(stream: Stream) -> None:
        counted(stream, "n")
        stream.group_by_key(value=bytes).count(store="m")  # type: ignore[arg-type]

    assert topics(build) == ("m", "n")


def test_a_topic_that_the_user_asked_for_stays() -> None:
    def build(stream: Stream) -> None:
        stream.repartition(name="mine", partitions=3).to("out")
        counted(stream, "n")
        counted(stream, "m")

    assert topics(build) == ("mine", "n")


def test_a_topic_stays_where_a_store_would_be_moved_behind_it() -> None:
    def build(stream: Stream) -> None:
        filtered = stream.filter(lambda k, v: True)
        filtered.process_values(lambda record: record.value, value=str).to("out")
        counted(filtered, "n")
        counted(stream, "m")
        counted(stream, "o")

    assert topics(build) == ("m", "n")


def test_a_topic_stays_where_other_streams_would_come_behind_it() -> None:
    app = application()
    stream = rekeyed(app)
    filtered = stream.filter(lambda k, v: True)
    filtered.merge(app.stream("other", key=str, value=str)).to("out")
    counted(filtered, "n")
    counted(stream, "m")
    assert len(app.topology().repartition_topics) == 2


def test_merged_streams_have_one_topic_behind_the_merge() -> None:
    app = application()
    merged = rekeyed(app).merge(app.stream("other", key=str, value=str))
    counted(merged, "n")
    counted(merged.filter_not(lambda k, v: False), "m")
    first, second = app.topology().subtopologies
    assert first.sinks[0].parents == ("n-repartition-filter",)
    assert first.node("n-repartition-filter").parents == ("KSTREAM-MERGE-0000000003",)  # type: ignore[union-attr]
    assert second.input_topics == ("a-n-repartition",)


def test_each_change_of_keys_has_a_topic() -> None:
    def build(stream: Stream) -> None:
        counted(stream, "n")
        again = stream.filter(lambda k, v: True).map(lambda k, v: (v, k), key=str, value=str)
        counted(stream, "m")
        counted(again, "o")
        counted(again, "p")

    assert topics(build) == ("n", "o")


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: counted(stream, "n"),
        lambda stream: [counted(stream, name) for name in "nm"],  # type: ignore[func-returns-value]
        lambda stream: counted(stream.filter(lambda k, v: True), "n"),
    ],
    ids=["one", "two", "filtered"],
)
def test_values_are_written_whole_since_another_use_may_be_added(
    build: Callable[[Stream], object],
) -> None:
    def written(optimization: str) -> bytes:
        app = application(optimization)
        build(rekeyed(app))
        (raw,) = app.topology().subtopologies[0].sinks[0].value.encode_column(["whole"])
        return bytes(raw)

    assert (written("none"), written("all")) == (b"", b"whole")


def test_nothing_is_moved_behind_a_single_topic() -> None:
    """Records that wait in it have passed the filter, and an older version wrote no values."""
    texts = []
    for optimization in RULES:
        app = application(optimization)
        counted(rekeyed(app).filter(lambda k, v: True), "n")
        texts.append(as_text(app.topology()))
    assert texts[0] == texts[1]


def test_a_merged_topic_is_exact_where_its_parts_are() -> None:
    assert [edge.exact for edge in edges_of(used_twice().topology())] == [True]


@pytest.mark.parametrize("kind", ["left_join", "outer_join"])
def test_other_joins_keep_both_stores(kind: str) -> None:
    """Kafka Streams gives them one, and loses results of records without a key."""
    topology = joined_with_itself("all", kind).topology()
    assert as_text(topology) == as_text(joined_with_itself("none", kind).topology())


def test_a_named_join_of_a_rekeyed_stream_with_itself_has_one_topic_and_one_store() -> None:
    def build(stream: Stream) -> None:
        windows = sl.join_windows("1s")
        stream.join(stream, lambda one, other: one, within=windows, name="own", value=str)

    assert topics(build) == ("own-left",)
    app = application()
    build(rekeyed(app))
    assert len(app.topology().subtopologies[1].stores) == 1


def test_a_topic_that_would_be_left_behind_is_refused() -> None:
    before, topology = used_twice("none").topology(), used_twice().topology()
    left = "a-KSTREAM-REDUCE-STATE-STORE-0000000011-repartition"
    with pytest.raises(TopologyError, match=f"what went through {left}: .*streamlet reset"):
        check_moved(topology, "a", before.repartition_topics)
    check_moved(topology, "a", ["a-counts-repartition"])
    check_moved(before, "a", before.repartition_topics)
