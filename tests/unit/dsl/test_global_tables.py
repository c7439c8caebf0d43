"""Joins with global tables: keys of rows, failures, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.describe import as_json, as_text
from streamlet.topology.edges import edges_of


def shop(kind: str = "join", on: Any = lambda key, value: value, **more: Any) -> App:
    app = App("shop", on_error="skip")
    table = app.global_table("products", key=str, value=str, store="products")
    orders = app.stream("orders", key=str, value=str)
    joined = getattr(orders, kind)(table, lambda v, row: f"{v}={row}", on=on, value=str, **more)
    joined.to("out")
    return app


SHOP = shop()


def told(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.read_output("out")]


def test_streams_of_any_partition_count_meet_all_rows() -> None:
    with TopologyTestDriver(shop(), partitions={"orders": 3, "products": 2}) as driver:
        driver.pipe_inputs("products", [("p", "Pen"), ("q", "Quill")])
        driver.pipe_inputs("orders", [(key, one) for key in "abcdef" for one in "pq"])
        assert len(driver.tasks) == 3
        assert sorted(told(driver)) == [
            (key, row) for key in "abcdef" for row in ("p=Pen", "q=Quill")
        ]
        assert driver.store("products").get("q") == "Quill"


def looked_up(record: sl.Record[str, str], context: sl.ProcessorContext[Any, Any]) -> str:
    products = context.store("products")
    row = products.get(record.value)
    return f"{None if row is None else (row.value, row.timestamp)} of {len([*products.all()])}"


def counted(
    record: sl.Record[str, str], state: dict[str, Any], context: sl.ProcessorContext[Any, Any]
) -> str:
    state["n"] = state.get("n", 0) + 1
    return f"{state['n']}: {looked_up(record, context)}"


class Begun(sl.Processor[str, str, str, str]):
    """Looks a row up before the first record, and keeps a store of its own."""

    def init(self, context: sl.ProcessorContext[str, str]) -> None:
        super().init(context)
        self.first = context.store("products").get("q")

    def process(self, record: sl.Record[str, str]) -> sl.Record[str, str]:
        own, found = self.context.store("own"), looked_up(record, self.context)
        own.put(record.key, found)
        return record.with_value(own.get(record.key))


OWN = sl.key_value_store("own", key=str, value=str)
#: A stream's call with a processor that reads the global table -> what the second order gives.
READERS: dict[str, tuple[Any, str]] = {
    "process": (
        lambda s: s.process(Begun, stores=["products", OWN], key=str, value=str),
        "('Pen', 7) of 2",
    ),
    "process_values": (
        lambda s: s.process_values(looked_up, stores="products", value=str),
        "('Pen', 7) of 2",
    ),
    "process_values with state": (
        lambda s: s.process_values(counted, stores=["products"], value=str),
        "2: ('Pen', 7) of 2",
    ),
}


@pytest.mark.parametrize("how", READERS)
def test_a_processor_reads_all_rows_whatever_its_task(how: str) -> None:
    build, expected = READERS[how]
    app = App("shop")
    app.global_table("products", key=str, value=str, store="products")
    build(app.stream("orders", key=str, value=str)).to("out")
    with TopologyTestDriver(app, partitions={"orders": 3, "products": 2}) as driver:
        driver.pipe_inputs("products", [("p", "Pen"), ("q", "Quill")], 7)
        for key in "abcdef":
            driver.pipe_inputs("orders", [(key, "x"), (key, "p")])
        assert len(driver.tasks) == 3
        found = told(driver)
        assert sorted(key for key, _ in found) == sorted("abcdef" * 2)
        assert {value for _, value in found[1::2]} == {expected}
        driver.pipe_input("products", "p", None)
        driver.pipe_input("orders", "a", "p")
        assert "None of 1" in told(driver)[0][1]


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.put("p", "x", 1),
        lambda store: store.put("p", None, 1),
        lambda store: store.delete("p"),
    ],
)
def test_a_processor_cannot_write_a_global_table(write: Any) -> None:
    app = App("shop")
    app.global_table("prices", key=str, value=str, store="products")
    orders = app.stream("orders", key=str, value=str)
    orders.process_values(
        lambda record, context: write(context.store("products")), stores=["products"], value=str
    ).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("prices", "p", "Pen")
        with pytest.raises(ProcessingError, match="products can only be read: it has") as e:
            driver.pipe_input("orders", "a", "p")
        assert "the rows of topic 'prices'; send a record there" in str(e.value)
        assert driver.store("products").get("p") == "Pen"


def test_a_processor_with_a_global_table_is_no_owner_of_it() -> None:
    """Its store is in no subtopology, and what it makes of a record may differ a second time."""
    app = App("shop")
    app.global_table("products", key=str, value=str, store="products")
    orders = app.stream("orders", key=str, value=str)
    found = orders.process_values(looked_up, stores=["products"], value=str)
    found.group_by(lambda k, v: v, key=str).count(store="n").to_stream().to("out")
    topology = app.topology()
    assert [[spec.name for spec in part.stores] for part in topology.subtopologies] == [[], ["n"]]
    (edge,) = edges_of(topology)
    assert "looks into the global table products" in (edge.reason or "")


def test_a_global_table_is_named_once_and_after_it_was_added() -> None:
    app = App("shop")
    orders = app.stream("orders", key=str, value=str)
    with pytest.raises(TopologyError, match="there is no store 'products'"):
        orders.process_values(looked_up, stores=["products"], value=str)
    table = app.global_table("products", key=str, value=str)
    with pytest.raises(TopologyError, match="is in stores= twice"):
        orders.process_values(looked_up, stores=[table.store, table.store], value=str)
    clash = sl.key_value_store(table.store, key=str, value=str)
    with pytest.raises(TopologyError, match="two stores named"):
        orders.process_values(looked_up, stores=[clash], value=str)


@pytest.mark.parametrize("kind", ["join", "left_join"])
def test_a_record_without_a_row_or_a_key_of_one(kind: str) -> None:
    with TopologyTestDriver(shop(kind, lambda k, v: None if v == "-" else v)) as driver:
        driver.pipe_input("products", "p", "Pen")
        driver.pipe_inputs("orders", [("a", "p"), (None, "p"), ("a", "-"), ("a", "x"), ("a", None)])
        found = [("a", "p=Pen"), (None, "p=Pen")]
        alone = [("a", "x=None")]
        assert told(driver) == found + (alone if kind == "left_join" else [])
        assert driver.dropped() == 2


def test_a_function_that_fails_or_gives_another_type_fails_its_record() -> None:
    def chosen(key: str, value: str) -> Any:
        if value == "!":
            raise ValueError(value)
        return 1 if value == "1" else value

    with TopologyTestDriver(shop("left_join", chosen)) as driver:
        driver.pipe_inputs("orders", [("a", "x"), ("a", "!"), ("a", "1"), ("a", "y")])
        assert [value for _, value in told(driver)] == ["x=None", "y=None"]
        assert driver.skipped() == 2


def test_what_is_behind_a_global_table_is_not_exact_and_has_no_origins() -> None:
    app = App("a")
    table = app.global_table("g", key=str, value=str)
    orders = app.stream("in", key=str, value=str)
    joined = orders.join(table, lambda v, row: row, on=lambda k, v: k, value=str)
    joined.group_by(lambda k, v: v, key=str).count(store="n").to_stream().to("out")
    (edge,) = edges_of(app.topology())
    assert edge.reason is not None
    assert "looks into the global table g-STATE-STORE-0000000000" in edge.reason
    other = App("b")
    table = other.global_table("g", key=str, value=str)
    stream = other.stream("in", key=str, value=str)
    stream.join(table, lambda v, row: row, on=lambda k, v: k, value=str).to("out", origin=True)
    with pytest.raises(TopologyError, match="looks into a global table"):
        other.topology()


def test_what_cannot_be_is_refused() -> None:
    app = App("a")
    table = app.global_table("g", key=str, value=str, store="s")
    stream = app.stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match="it needs on="):
        stream.join(table, lambda v, row: row)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="on= is for global tables"):
        stream.join(app.table("t", key=str, value=str), lambda v, r: r, on=lambda k, v: k)  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="takes on=, value= and name= only"):
        stream.join(table, lambda v, row: row, on=lambda k, v: k, grace="1s")  # type: ignore[call-overload]
    with pytest.raises(TopologyError, match="is read by KSTREAM-SOURCE-0000000000 already"):
        app.stream("g", key=str, value=str)
    with pytest.raises(TopologyError, match="is read by KSTREAM-SOURCE-0000000002 already"):
        app.global_table("in", key=str, value=str)
    with pytest.raises(TopologyError, match="two stores named 's'"):
        stream.group_by_key().count(store="s")
    with pytest.raises(TopologyError, match="neither a history nor a retention"):
        app.global_table("h", key=str, value=str, store=sl.Materialized("h", history="1s"))


def test_a_query_of_spark_refuses_global_tables_by_name() -> None:
    pytest.importorskip("pyspark")
    from streamlet.spark.plan.prepare import QueryRequest, Where, prepare

    spark: Any = None  # it is not asked before the application has been looked at
    with pytest.raises(TopologyError, match=r"global tables \(products\) do not run on Spark"):
        prepare(f"{__name__}:SHOP", spark, Where(), QueryRequest())


def test_a_global_table_is_described_as_kafka_streams_does() -> None:
    topology = shop().topology()
    assert as_text(topology).endswith(
        "  Sub-topology: 1 for global store (will not generate tasks)\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [products])\n"
        "      --> KTABLE-SOURCE-0000000001\n"
        "    Processor: KTABLE-SOURCE-0000000001 (stores: [products])\n"
        "      --> none\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
    )
    (table,) = as_json(topology)["global_tables"]
    assert (table["store"], table["topic"], table["key"]) == ("products", "products", "str")
