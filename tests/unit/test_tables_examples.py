"""The applications of ``examples`` that join tables give what their texts promise."""

from __future__ import annotations

from examples import as_of, foreign_keys
from examples.foreign_keys import Customer, Order
from streamlet.testing import TopologyTestDriver


def test_all_orders_of_a_customer_who_moves_go_to_the_new_city() -> None:
    with TopologyTestDriver(foreign_keys.app, partitions={"orders": 4, "customers": 2}) as driver:
        driver.pipe_inputs("orders", [(1, Order("ann", "lamp")), (2, Order("bob", "desk"))])
        driver.pipe_input("orders", 3, Order("ann", "chair"))
        driver.pipe_input("customers", "ann", Customer("Bern"))
        driver.pipe_input("customers", "ann", Customer("Basel"))
        driver.pipe_input("orders", 3, Order("bob", "chair"))
        driver.pipe_input("orders", 2, None)
        last = {record.key: record.value for record in driver.read_output("deliveries")}
    assert last == {1: "lamp for ann: Basel", 2: None, 3: "chair for bob: wait"}


def test_a_trade_has_the_newest_quote_that_is_not_after_it_though_that_came_late() -> None:
    with TopologyTestDriver(as_of.app) as driver:
        driver.pipe_input("quotes", "GOLD", 4.0, 1_000)
        driver.pipe_input("trades", "GOLD", 10, 3_000)
        driver.pipe_input("quotes", "GOLD", 6.0, 3_001)
        driver.pipe_input("quotes", "GOLD", 5.0, 2_000)
        driver.pipe_input("trades", "GOLD", 1, 7_999)
        assert driver.read_output("priced") == []
        driver.pipe_input("trades", "GOLD", 1, 8_000)
        assert [(r.value, r.timestamp) for r in driver.read_output("priced")] == [(50.0, 3_000)]
