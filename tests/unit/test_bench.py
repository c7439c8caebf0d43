"""The parts of the benchmarks that decide what a result means."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench
import streamlet as sl
from bench import __main__ as command
from bench import apps, eos, growth, latency, regroup, tracing
from bench.join_check import expected
from bench.join_load import JoinLoad
from bench.load import expected_counts, words
from bench.processes import Measurement, MeasurementError, measure
from bench.rounds import Outcome, cpu_ratio, play, ratio, summary
from bench.window_load import LATE, WindowLoad

MODULES = [one.name for one in pkgutil.iter_modules(bench.__path__) if one.name != "__main__"]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_finds_what_it_measures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most run in a process of their own, where a name that is gone would show only at the end."""
    monkeypatch.setenv("BENCH_SPARK_SOURCE", "topic")
    importlib.import_module(f"bench.{name}")


@pytest.fixture
def signals() -> Iterator[None]:
    """Has the handlers of signals as before behind the test."""
    before = {one: signal.getsignal(one) for one in command._ENDS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


#: Says whether it is in a group of its own, presses Ctrl-C twice, and ends with its input.
INTERRUPTING = """
import os, signal, sys
with open(sys.argv[1], "w") as out:
    out.write(f"{os.getpid()} {os.getpgrp()}")
for _ in range(2):
    os.kill(os.getppid(), signal.SIGINT)
sys.stdin.read()
"""


def test_ctrl_c_ends_what_is_measured_which_does_not_hear_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: None
) -> None:
    said = tmp_path / "said"
    words = [sys.executable, "-c", INTERRUPTING]
    monkeypatch.setattr(sys, "argv", ["bench", "wordcount"])
    monkeypatch.setattr(command, "_run", lambda _: measure([[str(said)]], 1, words))
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 130
    pid, group = said.read_text().split()
    assert pid == group
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def outcome(rate: float, wrong: str = "", rss_mb: float = 100.0, cpu: float = 2.0) -> Outcome:
    return Outcome(Measurement(rate, cpu, rss_mb, {}), wrong)


def test_every_word_is_in_the_input_and_few_are_in_most_of_it() -> None:
    counts = expected_counts(records=20_000, keys=1_000)
    assert len(counts) == 1_000
    assert sum(counts.values()) == 20_000
    assert counts[b"word0000000"] > 2_000


def test_the_input_is_the_same_in_each_run() -> None:
    assert words(5_000, 100) == words(5_000, 100)


@pytest.mark.parametrize("open_windows", [1, 10])
def test_windows_have_all_keys_and_no_record_is_too_late(open_windows: int) -> None:
    load = WindowLoad(records=5_000, keys=50, open_windows=open_windows)
    stream_time, late = 0, 0
    for _, time in load.all():
        stream_time = max(stream_time, time)
        late += time < stream_time
        assert time - time % load.size_ms + load.size_ms + load.grace_ms > stream_time
    assert 5_000 // LATE * 0.7 < late < 5_000 // LATE * 1.3
    counts = load.expected()
    assert sum(counts.values()) == load.preload + 5_000
    starts = {start for _, start in counts}
    assert len(starts) == open_windows + 5_000 // load.size_ms
    assert len(counts) == len(starts) * 50


def test_the_ratio_compares_within_a_round() -> None:
    """A machine at half speed in one round changes both rates and not their ratio."""
    outcomes = {
        "bare": [outcome(1000), outcome(500), outcome(1000)],
        "streamlet": [outcome(800), outcome(400), outcome(700)],
    }
    assert ratio(outcomes, "streamlet", "bare") == 0.8
    assert ratio({"streamlet": [outcome(1)]}, "streamlet", "bare") is None


def test_the_ratio_by_processor_time_is_higher_for_whoever_needs_less() -> None:
    outcomes = {"bare": [outcome(1, cpu=2.0)] * 2, "streamlet": [outcome(9, cpu=4.0)] * 2}
    assert cpu_ratio(outcomes, "streamlet", "bare") == 0.5
    assert cpu_ratio({"bare": [outcome(1)]}, "streamlet", "bare") is None


def test_a_summary_has_median_rates_and_the_highest_memory() -> None:
    runs = [outcome(100, rss_mb=50), outcome(300, rss_mb=70), outcome(200, rss_mb=60)]
    found = summary("wordcount", {"streamlet": runs, "bare": runs})
    assert found == {
        "workload": "wordcount",
        "streamlet": {"rate": 200, "cpu_s_per_m": 2.0, "rss_mb": 70},
        "bare": {"rate": 200, "cpu_s_per_m": 2.0, "rss_mb": 70},
        "ratio": 1.0,
        "cpu_ratio": 1.0,
        "right": True,
    }


