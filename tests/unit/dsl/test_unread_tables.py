"""Tables without a store send what tables with one send, as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlet.app import App
from streamlet.dsl.graph.materialized import StoreLike
from streamlet.dsl.table import KTable
from streamlet.errors import NotFoundError
from streamlet.testing.driver import TopologyTestDriver

#: Deletions of rows that never were, times that go back, a record without a key.
RECORDS: list[tuple[Any, Any, int]] = [
    ("a", None, 10),
    ("a", 1, 30),
    ("a", 2, 20),
    (None, 3, 31),
    ("b", 4, 5),
    ("a", None, 1),
    ("b", None, 40),
    ("b", None, 41),
]

USES: dict[str, Callable[[KTable[Any, Any]], KTable[Any, Any]]] = {
    "as it is": lambda table: table,
    "filtered": lambda table: table.filter(lambda key, value: value != 1),
    "filtered with a store": lambda table: table.filter(lambda key, value: value != 1, store="f"),
    "mapped": lambda table: table.map_values(lambda value: value * 10, value=int),
    "mapped and filtered": lambda table: table.map_values(lambda v: v * 10, value=int).filter_not(
        lambda key, value: value == 20
    ),
}


def sent(use: str, store: StoreLike, batch: int) -> tuple[list[tuple[Any, Any, int]], int]:
    """What comes out, and how many were dropped; with ``batch`` 2 they come at once, at 0."""
    app = App("a")
    USES[use](app.table("t", key=str, value=int, store=store)).to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        if batch > 1:
            driver.pipe_inputs("t", [(key, value) for key, value, _ in RECORDS], 0)
        else:
            for key, value, time in RECORDS:
                driver.pipe_input("t", key, value, time)
        return [(r.key, r.value, r.timestamp) for r in driver.read_output("out")], driver.dropped()


def untimed(records: list[tuple[Any, Any, int]], batch: int) -> list[tuple[Any, Any, int]]:
    return [(key, value, time if batch == 1 else 0) for key, value, time in records]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_table_without_a_store_passes_on_all_that_has_a_key(batch: int) -> None:
    out, dropped = sent("as it is", None, batch)
    assert out == untimed([one for one in RECORDS if one[0] is not None], batch)
    assert dropped == 1


@pytest.mark.parametrize("batch", [1, 2])
def test_a_filter_without_stores_sends_a_tombstone_for_each_row_that_does_not_pass(
    batch: int,
) -> None:
    """It does not know whether the row passed before."""
    out, _ = sent("filtered", None, batch)
    expected: list[tuple[Any, Any, int]] = [
        ("a", None, 10),
        ("a", None, 30),
        ("a", 2, 20),
        ("b", 4, 5),
        ("a", None, 1),
        ("b", None, 40),
        ("b", None, 41),
    ]
    assert out == untimed(expected, batch)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("use", ["as it is", "mapped"])
def test_with_a_store_it_sends_the_same(use: str, batch: int) -> None:
    assert sent(use, None, batch) == sent(use, "rows", batch)


@pytest.mark.parametrize("use", USES)
def test_batches_make_no_difference(use: str) -> None:
    out, dropped = sent(use, None, 1)
    assert (untimed(out, 2), dropped) == sent(use, None, 2)


def test_there_is_no_store_to_ask_and_the_driver_says_which_there_are() -> None:
    app = App("a")
    app.table("t", key=str, value=int).filter(lambda k, v: True, store="f").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", 1)
        assert driver.store("f").get("a") == 1
        with pytest.raises(NotFoundError, match=r"there are: f$"):
            driver.store("t-STATE-STORE-0000000000")


def test_a_reader_of_the_topic_behind_it_has_objects_of_its_own() -> None:
    """Two branches of a table without a store do not see what the other changes."""

    def enrich(value: dict[str, int]) -> dict[str, int]:
        value["seen"] = 1
        return value

    app = App("a")
    table = app.table("t", key=str, value=dict[str, int])
    table.map_values(enrich, value=dict[str, int]).to_stream().to("changed")
    table.to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("t", "a", {"n": 1})
        assert [r.value for r in driver.read_output("out")] == [{"n": 1}]
        assert [r.value for r in driver.read_output("changed")] == [{"n": 1, "seen": 1}]
