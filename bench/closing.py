"""``python -m bench closing``: windows that close all at once, in a task that is driven in parts.

One task of an application without a broker, its state on disk: records open ``--records`` windows
of as many keys, in batches of 10,000 with a commit behind each; then one record closes them. A
stream thread does the work of other tasks between two calls, so what counts is the longest single
call: of the batches (``fill_ms``), and of the closing (``call_ms``), which gives a part of the
results. Garbage is collected at commits, as a stream thread does. Each shape runs in a process of
its own, so that ``rss_mb`` is its peak memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlet as sl
from bench.processes import MeasurementError
from bench.rounds import tell
from bench.span import peak_rss_mb
from streamlet.kafka.ports import PartitionBatch
from streamlet.processing.outputs import Output
from streamlet.processing.task import Task
from streamlet.serdes import serde
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TaskId, TopicPartition

SHAPES = ("tumbling", "session", "sliding", "suppress")
BATCH = 10_000
#: The windows are open at this time; the record that closes them is a day later.
OPEN_MS, CLOSE_MS = 1_000_000_000_000, 1_000_086_400_000
CACHE_BYTES = 256 << 20

_INPUT = TopicPartition("in", 0)


def run(*, windows: int, runs: int) -> dict[str, Any]:
    """Measure each shape so many times; the worst calls of all runs, as they are printed."""
    result: dict[str, Any] = {"workload": "closing", "windows": windows}
    for shape in SHAPES:
        found = [_in_a_process(shape, windows) for _ in range(runs)]
        worst = {name: max(one[name] for one in found) for name in found[0]}
        worst["results"] = min(one["results"] for one in found)
        tell(f"{shape:<12} {worst}")
        result[shape] = worst
    result["right"] = all(result[shape]["results"] == windows for shape in SHAPES)
    return result


def _in_a_process(shape: str, windows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.closing", shape, str(windows)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, process_group=0)
    if done.returncode:
        raise MeasurementError(f"{shape} ended with status {done.returncode}")
    return dict(json.loads(done.stdout))


def application(shape: str) -> sl.App:
    """Counts of the topic ``in``, whose final results go to ``out``."""
    app = sl.App("closing")
    grouped = app.stream("in", key=str, value=bytes).group_by_key()
    week = sl.Materialized("windows", retention="7d")
    if shape in ("tumbling", "session", "sliding"):
        windows: dict[str, Any] = {
            "tumbling": sl.tumbling("1h"),
            "session": sl.session("1h"),
            "sliding": sl.sliding("1h", grace="0s"),
        }
        grouped.windowed_by(windows[shape], emit="final").count(store=week).to_stream().to("out")
        return app
    counts = grouped.windowed_by(sl.tumbling("1h")).count(store=week)
    counts.suppress(sl.until_window_closes()).to_stream().to("out")
    return app


class ClosingTask:
    """The task of an application, the longest calls of it, and the number of its results."""

    def __init__(self, shape: str, folder: Path) -> None:
        (part,) = application(shape).topology().subtopologies
        self._state = TaskState(folder, part.stores, CACHE_BYTES)
        self._task = Task(TaskId(0, 0), part, self._state, {_INPUT: 0}, in_parts=True)
        self._encode = serde(str).encode
        self._offset = self._commits = 0
        self.results = self.calls = 0

    def send(self, keys: Sequence[str], time_ms: int) -> float:
        """Process a batch; the longest call, s."""
        raws: list[bytes | None] = [self._encode(key) for key in keys]
        offsets = range(self._offset, self._offset + len(keys))
        self._offset += len(keys)
        times = [time_ms] * len(keys)
        values: list[bytes | None] = [b"value"] * len(keys)
        batch = PartitionBatch("in", 0, offsets, raws, values, times, None)
        began = time.perf_counter()
        outputs = self._task.process(batch)
        longest = time.perf_counter() - began
        self.calls = 1
        while self._task.under_way:
            self._count(outputs)
            began = time.perf_counter()
            outputs = self._task.resume(0)
            longest = max(longest, time.perf_counter() - began)
            self.calls += 1
        self._count(outputs)
        return longest

    def _count(self, outputs: Sequence[Output]) -> None:
        self.results += sum(len(output.keys) for output in outputs)

    def commit(self) -> None:
        """Write the state; nothing is sent."""
        self._commits += 1
        self._state.write(self._state.drain(), StateNumber(1, self._commits), {})
        self._state.trim()
        gc.collect(1)

    def close(self) -> None:
        """Close the state."""
        self._state.close()


def measured(shape: str, windows: int, folder: Path) -> dict[str, Any]:
    """Open the windows and close them: the longest calls, ms, and what else there is to say."""
    task = ClosingTask(shape, folder)
    fill = 0.0
    for first in range(0, windows, BATCH):
        keys = [f"key-{number:08}" for number in range(first, min(windows, first + BATCH))]
        fill = max(fill, task.send(keys, OPEN_MS))
        task.commit()
    task.results = 0
    began = time.perf_counter()
    call = task.send(["closing"], CLOSE_MS)
    total = time.perf_counter() - began
    results, calls = task.results, task.calls
    task.close()
    return {
        "results": results,
        "fill_ms": round(fill * 1_000, 1),
        "call_ms": round(call * 1_000, 1),
        "calls": calls,
        "total_s": round(total, 2),
        "rss_mb": round(peak_rss_mb()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("windows", type=int)
    options = parser.parse_args()
    gc.disable()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(options.shape, options.windows, Path(folder))))


if __name__ == "__main__":
    main()
