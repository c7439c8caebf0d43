"""Windows against naive models: any records, in any batches, with restarts and a tiny cache."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet.dsl.windowing.definitions import hopping, session, sliding, tumbling, unlimited
from streamlet.dsl.windowing.windows import SessionWindows, SlidingWindows, TimeWindows
from streamlet.serdes.windowed import NO_END
from tests.shares import share_of
from tests.unit.dsl.sliding_model import SlidingModel
from tests.unit.dsl.window_tasks import Record, Update, WindowTask

#: Mostly rising times, some far back, some far ahead.
steps = st.one_of(st.integers(0, 8), st.integers(-60, 60), st.just(200))
#: Some records have no key.
keys = st.sampled_from(["a", "b", "a", "b", None])
#: Batches of (key, step from the time before), and whether a commit and a restart follow.
histories = st.lists(
    st.tuples(
        st.lists(st.tuples(keys, steps), min_size=1, max_size=6),
        st.sampled_from(["", "commit", "restart"]),
    ),
    max_size=8,
)
History = list[tuple[list[tuple[str | None, int]], str]]


def timed(history: History) -> Iterator[tuple[list[Record], str]]:
    """The batches with timestamps in place of steps."""
    time = 100
    for batch, then in history:
        records = []
        for key, step in batch:
            time = max(0, time + step)
            records.append((key, time))
        yield records, then


def run(task: WindowTask, history: History) -> list[Update]:
    updates: list[Update] = []
    try:
        for records, then in timed(history):
            updates += task.send(records)
            if then:
                updates += task.commit()
            if then == "restart":
                task.restart()
    finally:
        task.close()
    return updates


def modelled(model: Any, history: History) -> list[Update]:
    """The updates of a model; a record without a key is in no window, and moves no time."""
    records = [record for batch, _ in timed(history) for record in batch]
    return [u for key, time in records if key is not None for u in model.add(key, time)]


def check(windows: Any, model: Any, history: History) -> None:
    """The updates are the model's, and as many records are late."""
    with tempfile.TemporaryDirectory() as folder:
        task = WindowTask(windows, Path(folder))
        updates = run(task, history)
    assert updates == modelled(model, history)
    assert task.late == model.late


class TimeModel:
    """Counts of tumbling or hopping windows."""

    def __init__(self, windows: TimeWindows) -> None:
        self.windows = windows
        self.counts: dict[tuple[str, int], int] = defaultdict(int)
        self.stream_time = -1
        self.late = 0

    def add(self, key: str, time: int) -> list[Update]:
        self.stream_time = max(self.stream_time, time)
        size, updates = self.windows.size_ms, []
        for start in range(0, time + 1, self.windows.advance_ms):
            if not start <= time < start + size:
                continue
            if start + size <= self.stream_time - self.windows.grace_ms:
                self.late += 1
                continue
            self.counts[key, start] += 1
            updates.append((key, start, start + size, self.counts[key, start]))
        return updates


class UnlimitedModel:
    """Counts from a time on."""

    late = 0

    def __init__(self, start: int) -> None:
        self.start = start
        self.counts: dict[str, int] = defaultdict(int)

    def add(self, key: str, time: int) -> list[Update]:
        if time < self.start:
            return []
        self.counts[key] += 1
        return [(key, self.start, NO_END, self.counts[key])]


class SessionModel:
    """Counts of sessions, of which those that are closed and expired merge no more."""

    def __init__(self, windows: SessionWindows) -> None:
        self.windows = windows
        self.sessions: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self.stream_time = self.latest = -1
        self.late = 0

    def add(self, key: str, time: int) -> list[Update]:
        gap, grace = self.windows.gap_ms, self.windows.grace_ms
        self.stream_time = max(self.stream_time, time)
        shown = self.latest - gap - grace
        touched = sorted(
            (one for one in self.sessions[key] if self.touches(one, time) and one[1] > shown),
            key=lambda one: one[1],
        )
        start = min([time, *(one[0] for one in touched)])
        end = max([time, *(one[1] for one in touched)])
        if end < self.stream_time - grace - gap:
            self.late += 1
            return []
        updates: list[Update] = []
        if (start, end) != (time, time):
            updates = [(key, one[0], one[1], None) for one in touched]
        count = 1 + sum(one[2] for one in touched)
        kept = [one for one in self.sessions[key] if one not in touched]
        self.sessions[key] = [*kept, (start, end, count)]
        self.latest = max(self.latest, end)
        return [*updates, (key, start, end, count)]

    def touches(self, one: tuple[int, int, int], time: int) -> bool:
        return one[0] <= time + self.windows.gap_ms and one[1] >= time - self.windows.gap_ms


@pytest.mark.parametrize(
    "windows", [tumbling(20), tumbling(20, grace=30), hopping(50, 20, grace=7)]
)
@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_counts_of_time_windows_are_those_of_the_model(
    windows: TimeWindows, history: History
) -> None:
    check(windows, TimeModel(windows), history)


@pytest.mark.parametrize("start", [0, 150])
@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_counts_of_an_unlimited_window_are_those_of_the_model(start: int, history: History) -> None:
    check(unlimited(start), UnlimitedModel(start), history)


@pytest.mark.parametrize("windows", [session(10), session(10, grace=25)])
@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_counts_of_sessions_are_those_of_the_model(
    windows: SessionWindows, history: History
) -> None:
    check(windows, SessionModel(windows), history)


@pytest.mark.parametrize("windows", [sliding(15, grace=100_000), sliding(40, grace=100_000)])
@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_sliding_windows_hold_what_lies_in_them(windows: SlidingWindows, history: History) -> None:
    """Nothing is late here; the last update of each window is compared with its definition."""
    with tempfile.TemporaryDirectory() as folder:
        last = {update[:3]: update[3] for update in run(WindowTask(windows, Path(folder)), history)}
    size, wanted = windows.difference_ms, {}
    records = [record for batch, _ in timed(history) for record in batch]
    for key in "ab":
        times = sorted(time for one, time in records if one == key)
        starts = {max(0, time - size) for time in times} | {time + 1 for time in times}
        for start in starts:
            count = sum(start <= time <= start + size for time in times)
            if count:
                wanted[key, start, start + size] = count
    assert last == wanted


@pytest.mark.parametrize("windows", [sliding(15), sliding(15, grace=10), sliding(40, grace=30)])
@settings(max_examples=share_of(60), deadline=None)
@given(history=histories)
def test_counts_of_sliding_windows_are_those_of_the_model(
    windows: SlidingWindows, history: History
) -> None:
    check(windows, SlidingModel(windows), history)


@settings(max_examples=share_of(40), deadline=None)
@given(history=histories)
def test_a_batch_gives_what_its_records_give_one_by_one(history: History) -> None:
    """Also for sliding windows that close, whose rules the recorded runs of Kafka Streams tell."""
    windows = sliding(15, grace=10)
    single: History = [
        ([record], "restart" if then and i == len(batch) - 1 else "")
        for batch, then in history
        for i, record in enumerate(batch)
    ]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        whole = WindowTask(windows, Path(one))
        parts = WindowTask(windows, Path(two))
        assert run(whole, history) == run(parts, single)
        assert whole.late == parts.late
