"""``bench closing`` sends each window once, in several calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.closing import SHAPES, measured


@pytest.mark.parametrize("shape", SHAPES)
def test_all_windows_close_with_one_record_in_several_calls(shape: str, tmp_path: Path) -> None:
    found = measured(shape, 12_345, tmp_path)
    assert found["results"] == 12_345
    assert found["calls"] > 12
    assert 0 < found["call_ms"] < found["total_s"] * 1_000
