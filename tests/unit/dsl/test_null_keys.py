"""Records without a key behind repartition topics: kept where a left or outer join wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.joins.windows import join_windows
from streamlet.dsl.stream import KStream
from streamlet.testing.driver import TopologyTestDriver
from streamlet.topology.edges import edges_of

Stream = KStream[Any, int]
WITHIN = join_windows("1s")


def keyed_by(value: int) -> str | None:
    return "k" if value > 0 else None


def rekeyed(app: App, topic: str = "in") -> Stream:
    return app.stream(topic, key=str, value=int).select_key(lambda k, v: keyed_by(v), key=str)


def rows(app: App) -> Any:
    return app.table("rows", key=str, value=int)


def global_rows(app: App) -> Any:
    return app.global_table("rows", key=str, value=int)


def other(app: App) -> Any:
    return rekeyed(app, "rows")


def joiner(one: int | None, two: int | None) -> str:
    return f"{one} {two}"


#: A topology -> what it sends for a record with a key, and one without.
JOINS: dict[str, tuple[Callable[[App], Any], list[str]]] = {
    "left join of a table": (
        lambda app: rekeyed(app).left_join(rows(app), joiner, value=str),
        ["1 None", "-1 None"],
    ),
    "join of a table": (lambda app: rekeyed(app).join(rows(app), joiner, value=str), []),
    "left join of a global table": (
        lambda app: (
            rekeyed(app)
            .repartition()
            .left_join(global_rows(app), joiner, on=lambda k, v: k, value=str)
        ),
        ["1 None", "-1 None"],
    ),
    "join of a global table": (
        lambda app: (
            rekeyed(app).repartition().join(global_rows(app), joiner, on=lambda k, v: k, value=str)
        ),
        [],
    ),
    "left join of a stream": (
        lambda app: rekeyed(app).left_join(other(app), joiner, within=WITHIN, value=str),
        ["-1 None"],
    ),
    "outer join of a stream": (
        lambda app: other(app).outer_join(rekeyed(app), joiner, within=WITHIN, value=str),
        ["None -1"],
    ),
    "join of a stream": (
        lambda app: rekeyed(app).join(other(app), joiner, within=WITHIN, value=str),
        [],
    ),
    "behind repartition() and operators": (
        lambda app: (
            rekeyed(app)
            .repartition(name="one")
            .filter(lambda k, v: True)
            .select_key(lambda k, v: k, key=str)
            .repartition(name="two")
            .peek(lambda k, v: None)
            .left_join(rows(app), joiner, value=str)
        ),
        ["1 None", "-1 None"],
    ),
    "repartition() with nothing behind it": (
        lambda app: rekeyed(app).repartition().map_values(str, value=str),
        ["1"],
    ),
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_record_without_a_key_passes_a_repartition_topic_if_a_join_behind_it_keeps_it(
    name: str, partitions: int
) -> None:
    make, expected = JOINS[name]
    app = App("a")
    make(app).to("out")
    topics = {topic for part in app.topology().subtopologies for topic in part.input_topics}
    counts = {topic: partitions for topic in ("in", "rows") if topic in topics}
    with TopologyTestDriver(app, partitions=counts) as driver:
        driver.pipe_input("in", "a", 1, 1)
        driver.pipe_input("in", "b", -1, 2)
        assert [record.value for record in driver.read_output("out")] == expected
        # Either the topic's filter counts it, or the join for which it passed.
        assert driver.dropped() == ("-1" not in " ".join(expected))


def test_a_record_without_a_key_meets_the_row_of_a_global_table_that_its_value_names() -> None:
    app = App("a")
    through = rekeyed(app).repartition()
    through.left_join(global_rows(app), joiner, on=lambda k, v: str(v), value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("rows", "-1", 7)
        driver.pipe_input("in", "a", -1)
        assert [(r.key, r.value) for r in driver.read_output("out")] == [(None, "-1 7")]


def test_an_aggregation_beside_the_join_leaves_out_what_the_join_keeps() -> None:
    app = App("a")
    through = rekeyed(app).repartition(name="by-key")
    through.group_by_key().count(store="counts")
    through.left_join(rows(app), joiner, value=str).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", 1), ("b", -1), ("c", 2)])
        assert [record.key for record in driver.read_output("out")] == ["k", None, "k"]
        assert list(driver.store("counts").range()) == [("k", 2)]


def test_a_topic_with_records_without_keys_is_as_exact_as_any() -> None:
    app = App("a")
    rekeyed(app).left_join(rows(app), joiner, value=str, name="by-key").to("out")
    (edge,) = edges_of(app.topology())
    assert edge.exact
