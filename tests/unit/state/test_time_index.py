"""Time indexes: up to where a window store's changelog is about expired rows only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from streamlet.errors import StateError
from streamlet.state.backing import Columns
from streamlet.state.drained import Drained
from streamlet.state.meta import TaskMeta
from streamlet.state.task_state import TaskState
from streamlet.state.time_index import TimeIndex
from streamlet.state.window_rows import PROGRESS_KEY, WindowProgress, time_bytes
from streamlet.types import StateNumber
from tests.unit.state.support import Spec, changelog
from tests.unit.state.test_window_store import WINDOWS, Layout, store_of, window

LOG = changelog("s")


def index(*entries: tuple[int, int]) -> TimeIndex:
    found = TimeIndex()
    for offset, time in entries:
        found = found.noted(offset, time, 10)
    return found


def test_the_last_offset_counts_whose_rows_have_all_expired() -> None:
    one = index((5, 10), (9, 25), (20, 31), (30, 48))
    assert one.expired(10) is None, "the row at 10 is kept"
    assert one.expired(11) == 5
    assert one.expired(31) == 9
    assert one.expired(1_000) == 30
    assert one.behind(9).entries == ((20, 31), (30, 48))


def test_of_times_within_a_step_the_last_is_kept() -> None:
    assert index((5, 10), (9, 12), (12, 19), (15, 20)).entries == ((12, 19), (15, 20))
    assert index((5, 19), (9, 3)).entries == ((9, 19),), "an earlier time may come later"


def test_it_does_not_grow() -> None:
    entries = index(*((n, 10 * n) for n in range(100))).entries
    assert entries == tuple((n, 10 * n) for n in range(84, 100))


def opened(folder: Path | None, spec: Spec = WINDOWS) -> TaskState:
    return TaskState(folder, [spec], 1, {"s": LOG})


def commit(state: TaskState, end: int, number: int = 1, *starts: int) -> Drained:
    """A commit with which the changelog ends at an offset."""
    store, before = store_of(state), state.time_indexes.known
    store.put(window("a", starts[-1]), 1)
    for start in starts[:-1]:
        store.put(window("a", start), 1)
    drained = state.drain()
    assert state.time_indexes.known == before, "not before it is accepted"
    state.write(drained, StateNumber(1, number), {LOG: end})
    return drained


def test_an_owner_may_cut_off_what_it_wrote_a_retention_before(tmp_path: Path) -> None:
    """Not what it is about to write, and never the progress row."""
    state = opened(tmp_path)
    assert commit(state, 10, 1, 0, 5).starts == {}
    assert commit(state, 20, 2, 60).starts == {}
    third = commit(state, 30, 3, 104)
    assert third.starts == {}, "the window at 5 is shown"
    fourth = commit(state, 40, 4, 105)
    assert fourth.starts == {LOG: 10}
    assert fourth.columns["s"].keys[0] == PROGRESS_KEY
    state.close()
    state = opened(tmp_path)
    assert commit(state, 50, 5, 150).starts == {}, "it was said"
    assert commit(state, 60, 6, 10_000).starts == {LOG: 50}
    state.close()


def test_progress_that_did_not_change_is_written_again_behind_what_is_cut_off() -> None:
    """As where a reader's chunk ended between the progress and the rows of one flush."""
    state = opened(None)
    progress = WindowProgress(500, 500).to_row()
    rows = [(PROGRESS_KEY, progress), (time_bytes(500) + b"a", b"\0" * 16)]
    for n, (key, row) in enumerate(rows):
        state.load(Columns("s", [key], [row]), LOG, n + 1, 1)
    state.restored(StateNumber(1, 1))
    store_of(state).put(window("a", 490), 1)
    drained = state.drain()
    assert drained.starts == {LOG: 1}
    assert (
        dict(zip(drained.columns["s"].keys, drained.columns["s"].values, strict=True))[PROGRESS_KEY]
        == WindowProgress(500, 500).to_row()
    )


def test_what_a_reader_loads_is_known_to_the_owner_it_becomes(tmp_path: Path) -> None:
    state = opened(tmp_path)
    for n, time in enumerate((0, 50, 300)):
        keys: list[Any] = [PROGRESS_KEY, time_bytes(time) + b"a"]
        values: list[Any] = [WindowProgress(time, time).to_row(), b"\0" * 16]
        state.load(Columns("s", keys, values), LOG, 10 * (n + 1), 1)
    state.restored(StateNumber(1, 3))
    state.close()
    state = opened(tmp_path)
    assert commit(state, 40, 4, 301).starts == {LOG: 20}
    state.close()


def test_a_reader_that_goes_on_behind_another_version_knows_nothing_before_it_owns(
    tmp_path: Path,
) -> None:
    """That version wrote the position down, and not up to which time the rows before it are."""
    state = opened(tmp_path)
    commit(state, 10, 1, 700)
    fields = json.loads(state._meta().to_bytes())
    assert fields.pop("time_indexes") == [[*LOG, [[10, 700]]]]
    assert fields["v"] == 2
    old = TaskMeta.from_bytes(json.dumps(fields).encode(), "here")
    state.time_indexes.take(old.time_indexes)
    rows = Columns("s", [time_bytes(650) + b"b"], [b"\0" * 16])
    state.load(rows, LOG, 11, 1)
    assert state.time_indexes.known == {}
    commit(state, 20, 2, 660)
    assert state.time_indexes.known == {LOG: TimeIndex(((20, 700),))}, "that of the row before"
    state.close()


def test_rows_that_another_process_wrote_amid_ours_count() -> None:
    state = opened(None)
    store_of(state).put(window("a", 0), 1)
    drained = state.drain()
    state.encoded("s", [time_bytes(400) + b"z"])
    state.write(drained, StateNumber(1, 1), {LOG: 10})
    assert commit(state, 20, 2, 450).starts == {}
    assert commit(state, 30, 3, 700).starts == {LOG: 20}


def test_nothing_is_noted_of_a_write_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path)
    commit(state, 10, 1, 0)
    known = state.time_indexes.known
    store_of(state).put(window("a", 500), 1)
    drained = state.drain()

    def refuse(*_: object) -> None:
        raise StateError("full")

    with monkeypatch.context() as patch:
        patch.setattr(state._disk, "write", refuse)
        with pytest.raises(StateError, match="full"):
            state.write(drained, StateNumber(1, 2), {LOG: 20})
    assert state.time_indexes.known == known
    state.write(drained, StateNumber(1, 2), {LOG: 20})
    assert state.time_indexes.known == {LOG: TimeIndex(((20, 500),))}
    state.close()


def test_a_store_that_is_emptied_forgets_the_offsets(tmp_path: Path) -> None:
    state = opened(tmp_path)
    commit(state, 10, 1, 0)
    state.wipe()
    assert state.time_indexes.known == {}
    state.close()
    state = opened(tmp_path)
    assert state.time_indexes.known == {}
    state.close()


@pytest.mark.parametrize(
    "spec", [Spec("s"), attrs.evolve(WINDOWS, window=Layout(retention_ms=None))]
)
def test_stores_whose_rows_do_not_expire_have_none(spec: Spec) -> None:
    state = opened(None, spec)
    key: Any = "a" if spec.window is None else window("a", 1)
    state.stores["s"].put(key, 1)
    state.write(state.drain(), StateNumber(1, 1), {LOG: 10})
    assert LOG not in state.time_indexes
    assert state.time_indexes.known == {}
