"""Commits of many rows go to the disk in pieces: what a crash or a full disk between two leaves."""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from streamlet.errors import StateError
from streamlet.state import pieces
from streamlet.state.backing import Columns
from streamlet.state.drained import Drained
from streamlet.state.rocksdb import RocksEngine
from streamlet.state.task_state import TaskState
from streamlet.types import StateNumber, TopicPartition
from tests.unit.state.support import Spec, changelog

INPUT = TopicPartition("in", 0)
ROWS = 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 3)


@attrs.define
class Disk:
    """Refuses the piece of this number, once."""

    refused: int
    pieces: int = 0

    def over(self, write: Callable[..., None]) -> Callable[..., None]:
        def refusing(engine: RocksEngine, columns: Columns) -> None:
            self.pieces += 1
            if self.pieces == self.refused:
                raise StateError("the disk is full")
            write(engine, columns)

        return refusing


def open_state(folder: Path) -> TaskState:
    return TaskState(folder, [Spec("s"), Spec("t")], 1 << 20, {"s": changelog("s")})


def drained(state: TaskState, value: int) -> Drained:
    for name in ("s", "t"):
        for i in range(ROWS):
            state.stores[name].put(str(i), value)
    return state.drain()


def commit(state: TaskState, value: int, rows: Drained | None = None) -> None:
    rows = rows or drained(state, value)
    ends = {changelog("s"): value * ROWS}
    state.write(rows, StateNumber(1, value), ends, inputs={INPUT: value})


def values(state: TaskState, store: str) -> set[int]:
    return {value for _, value in state.stores[store].range()}


@pytest.mark.parametrize("refused", [1, 2, 4])
def test_a_crash_amid_the_rows_of_a_commit_reads_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    state = open_state(tmp_path)
    commit(state, 1)
    rows = drained(state, 2)
    log = rows.columns["s"]
    disk = Disk(refused)
    monkeypatch.setattr(RocksEngine, "write_ahead", disk.over(RocksEngine.write_ahead))
    with pytest.raises(StateError, match="full"):
        commit(state, 2, rows)
    state.close()

    again = open_state(tmp_path)
    assert (again.state, again.positions) == (StateNumber(1, 1), {changelog("s"): ROWS})
    assert (again.inputs, again.reach) == (None, StateNumber(1, 2)), "taken for a whole commit"
    assert (2 in values(again, "s")) == (refused > 1), "pieces do not reach the disk"
    assert values(again, "t") == {1}, "rows that nothing reads again are in part of a commit"
    loader = again.loader("s")
    loader.add(log.keys, log.values)
    loader.flush(2 * ROWS, 1, newest=StateNumber(1, 2))
    again.restored(StateNumber(1, 2), inputs={INPUT: 2})
    assert values(again, "s") == {2}
    again.close()


def test_a_commit_that_the_disk_refused_amid_its_rows_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = open_state(tmp_path)
    commit(state, 1)
    state.views.open(lambda: None)
    monkeypatch.setattr(RocksEngine, "write_ahead", Disk(2).over(RocksEngine.write_ahead))
    rows = drained(state, 2)

    def seen() -> tuple[set[bytes | None], object]:
        view = state.views.take()
        assert view is not None
        return {value for _, value in view.backing("s").scan(None, None)}, view.contents.inputs

    before = seen()
    with pytest.raises(StateError, match="full"):
        commit(state, 2, rows)
    assert seen() == before, "readers see a part of a commit"
    commit(state, 2, rows)
    assert seen() == ({bytes(8) + (2).to_bytes(8, "big")}, {INPUT: 2}), seen()
    state.close()
    again = open_state(tmp_path)
    assert (again.state, again.inputs) == (StateNumber(1, 2), {INPUT: 2})
    assert values(again, "s") == values(again, "t") == {2}
    again.close()


def test_restored_rows_in_pieces_are_between_two_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = open_state(tmp_path)
    commit(state, 1)
    monkeypatch.setattr(RocksEngine, "write_ahead", Disk(3).over(RocksEngine.write_ahead))
    loader = state.loader("s")
    loader.add([b"%d" % i for i in range(ROWS)], [bytes(8) + bytes(7) + b"\x02"] * ROWS)
    with pytest.raises(StateError, match="full"):
        loader.flush(2 * ROWS, 1, newest=StateNumber(1, 2))
    state.close()
    again = open_state(tmp_path)
    assert (again.positions, again.inputs) == ({changelog("s"): ROWS}, None)
    assert again.reach == StateNumber(1, 2)
    again.close()
