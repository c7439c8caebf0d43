"""Which repartition topics are exact."""

from __future__ import annotations

import streamlet as sl
from streamlet.topology.edges import edges_of, sources_into


def regrouped(plain: bool = False) -> sl.App:
    app = sl.App("a")
    stream = app.stream("in", key=str, value=int).select_key(lambda k, v: k, key=str)
    stream.repartition(name="between", plain=plain).to("out")
    return app


def test_an_ordinary_repartition_is_exact() -> None:
    (edge,) = edges_of(regrouped().topology())
    assert (edge.topic, edge.exact) == ("a-between-repartition", True)


def test_a_plain_one_is_not() -> None:
    (edge,) = edges_of(regrouped(plain=True).topology())
    assert (edge.kind, edge.reason) == ("plain", "plain by wish")


def test_more_inputs_than_a_commit_can_note_are_not() -> None:
    topology = regrouped().topology()
    counts = {"in": 129, "a-between-repartition": 3}
    (edge,) = edges_of(topology, counts)
    assert edge.kind == "exact after commit"
    assert edge.reason == "records of 129 input partitions meet in it, 128 at most can"
    assert edges_of(topology, {**counts, "in": 128})[0].exact


def test_a_join_before_it_may_end_otherwise_when_it_is_read_again() -> None:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=int)
    met = app.stream("in", key=str, value=int).join(rows, lambda a, b: a + b, value=int)
    met.group_by(lambda k, v: str(v), key=str, value=int).count(store="counts")
    (edge,) = edges_of(app.topology())
    assert edge.kind == "exact after commit"
    assert edge.reason is not None
    assert "has a store and reads rows, in" in edge.reason or "in, rows" in edge.reason


def test_a_merge_without_a_store_is_exact() -> None:
    app = sl.App("a")
    one, two = (app.stream(name, key=str, value=int) for name in ("one", "two"))
    one.merge(two).group_by(lambda k, v: str(v), key=str, value=int).count(store="counts")
    (edge,) = edges_of(app.topology())
    assert edge.exact


def test_only_inputs_that_lead_to_a_topic_count_for_it() -> None:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=int)
    events = app.stream("in", key=str, value=int)
    events.join(rows, lambda a, b: a + b, value=int).to("out")
    events.group_by(lambda k, v: str(v), key=str, value=int, name="by").count(store="counts")
    topology = app.topology()
    topic = "a-by-repartition"
    assert sources_into(topology, topic) == ("in",)
    (edge,) = edges_of(topology, {"in": 100, "rows": 100, topic: 1})
    assert edge.exact


def test_all_inputs_count_where_a_processor_may_ask_for_the_time_that_they_move() -> None:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=int)
    events = app.stream("in", key=str, value=int)
    events.join(rows, lambda a, b: a + b, value=int).to("out")
    seen = events.process_values(lambda value: value, value=int)
    seen.group_by(lambda k, v: str(v), key=str, value=int, name="by").count(store="counts")
    topology = app.topology()
    assert sources_into(topology, "a-by-repartition") == ("in", "rows")
    (edge,) = edges_of(topology)
    assert edge.reason is not None
    assert "has a store and reads" in edge.reason


def test_records_wait_behind_those_that_wait_and_not_beside_them() -> None:
    app = sl.App("a")
    rows = app.table("rows", key=str, value=int)
    met = app.stream("in", key=str, value=int).join(rows, lambda a, b: a + b, value=int)
    counts = met.group_by(lambda k, v: str(v), key=str, value=int, name="one").count(store="one")
    counts.to_stream().group_by(lambda k, v: k, key=str, value=int, name="two").count(store="two")
    other = app.stream("other", key=str, value=int)
    other.group_by(lambda k, v: str(v), key=str, value=int, name="beside").count(store="beside")
    found = {edge.topic: edge for edge in edges_of(app.topology())}
    assert {topic: edge.kind for topic, edge in found.items()} == {
        "a-beside-repartition": "exact",
        "a-one-repartition": "exact after commit",
        "a-two-repartition": "exact after commit",
    }
    second = found["a-two-repartition"]
    assert second.follows
    assert second.reason == "behind a-one-repartition, whose records come in the order of commits"