def test_exactly_once_is_compared_with_what_commits_as_often() -> None:
    names = ("bare", "streamlet", "bare_transactions_100", "exactly_once_100")
    names += ("bare_transactions_1000", "exactly_once_1000")
    rates = dict(zip(names, (1000, 800, 500, 400, 900, 750), strict=True))
    found = eos.summary({name: [outcome(rate, cpu=1000 / rate)] for name, rate in rates.items()})
    assert found["right"] is True
    assert found["ratios"] == {
        "100": {"bare": 0.4, "transactions": 0.8, "at_least_once": 0.5},
        "1000": {"bare": 0.75, "transactions": 0.833, "at_least_once": 0.938},
    }
    assert found["cpu_ratios"] == found["ratios"]


def test_growth_compares_partitions_among_themselves_and_keys_with_the_bare_loop() -> None:
    rates = {(4, 10): (500, 400), (64, 10): (450, 300), (256, 10): (445, 100), (4, 90): (300, 310)}
    outcomes = {
        f"{side} {partitions}x{keys}": [outcome(rate, rss_mb=rate)]
        for (partitions, keys), both in rates.items()
        for side, rate in zip(("streamlet", "bare"), both, strict=True)
    }
    found = growth.summary(outcomes, [4, 64, 256], [10, 90])
    assert (found["partitions_ratio"], found["keys_ratio"]) == (0.89, 0.968)
    assert found["within"] == {"partitions": False, "keys": False}
    assert found["keys"]["90"]["ratio"] == 0.968
    assert (found["keys"]["90"]["rss_mb"], found["keys"]["90"]["bare_rss_mb"]) == (300, 310)
    assert [one["rate"] for one in found["partitions"].values()] == [500, 450, 445]
    better = growth.summary(outcomes, [4, 64], [10])
    assert better["within"] == {"partitions": True, "keys": True}


def test_a_model_scores_by_the_record_by_lists_and_by_arrays_alike() -> None:
    numbers = [0, 1, 1_023, 1_024, 999_999]
    batch = sl.RecordBatch(["k"] * 5, numbers, [0] * 5)
    wanted = list(map(apps.score, numbers))
    assert apps.scores(batch) == apps.array_scores(batch).tolist() == wanted
    assert len(set(wanted)) == 4, "a number and the one 1,024 behind it are alike"


def test_one_wrong_output_makes_the_result_wrong() -> None:
    outcomes = {"bare": [outcome(1)] * 2, "streamlet": [outcome(1), outcome(1, "one word off")]}
    assert summary("wordcount", outcomes)["right"] is False


def test_rounds_take_turns(capsys: pytest.CaptureFixture[str]) -> None:
    played: list[str] = []

    def variant(name: str) -> Outcome:
        played.append(name)
        return outcome(1)

    play({"bare": lambda: variant("bare"), "streamlet": lambda: variant("streamlet")}, runs=2)
    assert played == ["bare", "streamlet", "bare", "streamlet"]
    assert capsys.readouterr().out == "", "standard output is for the result"


def test_each_record_of_two_streams_finds_one_of_the_other_side_on_average() -> None:
    load = JoinLoad("stream_stream", records=20_000, keys=200)
    assert 0.4 < sum(1 for _ in expected(load)) / load.records < 0.6


@pytest.mark.parametrize("kind", ["stream_table", "table_table"])
def test_a_table_gives_its_newest_row_before_a_record(kind: str) -> None:
    load = JoinLoad(kind, records=2_000, keys=50)
    rows = {(row.side, row.number): row for row in load.rows()}
    for word, (left, right) in expected(load):
        one, other = rows[0, left], rows[1, right]
        assert one.word == other.word == word
        between = [r for r in rows.values() if r.side == 1 and other.time < r.time < one.time]
        assert not any(row.word == word for row in between)


def test_latency_without_a_bare_loop_to_measure_is_refused() -> None:
    with pytest.raises(MeasurementError, match="passthrough, repartition only"):
        latency.run(seconds=1, rates=[1], apps=["count"], peers=["bare"])


@pytest.mark.parametrize(("p99", "within"), [(250.0, True), (251.0, False)])
def test_latencies_are_compared_with_the_bounds_of_their_rate(p99: float, within: bool) -> None:
    waiting = {"p50": 120.0, "p99": p99}
    assert regroup.are_within({"1000": {"waiting": waiting}}) is within
    assert regroup.are_within({"10000": {"waiting": waiting}})


def test_tracing_is_measured_with_results_that_have_their_traces() -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason="needs the extra otel")
    found = tracing.run(records=40, runs=1)
    assert found["right"]
    assert found["ns"].keys() == set(tracing.MODES)
