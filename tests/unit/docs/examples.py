"""The names that the examples in the operators' docstrings begin with.

``app`` is an application; ``orders`` its stream of how many pieces of an item were ordered;
``prices`` its table of what an item costs. ``run`` gives its topics records, each a key, a value
and perhaps a time in ms, and tells what it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlet as sl
from streamlet.testing import TopologyTestDriver

Written = dict[str, list[tuple[Any, Any]]]


def beginning() -> dict[str, Any]:
    """The names that an example may use."""
    app = sl.App("shop")

    def run(**topics: Sequence[tuple[Any, ...]]) -> Written:
        with TopologyTestDriver(app, start_ms=0) as driver:
            for topic, records in topics.items():
                for key, value, *at_ms in records:
                    driver.pipe_input(topic, key, value, *at_ms)
            driver.advance_wall_clock(1_000)
            return {
                topic: [(record.key, record.value) for record in driver.read_output(topic)]
                for topic in sorted(driver.produced_topic_names())
            }

    return {
        "sl": sl,
        "app": app,
        "orders": app.stream("orders", key=str, value=int),
        "prices": app.table("prices", key=str, value=int),
        "run": run,
    }
