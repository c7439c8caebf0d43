"""A graph is cut where a topic lies between, and numbered as Kafka Streams numbers it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.graph.materialized import Materialized
from streamlet.errors import TopologyError
from streamlet.serdes import Serde
from streamlet.types import TaskId


def word_count(store: str | None = "counts", value: type[Any] = str) -> App:
    app = App("words")
    lines = app.stream("lines", key=bytes, value=value)
    words = lines.flat_map_values(str.split, value=str)
    words.group_by(lambda _, word: word, key=str).count(store=store).to_stream().to("counts")
    return app


def test_a_repartition_topic_splits_the_topology() -> None:
    first, second = word_count().topology().subtopologies

    assert (first.id, first.input_topics) == (0, ("lines",))
    assert first.output_topics == ("words-counts-repartition",)
    assert not first.stateful
    assert (second.id, second.input_topics) == (1, ("words-counts-repartition",))
    assert second.output_topics == ("counts",)
    assert [spec.name for spec in second.stores] == ["counts"]
    assert second.changelog_topics == ("words-counts-changelog",)


def test_a_store_that_is_shared_joins_two_sources_into_one_part() -> None:
    app = App("enrich")
    orders = app.stream("orders", key=str, value=dict)
    people = app.table("people", key=str, value=dict, store="people")
    orders.join(people, lambda order, person: {**order, **person}).to("out")

    (part,) = app.topology().subtopologies

    assert part.input_topics == ("orders", "people")
    assert part.changelog_topic("people") == "people"
    assert part.changelog_topics == ()


def test_streams_that_do_not_meet_are_parts_of_their_own_in_order_of_their_sources() -> None:
    app = App("two")
    app.stream("a", key=str, value=str).to("x")
    app.stream("b", key=str, value=str).to("y")

    assert [part.input_topics for part in app.topology().subtopologies] == [("a",), ("b",)]


def test_children_come_in_order_of_creation() -> None:
    app = App("fork")
    stream = app.stream("a", key=str, value=str)
    stream.to("z")
    stream.peek(print)
    stream.to("b")
    (part,) = app.topology().subtopologies

    assert part.children("KSTREAM-SOURCE-0000000000") == (
        "KSTREAM-SINK-0000000001",
        "KSTREAM-PEEK-0000000002",
        "KSTREAM-SINK-0000000003",
    )
    assert part.children("KSTREAM-SINK-0000000001") == ()


def test_there_is_a_task_for_each_partition_of_each_part() -> None:
    tasks = word_count().topology().tasks({"lines": 2})

    assert tasks == (TaskId(0, 0), TaskId(0, 1), TaskId(1, 0), TaskId(1, 1))


def test_made_up_names_carry_the_numbers_of_kafka_streams() -> None:
    part = word_count(store=None).topology().subtopologies[1]

    assert [spec.name for spec in part.stores] == ["KSTREAM-AGGREGATE-STATE-STORE-0000000003"]
    assert not part.stores[0].named
    assert part.input_topics == ("words-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition",)
    assert [source.name for source in part.sources] == ["KSTREAM-SOURCE-0000000007"]
    assert [node.name for node in part.processors] == [
        "KSTREAM-AGGREGATE-0000000004",
        "KTABLE-TOSTREAM-0000000008",
    ]


def test_the_hash_tells_other_serdes_and_other_stores_apart() -> None:
    def hashes(app: App) -> list[bytes]:
        return [part.hash for part in app.topology().subtopologies]

    assert hashes(word_count()) == hashes(word_count())
    assert hashes(word_count())[1] != hashes(word_count("other"))[1]
    text, other = App("a"), App("a")
    text.stream("in", key=str, value=str).peek(print)
    other.stream("in", key=str, value=int).peek(print)
    assert hashes(text) != hashes(other)
    assert {len(one) for one in hashes(word_count())} == {8}


def test_the_hash_is_the_same_in_another_process() -> None:
    program = (
        "from streamlet.app import App\n"
        "app = App('a')\n"
        "app.stream('in', key=str, value=dict).group_by_key().count(store='n')\n"
        "print(app.topology().subtopologies[0].hash.hex())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_an_empty_topology_is_refused() -> None:
    with pytest.raises(TopologyError, match="reads no topic"):
        App("nothing").topology()


def test_nothing_can_be_added_once_the_topology_was_built() -> None:
    app = App("late")
    stream = app.stream("a", key=str, value=str)
    app.topology()
    with pytest.raises(TopologyError, match="too late"):
        stream.to("b")
    assert app.topology() is app.topology()


def test_two_stores_of_one_name_are_refused() -> None:
    grouped = App("a").stream("in", key=str, value=str).group_by_key()
    grouped.count(store="n")
    with pytest.raises(TopologyError, match="two stores named 'n'"):
        grouped.count(store="n")


@pytest.mark.parametrize("name", ["a b", "é", "", "x" * 250, "..", "a/b"])
def test_a_name_that_kafka_takes_for_no_topic_is_refused(name: str) -> None:
    """Refused where it is given, not when the application starts."""
    stream = App("a").stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match="a topic that is read"):
        App("a").stream(name, key=str, value=str)
    with pytest.raises(TopologyError, match="a topic that is written"):
        stream.to(name)


@pytest.mark.parametrize("name", ["a b", "é", "x" * 240, "a/b"])
def test_a_name_that_makes_no_topic_of_ours_is_refused(name: str) -> None:
    stream = App("a").stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=r"repartition( topic|\(name=\))"):
        stream.repartition(name=name)
    with pytest.raises(TopologyError, match="store "):
        stream.group_by_key().count(store=name)


def test_a_topic_read_twice_alike_is_read_once() -> None:
    app = App("a")
    app.stream("in", key=str, value=str).to("x")
    app.stream("in", key=str, value=str).to("y")
    (part,) = app.topology().subtopologies
    assert len(part.sources) == 1
    assert part.children(part.sources[0].name) == (
        "KSTREAM-SINK-0000000001",
        "KSTREAM-SINK-0000000003",
    )


def test_a_topic_read_twice_differently_is_refused() -> None:
    app = App("a")
    app.stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match=r"'in' is read twice .*: value= str and int;"):
        app.stream("in", key=str, value=int)
    with pytest.raises(TopologyError, match="'in' is read twice"):
        app.stream("in", key=str, value=Serde("str", repr, repr))  # type: ignore[arg-type, misc]
    with pytest.raises(TopologyError, match="topic 'in' is read by KSTREAM-SOURCE-0000000000"):
        app.stream(["in", "other"], key=str, value=str)


def test_a_store_can_be_kept_in_memory_and_out_of_topics() -> None:
    app = App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    grouped.count(store=Materialized("n", persistent=False, logged=False))
    (part,) = app.topology().subtopologies
    (spec,) = part.stores
    assert (spec.name, spec.persistent, spec.logged, spec.named) == ("n", False, False, True)
    assert part.changelog_topic("n") is None
    assert part.changelog_topics == ()


def test_a_table_of_a_topic_is_always_logged() -> None:
    with pytest.raises(TopologyError, match="its topic is its changelog"):
        App("a").table("t", key=str, value=str, store=Materialized(logged=False))
