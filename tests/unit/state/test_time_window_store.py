"""Windows with a row each: their rows lie together in the cache, and leave it oldest first."""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs
import pytest

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.graph.uses import TableUse
from streamlet.dsl.windowing.definitions import tumbling
from streamlet.dsl.windowing.folding import BoundFolding, counting, reducing
from streamlet.dsl.windowing.time_windowed import TimeWindowed
from streamlet.errors import SerdeError
from streamlet.serdes import Windowed, serde
from streamlet.state.task_state import TaskState
from streamlet.state.time_window_store import TimeWindowStore
from streamlet.types import StateNumber
from tests.unit.state.support import Spec, changelog
from tests.unit.state.test_window_store import Layout


@attrs.define
class Stored:
    """A store in memory, and the keys that were read of its medium."""

    state: TaskState
    read: list[bytes] = attrs.field(factory=list)
    commits: int = 0

    @property
    def store(self) -> TimeWindowStore:
        store = self.state.stores["s"]
        assert isinstance(store, TimeWindowStore)
        return store

    def put(self, key: str, start: int, value: int) -> None:
        self.store.put(Windowed(key, start, start + 10), value, time_ms=start)

    def commit(self) -> None:
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})
        self.store.commits.check_invariants()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    spec = Spec("s", window=Layout(retention_ms=None))
    stored = Stored(TaskState(None, [spec], 1 << 30, {"s": changelog("s")}))
    backing = stored.store.commits.backing
    get, get_many = backing.get, backing.get_many

    def noted(keys: list[bytes]) -> list[bytes | None]:
        stored.read += keys
        return get_many(keys)

    monkeypatch.setattr(backing, "get", lambda key: noted([key])[0] if key else get(key))
    monkeypatch.setattr(backing, "get_many", noted)
    yield stored
    stored.state.close()


def test_a_new_key_of_a_window_that_is_in_the_cache_is_not_looked_up(stored: Stored) -> None:
    stored.put("a", 0, 1)
    stored.put("a", 10, 2)
    stored.commit()
    stored.read.clear()
    assert (stored.store.fetch("b", 10), stored.store.fetch("b", 20)) == (None, None)
    assert stored.read == []


def test_a_key_of_a_window_that_was_evicted_from_is_looked_up(stored: Stored) -> None:
    for key in "abcdef":
        stored.put(key, 0, ord(key))
        stored.put(key, 10, ord(key))
    stored.commit()
    store, whole = stored.store, stored.store.commits.cache_bytes()
    assert len(store.cache) == 12
    store.commits.evict(whole * 2 // 3)
    store.commits.check_invariants()
    left = {time: set(rows.slots) for time, rows in store.cache.windows.items()}
    assert left[10] == set("abcdef"), "rows of the window that came last went first"
    assert left.get(0, set()) < set("abcdef")
    stored.read.clear()
    assert [store.fetch(key, 0) for key in "abcdef"] == list(map(ord, "abcdef"))
    assert len(stored.read) == 6 - len(left.get(0, ()))
    assert store.fetch("g", 0) is None
    assert len(stored.read) == 7 - len(left.get(0, ())), "it may be on the medium"
    assert store.timestamp(Windowed("a", 0, 10)) == 0


def test_rows_that_were_just_written_and_those_not_yet_written_stay(stored: Stored) -> None:
    for key in "abcdef":
        stored.put(key, 0, 1)
    stored.commit()
    stored.put("b", 0, 2)
    store = stored.store
    store.commits.evict(1, recent=[(0, "c")])
    store.commits.check_invariants()
    assert list(store.cache) == [(0, "b")], "nothing but the dirty row is worth more than a limit"
    drained = stored.state.drain()
    store.commits.evict(1)
    store.commits.check_invariants()
    assert list(store.cache) == [(0, "b")], "it is on its way to the medium"
    stored.put("b", 0, 3)
    stored.state.write(drained, StateNumber(1, 9), {})
    assert store.commits.has_changes()
    assert store.fetch("b", 0) == 3


def test_a_key_of_several_windows_is_in_memory_once(stored: Stored) -> None:
    for start in (0, 10, 20):
        stored.put("".join(["a", "b"]), start, 1)
    windows = stored.store.cache.windows.values()
    assert len({id(key) for rows in windows for key in rows.slots}) == 1


def test_any_evictions_leave_what_was_put(stored: Stored) -> None:
    rng, wanted, store = random.Random(5), dict[tuple[str, int], int](), stored.store
    for step in range(2_000):
        key, start = rng.choice("abcdefghij"), 10 * rng.randrange(8)
        stored.put(key, start, step)
        wanted[key, start] = step
        if step % 50 == 0:
            stored.commit()
        if step % 70 == 0:
            store.commits.evict(rng.randrange(1 + store.commits.cache_bytes()))
            store.commits.check_invariants()
        other = rng.choice("abcdefghij"), 10 * rng.randrange(8)
        assert store.fetch(*other) == wanted.get(other)
    assert {(w.key, w.start): value for w, value in store.range()} == wanted


@pytest.mark.parametrize("counts", [True, False])
def test_the_one_record_fails_whose_window_is_too_large(counts: bool, stored: Stored) -> None:
    store, use, value = stored.store, TableUse(), serde(int)
    folding = counting() if counts else reducing(lambda old, new: old + new)
    context = None  # it counts late records, of which there are none
    operator = TimeWindowed(
        "w", context, store, tumbling(10), BoundFolding.bind(folding, value), use
    )
    store.commits.check_entries(200)
    keys = ["a", "b", "k" * 300, "c"]
    with pytest.raises(OperatorFailed) as failed:
        operator.process(Batch("in", 0, range(4), keys, [1] * 4, [1, 2, 3, 4]))
    assert failed.value.done.values == [1, 1]
    assert [key for _, key in store.dirty] == ["a", "b"]
    assert isinstance(failed.value.__cause__ or failed.value.cause, SerdeError)
