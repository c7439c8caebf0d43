"""Counts in tumbling windows beside the bare loop, with few open windows and with many."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from typing import Any

import attrs

from bench import rounds
from bench.broker import Topics, serving
from bench.check import check_windows
from bench.processes import measure
from bench.rounds import Outcome, Variant
from bench.window_load import WindowLoad, load

#: Open windows of each key where many are open.
MANY = 100


@attrs.frozen
class WindowBench:
    """One load, in its topic."""

    bootstrap: str
    source: str
    load: WindowLoad

    def bare(self) -> Outcome:
        """The bare loop."""
        return self._run("bench.bare")

    def streamlet(self) -> Outcome:
        """The application of ``bench/apps.py``, in one worker."""
        total = self.load.preload + self.load.records
        return self._run("bench.ours", "--total", str(total), "--number", "0", "--members", "1")

    def _run(self, module: str, *more: str) -> Outcome:
        run = f"bench-run-{uuid.uuid4().hex[:8]}"
        state = tempfile.mkdtemp(prefix="streamlet-bench-")
        topics = Topics(self.bootstrap)
        topics.create(run)
        if module == "bench.bare":
            topics.create(f"{run}-changelog", {"cleanup.policy": "compact"})
        options: dict[str, object] = {
            "bootstrap": self.bootstrap,
            "source": self.source,
            "output": run,
            "state": state,
            "size": self.load.size_ms,
            "grace": self.load.grace_ms,
            "preload": self.load.unmeasured,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        try:
            measurement = measure([[module, "window", *words, *more]], self.load.records)
            return Outcome(measurement, check_windows(self.bootstrap, run, self.load))
        finally:
            shutil.rmtree(state, ignore_errors=True)
            topics.delete(lambda name: name.startswith(run))


def run(*, records: int, keys: int, runs: int, peers: list[str]) -> dict[str, Any]:
    """Measure; the result as it is printed.

    ``ratio`` is that of streamlet by the bare loop where a window of each key is open;
    ``open_ratio`` that of streamlet's rate with 100 of each by its rate with one.
    """
    with serving() as bootstrap:
        one, many = (
            WindowBench(bootstrap, load(bootstrap, wanted), wanted)
            for wanted in (WindowLoad(records, keys, 1), WindowLoad(records, keys, MANY))
        )
        variants: dict[str, Variant] = {}
        if "bare" in peers:
            variants["bare"] = one.bare
        if "streamlet" in peers:
            variants |= {"streamlet": one.streamlet, "many_open": many.streamlet}
        outcomes = rounds.play(variants, runs)
    result = rounds.summary("window", outcomes)
    rates = {keys: "streamlet", MANY * keys: "many_open"}
    result["open_windows"] = {
        str(count): result[name]["rate"] for count, name in rates.items() if name in result
    }
    result["open_ratio"] = rounds.ratio(outcomes, "many_open", "streamlet")
    return result
