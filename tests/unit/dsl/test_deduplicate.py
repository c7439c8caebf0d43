"""``deduplicate`` against a naive model: any records, batches, crashes, restores; and its edges."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import TopologyError
from streamlet.testing.driver import TopologyTestDriver
from tests.shares import share_of
from tests.unit.dsl.fed_tasks import Fed, FedTask, played


@attrs.define
class Model:
    """The times of all records that went on, and the highest time."""

    within: int
    grace: int
    went: list[tuple[str, int]] = attrs.field(factory=list)
    observed: int = -1
    late: int = 0

    def record(self, key: str, value: str, time: int) -> list[Fed]:
        self.observed = max(self.observed, time)
        if time < self.observed - self.grace:
            self.late += 1
            return []
        if any(one == key and abs(at - time) <= self.within for one, at in self.went):
            return []
        self.went.append((key, time))
        return [(key, value, time)]


STEPS = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 200)),
            min_size=1,
            max_size=8,
        ),
        st.sampled_from(["commit", "crash", "cold"]),
    ),
    max_size=12,
)


@settings(max_examples=share_of(60), deadline=None)
@given(within=st.sampled_from([0, 7, 30]), grace=st.sampled_from([None, 0, 50]), steps=STEPS)
def test_records_go_on_as_in_the_model(within: int, grace: int | None, steps: list[Any]) -> None:
    def build(stream: sl.KStream[str, str]) -> sl.KStream[Any, Any]:
        return stream.deduplicate(within, grace=grace, store="seen")

    with tempfile.TemporaryDirectory() as folder:
        task = FedTask(build, Path(folder))
        begun = Model(within, within if grace is None else grace)
        for model, records in played(task, begun, steps):
            if records is not None:
                late = task.task.counters.late - model.late
                wanted = [one for record in records for one in model.record(*record)]
                assert task.send(records) == wanted
                assert task.task.counters.late - model.late == late
        task.state.close()


def test_the_store_shows_the_same_times_whatever_the_batches() -> None:
    """The last record goes nowhere, but moves stream time, by which rows expire."""
    fed: list[Fed] = [("a", "x", 0), ("b", "x", 55), ("b", "x", 61)]
    shown = []
    for batches in ([fed], [[one] for one in fed]):
        with tempfile.TemporaryDirectory() as folder:
            task = FedTask(lambda stream: stream.deduplicate(30, store="seen"), Path(folder))
            for batch in batches:
                task.send(batch)
            task.commit()
            shown.append([window.key for window, _ in task.state.stores["seen"].range()])
            task.state.close()
    assert shown == [["b"], ["b"]]


def test_a_key_that_changed_is_repartitioned_and_one_that_is_missing_is_dropped() -> None:
    app = sl.App("a")
    orders = app.stream("in", key=str, value=str).select_key(lambda k, v: v or None, key=str)
    orders.deduplicate("1s", name="by-value").to("out")
    assert app.topology().repartition_topics == ("a-by-value-repartition",)
    app = sl.App("a")
    app.stream("in", key=str, value=str).deduplicate("1s").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("a", "1"), (None, "2"), ("a", None), ("b", None)])
        assert [(r.key, r.value) for r in driver.read_output("out")] == [("a", "1"), ("b", None)]
        assert driver.dropped() == 1


def test_the_retention_follows_from_the_times() -> None:
    stream = sl.App("a").stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match="follows from"):
        stream.deduplicate("1s", store=sl.Materialized("seen", retention="1h"))
    with pytest.raises(TopologyError, match="within"):
        stream.deduplicate("soon")
