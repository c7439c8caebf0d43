"""The benchmarks run, check their outputs and print what is promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
MEASURED = {"rate", "cpu_s_per_m", "rss_mb"}


def bench(bootstrap: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments, "--runs", "1", "--json"],
        cwd=ROOT,
        env={**os.environ, "BENCH_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("workload", ["wordcount", "on-commit", "passthrough", "restore"])
def test_streamlet_and_the_bare_loop_are_measured_and_right(
    bootstrap_servers: str, workload: str
) -> None:
    found = bench(bootstrap_servers, workload, "--records", "20000", "--keys", "500")
    assert found["workload"] == workload
    assert found["right"] is True
    assert found["ratio"] > 0
    assert set(found["streamlet"]) == set(found["bare"]) == MEASURED


def test_windows_are_measured_with_few_and_many_open_and_right(bootstrap_servers: str) -> None:
    sizes = ("--records", "20000", "--keys", "200", "--windows", "2000", "--runs", "1")
    found = bench(bootstrap_servers, "window", *sizes)
    assert found["right"] is True
    assert set(found["open_windows"]) == {"200", "20000"}
    assert found["on_commit"]["ratio"] > 0
    assert found["closing"]["windows"] == 2_000
    assert found["closing"]["longest_silence_ms"] > 0
    assert found["ratio"] > 0
    assert found["open_ratio"] > 0
    assert set(found["streamlet"]) == set(found["many_open"]) == set(found["bare"]) == MEASURED


def test_prefixes_are_measured_beside_plain_records_and_right(bootstrap_servers: str) -> None:
    size = ("--records", "20000", "--keys", "500", "--seconds", "0")
    found = bench(bootstrap_servers, "regroup", *size)
    assert found["right"] is True
    assert found["ratio"] > 0
    assert found["waiting_ratio"] > 0
    assert set(found["plain"]) == set(found["exact"]) == set(found["waiting"]) == MEASURED
    assert "latency" not in found


def test_two_workers_share_the_input(bootstrap_servers: str) -> None:
    found = bench(
        bootstrap_servers, "wordcount", "--records", "20000", "--keys", "500", "--workers", "2"
    )
    assert found["right"] is True
    assert found["workers"] == 2
    assert set(found["one_worker"]) == MEASURED
    assert found["speedup"] > 0


def test_latency_is_measured_from_sending_to_the_output(bootstrap_servers: str) -> None:
    short = ("--warm", "1", "--seconds", "2", "--rates", "500")
    load = (*short, "--linger", "5", "--peers", "streamlet")
    found = bench(bootstrap_servers, "latency", *load, "--apps", "repartition")
    assert found["right"] is True
    assert found["linger_ms"] == 5
    for figures in (found, found["exactly_once"]):
        measured = figures["500"]["repartition"]
        assert measured["sent"] == measured["records"] == 100 + 500 * 3  # 100 until it is there
        assert 0 < measured["busy"] <= 1
        assert -1 <= measured["input"]["p50"] <= measured["p50"] <= measured["p99"]
        assert measured["p99"] <= measured["p999"]
    assert measured["append"]["p50"] <= measured["p50"], "a reader has it after the commit"


def test_the_latency_of_bare_loops_is_measured_under_the_same_load(bootstrap_servers: str) -> None:
    apps = ("passthrough", "repartition")
    short = ("--warm", "1", "--seconds", "1", "--rates", "500", "--peers", "bare")
    found = bench(bootstrap_servers, "latency", *short, "--apps", ",".join(apps))
    assert found["right"] is True
    assert "500" not in found
    assert set(found["bare"]["500"]) == {*apps}
    for measured in found["bare"]["500"].values():
        assert measured["sent"] == measured["records"] == 100 + 500 * 2
        assert measured["input"]["p50"] <= measured["p50"] <= measured["p99"]


def test_joins_are_measured_beside_bare_loops_and_right(bootstrap_servers: str) -> None:
    sizes = ("--records", "20000", "--keys", "500")
    found = bench(bootstrap_servers, "join", *sizes, "--joins", "stream_stream,foreign_key")
    assert found["right"] is True
    for join in ("stream_stream", "foreign_key"):
        assert found[join]["ratio"] > 0
        assert set(found[join]["streamlet"]) == set(found[join]["bare"]) == MEASURED


def test_calls_many_at_a_time_are_measured_beside_calls_one_by_one(bootstrap_servers: str) -> None:
    found = bench(bootstrap_servers, "async", "--records", "2000", "--keys", "10")
    assert found["right"] is True
    assert found["ratio_to_serial"] > 1
    assert set(found["serial"]) == set(found["key"]) == set(found["partition"]) == MEASURED
