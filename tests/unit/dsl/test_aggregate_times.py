"""The time of a row is the highest of its records; the time of its result is that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.app import App
from streamlet.batch import Batch
from streamlet.dsl.folds.stream_folds import Aggregate, Count, Reduce
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.grouped import KGroupedStream
from streamlet.dsl.table import KTable
from streamlet.serdes import serde
from streamlet.state.task_state import TaskState
from streamlet.testing.driver import TopologyTestDriver
from streamlet.types import StateNumber
from tests.unit.state.support import Spec

Fold = Callable[[KGroupedStream[str, str]], KTable[str, Any]]

TEXT = serde(str)
OPERATORS: dict[str, Callable[[Any], Any]] = {
    "count": lambda store: Count(store, TableUse()),
    "reduce": lambda store: Reduce(store, lambda so_far, new: so_far + new, TEXT, TableUse()),
    "aggregate": lambda store: Aggregate(store, str, lambda k, v, so_far: v, TEXT, TableUse()),
}

#: Keys with the times of their records, in batches.
batches = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=5),
    max_size=6,
)


def driver_of(fold: Fold) -> TopologyTestDriver:
    app = App("a")
    grouped = app.stream("in", key=str, value=str).group_by_key()
    fold(grouped).to_stream().to("out", key=str)
    return TopologyTestDriver(app)


@pytest.mark.parametrize("kind", OPERATORS)
@given(batches)
def test_results_and_rows_bear_the_highest_time(kind: str, given_batches: Any) -> None:
    state = TaskState(None, [Spec("rows", str, int if kind == "count" else str)], 1 << 20)
    store = state.stores["rows"]
    operator = OPERATORS[kind](store)
    highest: dict[str, int] = {}
    for number, pairs in enumerate(given_batches):
        keys, times = [key for key, _ in pairs], [time for _, time in pairs]
        wanted = []
        for key, time in pairs:
            highest[key] = max(highest.get(key, 0), time)
            wanted.append(highest[key])
        out = operator.process(Batch("in", 0, range(len(keys)), keys, ["v"] * len(keys), times))
        assert out.timestamps == wanted
        if number % 2:  # rows come from the medium again
            state.write(state.drain(), StateNumber(1, number), {})
            store.commits.evict(0)
    assert {key: store.timestamp(key) for key in "abc"} == {k: highest.get(k) for k in "abc"}


def test_a_row_that_was_deleted_begins_anew() -> None:
    def fold(stream: KGroupedStream[str, str]) -> KTable[str, str]:
        return stream.reduce(lambda so_far, value: None if value == "end" else value, store="rows")

    with driver_of(fold) as driver:
        for value, time in (("a", 50), ("end", 40), ("b", 10), ("c", 5)):
            driver.pipe_input("in", "k", value, time)
        assert [(r.value, r.timestamp) for r in driver.read_output("out")] == [
            ("a", 50),
            (None, 50),
            ("b", 10),
            ("c", 10),
        ]


def test_a_table_takes_records_as_they_come_with_their_times() -> None:
    app = App("a")
    app.table("in", key=str, value=str, store="rows").to_stream().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_input("in", "k", "new", 50)
        driver.pipe_input("in", "k", "old", 40)
        assert driver.store("rows").timestamp("k") == 40
