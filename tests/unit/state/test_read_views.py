"""Views of a task's state on disk, while its owner writes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber
from tests.unit.state.support import Spec, changelog

ENDS = [None, "b", "c", "d", "zz"]


@pytest.fixture(params=["disk", "memory"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> TaskState:
    folder = tmp_path if request.param == "disk" else None
    return TaskState(folder, [Spec("s")], 1 << 20, {"s": changelog("s")})


def commit(state: TaskState, number: int, rows: dict[str, int | None]) -> None:
    for key, value in rows.items():
        state.stores["s"].put(key, value)
    state.write(state.drain(), StateNumber(1, number), {changelog("s"): number})


def test_gets_and_scans_of_a_view_are_of_one_commit(state: TaskState) -> None:
    commit(state, 1, {"a": 1, "b": 1, "d": 1})
    state.views.open(lambda: None)
    view = state.views.take()
    assert view is not None
    commit(state, 2, {"a": None, "b": 2, "c": 2, "e": 2})
    stored = view.backing("s")
    rows = {key: bytes(8) + (1).to_bytes(8, "big") for key in (b"a", b"b", b"d")}
    keys = [b"a", b"b", b"c", b"d", b"e"]
    assert stored.get_many(keys) == [rows.get(key) for key in keys]
    for low in ENDS:
        for high in ENDS:
            first, last = (None if end is None else end.encode() for end in (low, high))
            inside = [
                row
                for row in sorted(rows.items())
                if (first is None or row[0] >= first) and (last is None or row[0] < last)
            ]
            assert list(stored.scan(first, last)) == inside, (low, high)
            backward = list(stored.scan(first, last, backward=True))
            assert backward == inside[::-1], (low, high)
    state.close()
