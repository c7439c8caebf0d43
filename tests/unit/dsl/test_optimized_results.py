"""Results are the same with ``topology.optimization`` and without, whatever the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.stream import KStream
from streamlet.testing import TopologyTestDriver
from tests.shares import share_of

Stream = KStream[str, str]
Record = tuple[str, str | None, str | None, int]
Output = dict[str, list[tuple[str | None, str | int | None, int]]]

WITHIN = sl.join_windows("20ms", grace="30ms")


def pair(one: str | None, other: str | None) -> str:
    return f"{one}|{other}"


def last(one: str, other: str) -> str:
    return other


def new_key(key: str | None, value: str | None) -> str | None:
    """None now and then, so that there are records without a key."""
    return None if value is None or value == "x" else value[0]


#: What is between the change of keys and the use.
BETWEEN: dict[str, Callable[[Stream], Stream]] = {
    "nothing": lambda s: s,
    "filter": lambda s: s.filter(lambda k, v: v != "b"),
    "peek": lambda s: s.peek(lambda k, v: None),
    "branch": lambda s: s.split().branch(lambda k, v: k != "c").no_default_branch()["1"],
    "map_values": lambda s: s.map_values(lambda v: f"{v}!", value=str),
}


def used(app: App, stream: Stream, use: str, number: int) -> None:
    """Add one use of a stream, with a topic of its own for its results."""
    out = f"out-{number}"
    if use == "count":
        stream.group_by_key().count(store=f"n{number}").to_stream().to(out)
    elif use == "reduce":
        stream.group_by_key().reduce(last).to_stream().to(out)
    elif use == "windows":
        windowed = stream.group_by_key().windowed_by(sl.tumbling("50ms"))
        counts = windowed.count(store=f"w{number}").to_stream()
        counts.map(lambda w, n: (w.key, n), key=str, value=int).to(out)
    elif use == "table":
        stream.to_table(store=f"t{number}").to_stream().to(out)
    elif use == "left_join":
        rows = app.table(f"rows-{number}", key=str, value=str)
        stream.left_join(rows, pair, value=str).to(out)
    elif use == "itself":
        joined = stream.join(stream, pair, within=WITHIN, value=str, name=f"own{number}")
        joined.to(out)
    else:
        stream.to(out)


@attrs.frozen
class Program:
    """Uses of a stream, each behind something; ``merged`` with another one before."""

    uses: tuple[tuple[str, str], ...]
    merged: bool

    def outputs(self, optimization: str, records: Sequence[Record]) -> tuple[int, Output]:
        """The number of repartition topics, and the results by topic."""
        app = App("a", config={"topology.optimization": optimization})
        stream: Any = app.stream("in", key=str, value=str).select_key(new_key, key=str)
        if self.merged:
            stream = stream.merge(app.stream("other", key=str, value=str))
        shared: dict[str, Stream] = {}
        for number, (between, use) in enumerate(self.uses):
            if between not in shared:
                shared[between] = BETWEEN[between](stream)
            used(app, shared[between], use, number)
        topology = app.topology()
        with TopologyTestDriver(app, start_ms=0) as driver:
            for topic, key, value, time in records:
                if topic in topology.source_topics:
                    driver.pipe_input(topic, key, value, time)
            found = {
                topic: [(one.key, one.value, one.timestamp) for one in driver.read_output(topic)]
                for topic in driver.produced_topic_names()
                if topic.startswith("out")
            }
        return len(topology.repartition_topics), found


uses = st.sampled_from(["count", "reduce", "windows", "table", "left_join", "itself", "to"])
programs = st.builds(
    Program,
    st.lists(st.tuples(st.sampled_from([*BETWEEN]), uses), min_size=1, max_size=4).map(tuple),
    st.booleans(),
)
records = st.tuples(
    st.sampled_from(["in", "in", "other", "rows-0", "rows-1"]),
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from(["a", "b", "c1", "c2", "x", None]),
    st.integers(0, 300),
)

#: A filter that is moved behind the merged topic, with a record without a key that passes it.
WITHOUT_KEY = Program((("filter", "to"), ("filter", "count"), ("nothing", "count")), False)


@example(WITHOUT_KEY, [("in", "a", "x", 0)])
@settings(max_examples=share_of(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs, st.lists(records, max_size=25))
def test_results_and_their_order_are_the_same(program: Program, given_: list[Record]) -> None:
    plain_topics, plain = program.outputs("none", given_)
    topics, optimized = program.outputs("all", given_)
    assert optimized == plain
    assert topics <= plain_topics
