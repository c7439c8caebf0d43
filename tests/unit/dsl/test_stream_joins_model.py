"""Joins of streams against a naive model: any records, in any batches, with restarts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamlet.app import App
from streamlet.dsl.joins import sides as join_sides
from streamlet.dsl.joins import unmatched
from streamlet.dsl.joins.windows import JoinWindows
from streamlet.state import join_store
from tests.shares import share_of
from tests.unit.dsl.joined_tasks import JoinTask, Record

#: Key, value, time of a result.
Result = tuple[str | None, str, int]

WINDOWS = [
    JoinWindows(50, 50, 0),
    JoinWindows(50, 50, 30),
    JoinWindows(20, 60, 30),
    JoinWindows(-10, 60, 10),
    JoinWindows(60, -10, 0),
    JoinWindows(0, 0, 0),
    JoinWindows(1_500, 700, 100),
]


def pair(left: Any, right: Any) -> str:
    return f"{left}|{right}"


class StreamJoin(JoinTask):
    """A join of the topics ``left`` and ``right``, or of ``left`` with itself."""

    def __init__(
        self, kind: str, windows: JoinWindows, folder: Path, itself: bool, optimization: str
    ) -> None:
        app = App("a", config={"topology.optimization": optimization})
        left = app.stream("left", key=str, value=str)
        right = left if itself else app.stream("right", key=str, value=str)
        join = getattr(left, kind)
        join(right, pair, within=windows, value=str, store="j").to("out")
        super().__init__(app, folder)

    def send(self, topic: str, records: Sequence[Record]) -> list[Result]:
        outputs = self.outputs(topic, records)
        (sink,) = self.part.sinks
        return [
            (None if key is None else sink.key.decode(key), sink.value.decode(value), time)
            for output in outputs
            for key, value, time in zip(output.keys, output.values, output.timestamps, strict=True)
        ]


class Model:
    """The rules of Kafka Streams, one record after another, over plain lists."""

    def __init__(self, kind: str, windows: JoinWindows) -> None:
        self.waiting_sides = {"join": (), "left_join": (0,), "outer_join": (0, 1)}[kind]
        self.windows = windows
        self.kept: list[list[tuple[int, str, str]]] = [[], []]
        self.waits: list[tuple[int, int, str, str]] = []  # time, 1 for left, key, value
        self.stream_time = -1
        self.least: int | None = None

    def add(self, side: int, key: str | None, value: str | None, time: int) -> list[Result]:
        out: list[Result] = []
        before, after = self.windows.before_ms, self.windows.after_ms
        if side:
            before, after = after, before
        self.stream_time = max(self.stream_time, time)
        if key is None or value is None:
            if key is None and value is not None and side in self.waiting_sides:
                out.append((None, self.joined(side, value, None), time))
            return out
        self.kept[side].append((time, key, value))
        if self.waiting_sides and time == self.stream_time:
            self.close(after, out)
        low, high = max(0, time - before), max(0, time + after)
        others = self.kept[1 - side]
        low = max(low, max((t for t, _, _ in others), default=0) - self.windows.kept_ms + 1)
        found = sorted(
            (t, n) for n, (t, k, _) in enumerate(others) if k == key and low <= t <= high
        )
        for t, n in found:
            self.waits = [w for w in self.waits if w[:3] != (t, side, key)]
            out.append((key, self.joined(side, value, others[n][2]), max(t, time)))
        if not found and side in self.waiting_sides:
            if high < self.stream_time:
                out.append((key, self.joined(side, value, None), time))
            else:
                self.waits.append((time, 1 - side, key, value))
                self.waits.sort(key=lambda one: one[:3])
                self.least = time if self.least is None else min(self.least, time)
        return out

    def close(self, after: int, out: list[Result]) -> None:
        grace = self.windows.grace_ms
        if self.least is None or self.least + after + grace >= self.stream_time:
            return
        self.least, open_sides, gone = None, set(), []
        for entry in self.waits:
            time, left, key, value = entry
            self.least = time
            if len(open_sides) == 2:
                break
            bound = self.windows.after_ms if left else self.windows.before_ms
            if time + bound + grace >= self.stream_time:
                open_sides.add(left)
                continue
            gone.append(entry)
            out.append((key, self.joined(1 - left, value, None), time))
        self.waits = [entry for entry in self.waits if entry not in gone]

    def joined(self, side: int, own: str, other: str | None) -> str:
        return pair(other, own) if side else pair(own, other)


#: Mostly rising times, some far back, some far ahead.
steps = st.one_of(
    st.integers(0, 1), st.integers(0, 8), st.integers(-90, 90), st.just(300), st.just(-2_500)
)
records = st.tuples(st.sampled_from(["a", "b", "b", "c", None]), st.sampled_from("vvvvv-"), steps)
histories = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.lists(records, min_size=1, max_size=25),
        st.sampled_from(["", "", "commit", "restart"]),
    ),
    max_size=12,
)


#: Rows of one bucket whose numbers lead beyond the time of the latest record.
MANY_AT_ONCE = [("left", [("a", "v", 0)] * 3, "restart"), ("right", [("a", "v", 0)], "")]

#: A record that lets its own match expire, if it is in the same store.
AT_THE_END = [("left", [("a", "v", 0), ("a", "v", 60)], "")]


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join", "self", "one store"])
@settings(max_examples=share_of(60), deadline=None)
@example(MANY_AT_ONCE, WINDOWS[0], 1, 3)
@example(AT_THE_END, JoinWindows(60, -10, 0), 8, 10_000)
@given(
    histories, st.sampled_from(WINDOWS), st.sampled_from([1, 2, 8]), st.sampled_from([3, 10_000])
)
def test_any_batches_give_what_the_model_gives_record_by_record(
    kind: str, history: list[Any], windows: JoinWindows, row_records: int, part: int
) -> None:
    """With rows and parts of any length."""
    lengths = {"PART": part, "RECORDS": part}
    with (
        patch.object(join_store, "ROW_RECORDS", row_records),
        patch.multiple(join_sides, **lengths),
        patch.multiple(unmatched, **lengths),
    ):
        compare(kind, history, windows)


def compare(kind: str, history: list[Any], windows: JoinWindows) -> None:
    itself, optimization = kind in ("self", "one store"), "none"
    if kind == "one store":
        kind, optimization = "join", "single.store.self.join"
    elif itself:
        kind = "outer_join"
    model, time, number = Model(kind, windows), 3_072, 0  # where a bucket begins
    with tempfile.TemporaryDirectory() as folder:
        task = StreamJoin(kind, windows, Path(folder), itself, optimization)
        for topic, steps_of_batch, then in history:
            topic = "left" if itself else topic
            batch: list[Record] = []
            for key, value, step in steps_of_batch:
                time, number = max(0, time + step), number + 1
                batch.append((key, None if value == "-" else f"{value}{number}", time))
            sides = (0, 1) if itself else (("left", "right").index(topic),)
            wanted = [out for one in batch for side in sides for out in model.add(side, *one)]
            assert task.send(topic, batch) == wanted
            if then:
                task.commit()
            if then == "restart":
                task.restart()
        task.state.close()
