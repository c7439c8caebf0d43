"""Joins beside bare loops, branches that merge beside none, and async calls beside serial ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import orjson

from bench import calls, rounds
from bench.broker import read_all, serving
from bench.join_check import check_join, expected
from bench.join_load import JoinLoad, load
from bench.load import expected_counts
from bench.load import load as load_words
from bench.rounds import Outcome
from bench.single_run import ALONE, CHANGELOG, run_once

#: What is joined.
KINDS = ("stream_stream", "stream_table", "table_table", "foreign_key")
#: Branches that merge, beside none.
SPLIT = "split_merge"
#: Calls of async functions, beside calls one by one.
CALLS = "async"
MEASURED = (*KINDS, SPLIT, CALLS)


@attrs.frozen
class JoinBench:
    """One join of two loaded topics."""

    bootstrap: str
    load: JoinLoad

    def bare(self) -> Outcome:
        """The bare loop."""
        hops = sum(self._subscriptions()) if self.load.kind == "foreign_key" else 0
        return self._run("bench.bare_joins", {**CHANGELOG, "hop": {}}, "--hops", hops)

    def streamlet(self) -> Outcome:
        """The application of ``bench/apps.py``, in one worker."""
        inputs = self.load.records
        if self.load.kind == "foreign_key":
            rows, moved = self._subscriptions()
            # Each subscription is seen, and each answer to a row.
            until: list[object] = ["--total", inputs + 2 * rows + moved]
        else:  # records that were seen may wait in the task, and what they join with as well
            until = ["--by-output", "--total", sum(1 for _ in expected(self.load))]
        return self._run("bench.ours", {}, *until, "--inputs", inputs, *ALONE)

    def _subscriptions(self) -> tuple[int, int]:
        """The changes of left rows, and those that name another right row than before."""
        named: dict[int, int] = {}
        rows = moved = 0
        for row in self.load.rows():
            if row.side == 0:
                rows += 1
                moved += named.get(row.word, row.to) != row.to
                named[row.word] = row.to
        return rows, moved

    def _run(self, module: str, topics: dict[str, dict[str, str]], *words: object) -> Outcome:
        left, right = self.load.topics
        options = {"left": left, "right": right, "within": self.load.within_ms}
        return run_once(
            *(self.bootstrap, (module, self.load.kind), options, [words], self.load.records),
            lambda output: check_join(self.bootstrap, output, self.load),
            topics=topics,
        )


@attrs.frozen
class SplitBench:
    """Branches that merge, on the input of word count."""

    bootstrap: str
    source: str
    records: int
    keys: int

    def run(self, workload: str) -> Outcome:
        """One of the two applications, in one worker."""
        program, own = ("bench.ours", workload), ("--total", self.records, *ALONE)
        options = {"source": self.source}
        return run_once(self.bootstrap, program, options, [own], self.records, self._wrong)

    def _wrong(self, output: str) -> str:
        """The fault in the output: each number must be there once, in the order of its key."""
        newest: dict[bytes, int] = {}
        count = total = 0
        for batch in read_all(self.bootstrap, output):
            for message in batch:
                (number,) = orjson.loads(message.value() or b"{}").values()
                if newest.get(message.key() or b"", -1) >= number:
                    return f"{message.key()!r} has {number} behind {newest[message.key() or b'']}"
                newest[message.key() or b""] = number
                count, total = count + 1, total + number
        if (count, 2 * total) != (self.records, self.records * (self.records - 1)):
            return f"{count} records of the sum {total} were written for {self.records}"
        missing = len(expected_counts(self.records, self.keys)) - len(newest)
        return f"{missing} words are missing" if missing else ""


def run(*, records: int, keys: int, runs: int, joins: list[str]) -> dict[str, Any]:
    """Measure some of ``MEASURED``; the result as it is printed, with a ratio for each."""
    result: dict[str, Any] = {"workload": "join"}
    with serving() as bootstrap:
        for kind in (kind for kind in KINDS if kind in joins):
            rounds.tell(kind)
            wanted = JoinLoad(kind, records, keys)
            load(bootstrap, wanted)
            bench = JoinBench(bootstrap, wanted)
            outcomes = rounds.play({"bare": bench.bare, "streamlet": bench.streamlet}, runs)
            result[kind] = rounds.summary(kind, outcomes)
        if SPLIT in joins:
            rounds.tell(SPLIT)
            split = SplitBench(bootstrap, load_words(bootstrap, records, keys), records, keys)
            variants = {name: partial(split.run, name) for name in ("unsplit", "split")}
            outcomes = rounds.play(variants, runs)
            result[SPLIT] = rounds.summary(SPLIT, outcomes, "split", "unsplit")
        if CALLS in joins:
            rounds.tell(CALLS)
            result[CALLS] = calls.measured(bootstrap, calls.RECORDS, runs)
    result["right"] = all(result[name]["right"] for name in joins)
    return result
