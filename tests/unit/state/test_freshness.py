"""When a position was the end of its log."""

from __future__ import annotations

import json
from pathlib import Path

from streamlet.state.freshness import Freshness
from streamlet.state.meta import TaskMeta
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TopicPartition
from tests.unit.state.support import Spec, changelog

S0 = changelog("s", 0)


def test_a_position_at_the_end_is_as_of_now() -> None:
    assert Freshness().reached(7, 1_000, 7) == 1_000


def test_a_position_that_reaches_an_end_is_as_of_the_look_at_it() -> None:
    fresh = Freshness()
    assert fresh.reached(5, 1_000, 7) is None
    assert fresh.reached(6, 2_000, 9) is None
    assert fresh.reached(7, 3_000, 9) == 1_000
    assert fresh.reached(8, 4_000, None) is None, "the end of 9 was looked at at 3000"
    assert fresh.reached(9, 5_000, None) == 3_000


def test_an_end_that_stays_where_it_is_is_as_of_the_last_look() -> None:
    fresh = Freshness()
    for now_ms in (1_000, 2_000, 3_000):
        assert fresh.reached(5, now_ms, 7) is None
    assert fresh.reached(7, 4_000, 9) == 3_000


def test_without_a_look_nothing_is_known() -> None:
    assert Freshness().reached(7, 1_000, None) is None


def test_state_carries_its_times_and_forgets_them_when_it_is_wiped(tmp_path: Path) -> None:
    def opened() -> TaskState:
        return TaskState(tmp_path, [Spec("s")], 1 << 20, {"s": S0})

    state = opened()
    state.write(state.drain(), StateNumber(1, 1), {S0: 4}, {S0: 1_000})
    state.close()
    state = opened()
    assert state.times == {S0: 1_000}
    state.write(state.drain(), StateNumber(1, 2), {S0: 5})
    state.close()
    state = opened()
    assert (state.positions, state.times) == ({S0: 5}, {S0: 1_000}), "at most that old"
    state.wipe()
    state.close()
    state = opened()
    assert state.times == {}
    state.close()


def test_meta_of_an_older_version_has_no_times() -> None:
    meta = TaskMeta(StateNumber(1, 1), {S0: 4}, {S0: 1}, {}, {}, times={S0: 9})
    fields = json.loads(meta.to_bytes())
    assert TaskMeta.from_bytes(meta.to_bytes(), "here").times == {S0: 9}
    del fields["times"]
    older = TaskMeta.from_bytes(json.dumps(fields).encode(), "here")
    assert (older.positions, older.times) == ({TopicPartition(*S0): 4}, {})
