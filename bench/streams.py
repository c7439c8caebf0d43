"""Word count and pass-through beside the bare loop; word count behind a repartition, both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from bench import rounds
from bench.broker import PARTITIONS, serving
from bench.check import check_passthrough, check_windows, check_wordcount
from bench.load import load
from bench.rounds import Outcome, Variant
from bench.single_run import ALONE, CHANGELOG, run_once
from bench.window_load import WindowLoad
from bench.window_load import load as load_windows

#: What is sent with commits is measured over several of them, which are a second apart.
ON_COMMIT_RECORDS = 3_000_000


@attrs.frozen
class Bench:
    """One workload on one loaded topic; its output has the usual number of partitions.

    Attributes:
        workload: such as ``wordcount``.
        bootstrap: the broker.
        source: the topic.
        records: how many it has; ``keys``: how many different ones.
        partitions: of the topic, and of the changelog of a bare loop.
        windows: the load of windows, where that is the workload.
    """

    workload: str
    bootstrap: str
    source: str
    records: int
    keys: int
    partitions: int = PARTITIONS
    windows: WindowLoad | None = None

    @classmethod
    def of_windows(cls, bootstrap: str, load: WindowLoad) -> Bench:
        """Counts in windows, on a topic that is loaded unless a run before has."""
        source = load_windows(bootstrap, load)
        count = load.preload + load.records
        return cls("window", bootstrap, source, count, load.keys, windows=load)

    @property
    def preload(self) -> int:
        """The number of records before the measurement begins."""
        return 0 if self.windows is None else self.windows.unmeasured

    def bare(self, *more: str) -> Outcome:
        """The bare loop; ``more`` arguments of its."""
        own = ("--partitions", self.partitions, *more)
        return self.run(("bench.bare",), [own], topics=CHANGELOG, beside=self.partitions)

    def streamlet(
        self, workers: int = 1, *more: str, environ: Mapping[str, str] | None = None
    ) -> Outcome:
        """The application of ``bench/apps.py``, in so many workers of one group."""
        own = [
            ("--total", self.records, "--number", n, "--members", workers, *more)
            for n in range(workers)
        ]
        return self.run(("bench.ours",), own, environ=environ)

    def regrouped(self, app: str, *more: str) -> Outcome:
        """Word count behind a repartition topic: one worker writes a record there for each."""
        both = 2 * self.records
        own = ["--total", both, "--inputs", both, "--by-output", *ALONE, *more]
        return self.run(("bench.ours",), [own], app)

    def run(
        self,
        program: Sequence[str],
        processes: Sequence[Sequence[object]],
        app: str = "",
        wrong: Callable[[str], str] | None = None,
        **how: Any,
    ) -> Outcome:
        """``run_once`` of a program; ``app`` in place of the workload, ``wrong`` of its check."""
        options: dict[str, object] = {"source": self.source, "preload": self.preload}
        if self.windows is not None:
            options |= {"size": self.windows.size_ms, "grace": self.windows.grace_ms}
        whole = *program, app or self.workload
        check = wrong or self._wrong
        return run_once(self.bootstrap, whole, options, processes, self.records, check, **how)

    def _wrong(self, output: str) -> str:
        """The faults of the output of the whole input."""
        if self.windows is not None:
            return check_windows(self.bootstrap, output, self.windows)
        if self.workload == "passthrough":
            return check_passthrough(self.bootstrap, self.source, output, self.records, self.keys)
        on_commit = self.workload == "on-commit"
        return check_wordcount(self.bootstrap, output, self.records, self.keys, on_commit=on_commit)


def run(
    workload: str, *, records: int, keys: int, runs: int, workers: int, peers: list[str]
) -> dict[str, Any]:
    """Measure; the result as it is printed.

    With several workers one worker is measured too, and ``speedup`` compares the two.
    """
    with serving() as bootstrap:
        rounds.tell(f"loading {records:,} records with {keys:,} keys")
        bench = Bench(workload, bootstrap, load(bootstrap, records, keys), records, keys)
        variants: dict[str, Variant] = {}
        if "bare" in peers:
            variants["bare"] = bench.bare
        if "streamlet" in peers:
            variants["streamlet"] = lambda: bench.streamlet(workers)
            if workers > 1:
                variants["one_worker"] = bench.streamlet
        outcomes = rounds.play(variants, runs)
    result = rounds.summary(workload, outcomes)
    if workers > 1:
        result["workers"] = workers
        result["speedup"] = rounds.ratio(outcomes, "streamlet", "one_worker")
    return result
