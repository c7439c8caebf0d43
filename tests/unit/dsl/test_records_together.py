"""Records of several inputs that are taken together give what they give one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamlet.app import App
from streamlet.dsl.graph.materialized import Materialized
from streamlet.dsl.joins.windows import JoinWindows
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing import partition_group
from streamlet.processing.outputs import Output
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.buffer_store import BufferStore
from streamlet.state.task_state import TaskState
from streamlet.state.timer_store import TimerStore
from streamlet.state.unmatched_store import UnmatchedStore
from streamlet.state.window_rows import FIRST_KEY
from streamlet.topology.subtopologies import Subtopology
from streamlet.topology.together import together_of
from streamlet.types import TaskId, TopicPartition
from tests.shares import share_of

#: Side, key, value ("-": none), time.
Row = tuple[int, str, str, int]


def pair(left: Any, right: Any) -> str:
    if str(left).endswith("!"):
        raise ValueError("a value that the joiner refuses")
    return f"{left}|{right}"


def streams(app: App) -> None:
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    left.join(right, pair, within=JoinWindows(40, 20, 10), value=str).to("out")


def left_streams(app: App) -> None:
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    twice = left.flat_map_values(lambda value: [value, f"{value}2"], value=str)
    twice.left_join(right, pair, within=JoinWindows(40, 20, 10), value=str).to("out")


def outer_streams(app: App) -> None:
    """Results go two ways, which meet in a topic; beside a join of tables, which never fails."""
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    joined = left.outer_join(right, pair, within=JoinWindows(20, 20, 0), value=str)
    joined.filter(lambda key, value: "3" in value).to("out")
    joined.map_values(str.upper, value=str).to("out")
    both: Any = lambda left, right: f"{left}|{right}"  # noqa: E731
    rows = right.to_table().outer_join(left.to_table(), both, value=str)
    rows.to_stream().to("rows")


def streams_with_themselves(app: App) -> None:
    """Both sides of one join see each record of ``left``."""
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    both = left.merge(right)
    both.outer_join(left, pair, within=JoinWindows(30, 10, 5), value=str).to("out")


def counted_results(app: App) -> None:
    """Counts of a left join: its results change rows of other keys than that of the record."""
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    joined = left.left_join(right, pair, within=JoinWindows(20, 20, 0), value=str)
    joined.group_by_key().count().to_stream().map_values(str, value=str).to("out")


def results_elsewhere(app: App) -> None:
    """A topic with results of an outer join and of another node."""
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    left.outer_join(right, pair, within=JoinWindows(20, 20, 0), value=str).to("out")
    left.map_values(str.upper, value=str).to("out")


def stream_and_table(app: App) -> None:
    left = app.stream("left", key=str, value=str)
    left.left_join(app.table("right", key=str, value=str), pair, value=str).to("out")
    left.map_values(str.upper, value=str).to("out")


def both_tables(app: App) -> None:
    left, right = (app.table(name, key=str, value=str) for name in ("left", "right"))
    left.outer_join(right, pair, value=str).to_stream().to("out")


def kept_tables(app: App) -> None:
    left, right = (app.table(name, key=str, value=str) for name in ("left", "right"))
    kept = left.join(right, pair, value=str, store="kept").filter(lambda key, row: "3" not in row)
    kept.to_stream().to("out", partitioner=lambda key, value, count: len(value) % count)


def merged_streams(app: App) -> None:
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    twice = left.flat_map_values(lambda value: [value, f"{value}2"], value=str)
    twice.merge(right).map_values(lambda value: pair(value, ""), value=str).to("out")


def rows_that_expire(app: App) -> None:
    """Rows expire by the time of all records that touch their store, of either side."""
    left, right = (app.stream(name, key=str, value=str) for name in ("left", "right"))
    rows = right.to_table(store=Materialized("rows", ttl="50ms"))
    left.left_join(rows, pair, value=str).to("out")


def stream_and_versions(app: App) -> None:
    """Rows as of the time of each record, and all changes, also those that come out of order."""
    rows = app.table("right", key=str, value=str, store=Materialized("rows", history=60))
    kept = rows.filter(lambda key, row: "3" not in row)
    app.stream("left", key=str, value=str).left_join(kept, pair, value=str).to("out")
    rows.to_stream().to("rows")


def stream_that_waits_for_versions(app: App) -> None:
    """A record sends others, of other keys, that have waited for changes of the table."""
    rows = app.table("right", key=str, value=str, store=Materialized("rows", history=60))
    app.stream("left", key=str, value=str).join(rows, pair, grace=20, value=str).to("out")


BUILDS = [
    stream_and_versions,
    stream_that_waits_for_versions,
    rows_that_expire,
    streams,
    left_streams,
    outer_streams,
    streams_with_themselves,
    counted_results,
    results_elsewhere,
    stream_and_table,
    both_tables,
    kept_tables,
    merged_streams,
]


@attrs.frozen
class Seen:
    """Everything that tells one run from another."""

    outputs: list[tuple[Any, ...]]
    rows: dict[str, list[tuple[Any, Any, int | None]]]
    positions: dict[TopicPartition, int]
    counts: tuple[int, ...]


class TwoInputs:
    """A task with the inputs ``left`` and ``right``, which are read to their ends first."""

    def __init__(self, build: Callable[[App], None]) -> None:
        app = App("a")
        build(app)
        (self.part,) = app.topology().subtopologies
        self.state = TaskState(None, self.part.stores, 1 << 20)
        self.inputs = [TopicPartition(topic, 0) for topic in ("left", "right")]
        self.task = Task(
            TaskId(0, 0),
            self.part,
            self.state,
            dict.fromkeys(self.inputs, 0),
            policy=ErrorPolicy.of(("dead_letter", "out")),
            partition_counts={"out": 3},
            in_parts=True,
        )
        self.ends = [0, 0]
        self.outputs: list[tuple[Any, ...]] = []

    def send(self, rows: list[Row]) -> None:
        """Send records of both sides, which the task takes once all of them are there."""
        for side, where in enumerate(self.inputs):
            mine = [row for row in rows if row[0] == side]
            if not mine:
                continue
            offsets = range(self.ends[side], self.ends[side] + len(mine))
            self.ends[side] += len(mine)
            encode = serde(str).encode
            keys: list[bytes | None] = [encode(key) for _, key, _, _ in mine]
            values = [None if value == "-" else encode(value) for _, _, value, _ in mine]
            heads: list[Any] = [[("of", key)] if key == b"a" else None for key in keys]
            times = [time for *_, time in mine]
            raw = PartitionBatch(*where, offsets, keys, values, times, heads if side else None)
            self.note(self.task.process(raw, 0, lambda _: None))
        self.note(self.task.resume(0))
        while self.task.under_way:
            self.note(self.task.resume(0))

    def note(self, outputs: list[Output]) -> None:
        for one in outputs:
            for at in range(len(one.keys)):
                partition = None if one.partitions is None else one.partitions[at]
                headers = None if one.headers is None else one.headers[at]
                row = one.keys[at], one.values[at], one.timestamps[at], partition, headers
                self.outputs.append((one.topic, *row, one.origin(at)))

    def seen(self) -> Seen:
        """What came of it, with the outputs of one topic in their order."""
        self.note(self.task.settle())
        rows = {}
        for name, store in self.state.stores.items():
            store.commits.check_invariants()
            if isinstance(store, TimerStore):
                continue  # of rows that expire: its timers are no records
            if isinstance(store, UnmatchedStore):
                waiting: list[Any] = list(store.commits.scan(FIRST_KEY, None))
                rows[name] = [*waiting, (store.progress, store.least, None)]
                continue
            found = list(store.range())
            if isinstance(store, BufferStore):
                observed = store.progress.observed  # the rest depends on the batches
                rows[name] = [*((*row, None) for row in found), (observed, None, None)]
                continue
            rows[name] = [(key, value, store.timestamp(key)) for key, value in found]
        counters = self.task.counters
        counts = counters.records, counters.dropped, counters.skipped, self.task.stream_time
        self.outputs.sort(key=lambda row: row[0])
        return Seen(self.outputs, rows, self.task.positions, counts)


steps = st.one_of(st.integers(0, 3), st.integers(0, 3), st.integers(-90, 90))
histories = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from("aabcdefgh"), st.sampled_from("vvvvv-!"), steps
        ),
        max_size=30,
    ),
    max_size=4,
)


#: Keys that come from the one side and then from the other: taken as a batch for each side, they
#: would give other results, or the same ones with the records of the other side.
ALTERNATING = [
    [(1, key, "v", 1) for key in "abc"] + [(0, key, "v", 1) for key in "abdc"],
    [(side, key, "v", 1) for key in "abca" for side in (0, 1, 1, 0)],
]


#: A change that comes late, behind a record that sends what has waited for it long enough.
LATE_CHANGE = [
    [
        (1, "a", "v", 1),
        (0, "a", "v", 1),
        (0, "b", "v", 30),
        (1, "c", "v", 1),
        (1, "a", "v", -32),
        (0, "c", "v", 39),
        (1, "c", "v", 1),
    ]
]


def played(build: Callable[[App], None], history: list[list[Any]], most: int) -> Seen:
    task, time, number = TwoInputs(build), 1_000, 0
    with patch.multiple(partition_group, FIRST_RECORDS=most, MOST_RECORDS=most):
        for step in history:
            rows: list[Row] = []
            for side, key, value, later in step:
                time, number = max(0, time + later), number + 1
                text = {"v": f"v{number}", "!": f"v{number}!", "-": "-"}[value]
                rows.append((side, key, text, time))
            task.send(rows)
    return task.seen()


def one_by_one(subtopology: Subtopology) -> None:
    """No records are taken together."""


@pytest.mark.parametrize("build", BUILDS)
@settings(max_examples=share_of(60), deadline=None)
@example(ALTERNATING, 1_000)
@example(LATE_CHANGE, 1_000)
@given(histories, st.sampled_from([1, 2, 5, 1_000]))
def test_records_taken_together_give_what_they_give_one_by_one(
    build: Callable[[App], None], history: list[list[Any]], most: int
) -> None:
    """Outputs with their order, times, headers and origins; stores; positions; counts."""
    together = played(build, history, most)
    with patch.object(partition_group, "together_of", one_by_one):
        single = played(build, history, most)
    assert together == single


def test_streams_are_taken_together_where_no_order_can_be_seen() -> None:
    found = [together_of(TwoInputs(build).part) is not None for build in BUILDS]
    alone = [rows_that_expire, streams_with_themselves, counted_results, results_elsewhere]
    assert [build for build, yes in zip(BUILDS, found, strict=True) if not yes] == alone
