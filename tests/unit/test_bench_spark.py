"""What the benchmarks of Spark calculate from the batches they measured."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from bench.processes import MeasurementError
from bench.spark import summary
from bench.spark_fit import Cost
from bench.spark_state import Batches, by_size, changed_bytes
from streamlet.spark.progress import BatchProgress


def batch(records: int, took_ms: int) -> BatchProgress:
    return BatchProgress(batch=1, records=records, took_ms=took_ms, lag=0, state_bytes=0)


def test_batches_on_a_line_give_the_line() -> None:
    cost = Cost.of([(4_000, 320), (250_000, 1_550), (1_000_000, 5_300)])
    assert cost.summary() == {"batch_ms": 300.0, "record_us": 5.0}


def test_large_batches_that_vary_leave_what_small_ones_cost() -> None:
    small = [(4_000, 318), (4_000, 322)]
    cost = Cost.of([*small, (250_000, 1_550), (1_000_000, 5_800), (1_000_000, 4_800)])
    assert cost.batch_ms == pytest.approx(300, rel=0.05)


def test_a_line_needs_two_sizes() -> None:
    with pytest.raises(MeasurementError, match="two sizes"):
        Cost.of([(10, 5), (10, 6)])


def test_rates_are_medians_of_the_middle_size_and_compared() -> None:
    done = {
        "passthrough": [batch(100, 100), batch(100, 50), batch(100, 200)],
        "tws_per_key": [batch(100, 400)],
        "tasks": [batch(100, 80)],
    }
    others = {"tasks": [batch(10, 44), batch(200, 120)]}
    found = summary(done, others)
    assert found == {
        "passthrough": 1_000,
        "tws_per_key": 250,
        "tasks": 1_250,
        "tasks_to_passthrough": 1.25,
        "tasks_to_tws_per_key": 5.0,
        "fit": {"tasks": {"batch_ms": 40.0, "record_us": 400.0}},
    }


def test_a_table_is_compared_with_the_smallest() -> None:
    large = Batches((10, 30, 20), (5, 5, 90), ((1, 70), (3, 60), (2, 100)))
    found = by_size({9: large, 2: Batches((16,), (4,), ((1, 2),))})
    assert found == {
        "keys_9": {
            "batch_ms": 20,
            "bytes": 5,
            "most_bytes": 90,
            "read_entries": 2,
            "read_bytes": 70,
            "most_read_bytes": 100,
        },
        "keys_2": {
            "batch_ms": 16,
            "bytes": 4,
            "most_bytes": 4,
            "read_entries": 1,
            "read_bytes": 2,
            "most_read_bytes": 2,
        },
        "ratio": 1.25,
    }


def test_the_changes_of_a_batch_are_those_of_all_stores(tmp_path: Path) -> None:
    for place, size in (("0/0/8", 10), ("0/1/8", 20), ("1/0/8", 5), ("0/0/7", 99)):
        file = tmp_path / "state" / f"{place}.changelog"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    assert changed_bytes(tmp_path, 7) == 35
    with pytest.raises(MeasurementError, match="batch 8"):
        changed_bytes(tmp_path, 8)


def test_changes_in_two_batches_of_spark_count_as_one(tmp_path: Path) -> None:
    for place, size in (("0/0/2", 10), ("0/1/3", 20)):
        file = tmp_path / "state" / f"{place}.changelog"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    halves = [attrs.evolve(batch(5, 40), batch=number) for number in (1, 2)]
    before, read = Batches((7,), (8,), ((1, 2),)), {1: (3, 40), 2: (5, 60), 3: (9, 9)}
    found = before.with_changes(halves, tmp_path, read)
    assert found == Batches((7, 80), (8, 30), ((1, 2), (8, 100)))
