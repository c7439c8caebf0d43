"""A table of a topic has a store only if something reads it, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from streamlet.app import App
from streamlet.config import Settings
from streamlet.dsl.graph.materialized import Materialized
from streamlet.dsl.suppressing.until import until_time_limit
from streamlet.dsl.table import KTable
from streamlet.topology.describe import as_java
from streamlet.topology.graph import Topology

Table: TypeAlias = KTable[str, str]
STORE = "t-STATE-STORE-0000000000"


def stores_with(use: Callable[[App, Table], object], store: Any = None) -> list[str]:
    return [spec.name for part in made(use, store).subtopologies for spec in part.stores]


def made(use: Callable[[App, Table], object], store: Any = None) -> Topology:
    app = App("a")
    use(app, app.table("t", key=str, value=str, store=store))
    return app.topology()


def other(app: App) -> Table:
    return app.table("u", key=str, value=str, store="u")


UNREAD: dict[str, Callable[[App, Table], object]] = {
    "nothing": lambda app, table: None,
    "to_stream": lambda app, table: table.to_stream().to("out"),
    "filter": lambda app, table: table.filter(lambda k, v: True).to_stream().to("out"),
    "filter_not": lambda app, table: table.filter_not(lambda k, v: False).to_stream().to("out"),
    "map_values": lambda app, table: table.map_values(str.upper).to_stream().to("out"),
    "mapped twice": lambda app, table: table.map_values(str.upper).filter(lambda k, v: True),
    "a stream beside it": lambda app, table: table.to_stream().merge(
        app.stream("in", key=str, value=str)
    ),
    "a store of the stream behind it": lambda app, table: (
        table.to_stream().group_by_key().count(store="own")
    ),
}

READ: dict[str, Callable[[App, Table], object]] = {
    "group_by": lambda app, table: table.group_by(lambda k, v: (v, k), key=str, value=str).count(),
    "group_by of what is mapped": lambda app, table: (
        table.map_values(str.upper, value=str)
        .group_by(lambda k, v: (v, k), key=str, value=str)
        .count()
    ),
    "a join with a stream": lambda app, table: app.stream("in", key=str, value=str).join(
        table, lambda one, two: one
    ),
    "a join of a filtered table with a stream": lambda app, table: app.stream(
        "in", key=str, value=str
    ).left_join(table.filter(lambda k, v: True), lambda one, two: one),
    "a join on the left": lambda app, table: table.join(other(app), lambda one, two: one),
    "a join on the right": lambda app, table: other(app).outer_join(table, lambda one, two: one),
    "a join of a mapped table": lambda app, table: table.map_values(str.upper, value=str).join(
        other(app), lambda one, two: one
    ),
    "a join by foreign key, left": lambda app, table: table.join(
        other(app), lambda one, two: one, foreign_key=lambda v: v
    ),
    "a join by foreign key, right": lambda app, table: other(app).join(
        table, lambda one, two: one, foreign_key=lambda v: v
    ),
    "a processor": lambda app, table: app.stream("in", key=str, value=str).process(
        lambda record, context: None, stores=[STORE]
    ),
    "suppress": lambda app, table: table.suppress(until_time_limit("1s")),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_table_that_nothing_looks_up_keeps_nothing(name: str) -> None:
    topology = made(UNREAD[name])
    assert STORE not in [spec.name for part in topology.subtopologies for spec in part.stores]
    assert [spec.name for part in topology.subtopologies for spec in part.unread_stores] == [STORE]
    assert "t" in topology.table_topics
    (part,) = (part for part in topology.subtopologies if "t" in part.input_topics)
    assert part.id == 0


@pytest.mark.parametrize("name", READ)
def test_a_table_whose_rows_are_looked_up_has_its_store(name: str) -> None:
    topology = made(READ[name])
    assert STORE in [spec.name for part in topology.subtopologies for spec in part.stores]
    assert [spec.name for part in topology.subtopologies for spec in part.unread_stores] == []
    assert "t" in topology.table_topics


@pytest.mark.parametrize("name", UNREAD)
def test_a_store_that_was_asked_for_is_there(name: str) -> None:
    assert "rows" in stores_with(UNREAD[name], "rows")
    assert "rows" in stores_with(UNREAD[name], Materialized("rows", history="1h"))


@pytest.mark.parametrize("name", UNREAD)
def test_a_store_without_a_name_is_not_asked_for(name: str) -> None:
    assert STORE not in stores_with(UNREAD[name], Materialized(persistent=False))


def test_a_derived_table_with_a_store_of_its_own_needs_none_above() -> None:
    use = lambda app, table: table.filter(lambda k, v: True, store="kept")  # noqa: E731
    assert stores_with(use) == ["kept"]


def test_names_and_numbers_are_those_with_the_store() -> None:
    """As Kafka Streams 4.1.1 prints it: the store's number is used up."""
    described = as_java(made(UNREAD["map_values"]))
    assert "Processor: KTABLE-SOURCE-0000000002 (stores: [])" in described
    assert "Processor: KTABLE-MAPVALUES-0000000003 (stores: [])" in described


def test_optimizations_change_nothing_of_it() -> None:
    app = App("a")
    app.table("t", key=str, value=str).to_stream().to("out")
    everything = Settings.load(overrides=["topology.optimization=all"])
    (part,) = app.topology(everything).subtopologies
    assert not part.stateful
