"""The traps of a cache of Python objects, and its bound."""

from pathlib import Path
from typing import Any

import pytest

from streamlet.errors import SerdeError, StateError
from streamlet.serdes import Serde, serde
from streamlet.state.backing import end_of_prefix
from streamlet.state.memory import MemoryBacking, MemoryEngine
from streamlet.state.sizes import deep_size
from streamlet.state.store import CachedStore
from streamlet.state.task_state import TaskState
from streamlet.types import NO_STATE, StateNumber
from tests.unit.state.support import Spec


def store_of(key: Any, value: Any = int) -> CachedStore:
    backing = MemoryEngine(["s"]).backing("s")
    return CachedStore("s", serde(key), serde(value), backing)


@pytest.mark.parametrize("key", [True, 1.0])
def test_an_int_store_refuses_what_only_equals_an_int(key: Any) -> None:
    store = store_of(int)
    store.put(1, 10)
    for call in (lambda: store.get(key), lambda: store.put(key, 5), lambda: store.prefix(key)):
        with pytest.raises(SerdeError, match="expected int"):
            call()
    assert list(store.range()) == [(1, 10)]


def test_records_of_somebody_else_are_taken_as_far_as_they_can_be_read() -> None:
    """A restore must end with what a table had that left the same records out."""
    five = (5).to_bytes(8)
    keys, values = [b"a", b"\xff", b"a", b"b"], [five, five, b"bad", None]
    times = [6, 7, 8, 9]
    assert store_of(str).commits.taken(keys, values, times, None) == (
        [b"a", b"b"],
        [(7).to_bytes(8) + five, None],
    )
    assert store_of(str).commits.taken([b"a"], [five], [-1], None) == ([], []), "it had no time"


def test_keys_of_somebody_else_are_taken_as_they_are_written_here() -> None:
    keys, values = [b'{"a": 1}', b'{ "a":1 }', b"no JSON"], [None, None, None]
    assert store_of(dict).commits.taken(keys, list(values), [0, 0, 0], None) == (
        [b'{"a":1}'] * 2,
        [None, None],
    )


def test_equal_keys_with_different_bytes_stay_apart() -> None:
    """1, 1.0 and True are one key of a dict; as JSON they are three record keys."""
    store = store_of(list)
    for value, key in enumerate(([1], [1.0], [True])):
        store.put(key, value)
    assert [store.get(key) for key in ([1], [1.0], [True])] == [0, 1, 2]
    assert store.exact_keys is False
    assert store.ckeys([[1], [True]]) == [b"[1]", b"[true]"]


def test_a_subclass_of_an_exact_type_stands_for_the_record_key_it_is_encoded_as() -> None:
    """A user's encoder may take what compares differently; the bytes decide."""

    class Loud(str):
        def __eq__(self, other: object) -> bool:
            return False

        __hash__ = str.__hash__

    text = serde(str)
    any_text: Serde[Any] = Serde("text", lambda s: str(s).encode(), text.decode, exact=str)
    store = CachedStore("s", any_text, serde(int), MemoryBacking())
    store.put(Loud("a"), 1)
    assert store.get("a") == 1
    assert list(store.cache) == ["a"]


def test_a_null_key_is_refused() -> None:
    for store in (store_of(str), store_of(dict)):
        with pytest.raises(StateError, match="cannot be None"):
            store.get(None)
    with pytest.raises(StateError, match="cannot be None"):
        store_of(dict).ckeys([{}, None])


def test_a_deleted_key_stays_deleted_while_the_medium_still_has_it(tmp_path: Path) -> None:
    state = TaskState(tmp_path, [Spec("s")], 1 << 20)
    store = state.stores["s"]
    store.put("a", 1)
    state.write(state.drain(), StateNumber(1, 1), {})
    store.put("a", None)
    assert store.load("a") is None
    drained = state.drain()
    assert store.load("a") is None, "pinned"
    assert list(store.range()) == []
    store.put("a", 2)
    assert list(store.range()) == [("a", 2)]
    state.write(drained, StateNumber(1, 2), {})
    assert store.get("a") == 2
    state.close()


def test_scans_tolerate_writes_meanwhile() -> None:
    state = TaskState(None, [Spec("s")], 1 << 20)
    store = state.stores["s"]
    for i, key in enumerate("abcdef"):
        store.put(key, i)
        if key == "c":
            state.write(state.drain(), StateNumber(1, 1), {})
    seen = []
    for key, value in store.range():
        seen.append((key, value))
        store.put("b", None)
        store.put("d", 30)
        store.put("e", None)
        store.put("aa", 9)
    assert seen == [("a", 0), ("c", 2), ("d", 30), ("f", 5)]
    assert list(store.prefix("a")) == [("a", 0), ("aa", 9)]


def test_a_prefix_of_the_highest_bytes() -> None:
    store = store_of(bytes)
    for key in (b"a", b"\xff", b"\xff\xff"):
        store.put(key, 1)
    assert list(store.prefix(b"\xff")) == [(b"\xff", 1), (b"\xff\xff", 1)]
    assert [end_of_prefix(p) for p in (b"", b"a\xff", b"\xff")] == [None, b"b", None]


def test_a_value_that_cannot_be_encoded_names_store_and_key_and_nothing_is_lost() -> None:
    state = TaskState(None, [Spec("s"), Spec("a")], 1 << 20)
    state.stores["a"].put("x", 1)
    state.stores["s"].put("good", 1)
    state.stores["s"].put("bad", "text")
    with pytest.raises(SerdeError, match=r"store s, key 'bad'.*expected int"):
        state.drain()
    assert state.stores["a"].dirty == {"x": -1}
    state.stores["s"].put("bad", 2)
    columns = state.drain().columns
    assert sorted(columns["s"].keys + columns["a"].keys) == [b"bad", b"good", b"x"]


def test_stored_bytes_that_are_not_the_values_name_the_store() -> None:
    backing = MemoryBacking()
    backing.update([b"a"], [b"123"])
    store = CachedStore("s", serde(str), serde(int), backing)
    with pytest.raises(StateError, match="store s: int: cannot decode"):
        store.get("a")
    with pytest.raises(StateError, match="store s: int: cannot decode"):
        list(store.range())


def test_the_cache_is_bounded_by_dropping_what_was_written_longest_ago(tmp_path: Path) -> None:
    bound = 150_000
    state = TaskState(tmp_path, [Spec("s"), Spec("t")], bound)
    store = state.stores["s"]
    for number in range(1, 6):
        store.put("kept", number)
        for i in range(400):
            store.put(f"{number}-{i}", i)
        drained = state.drain()
        assert len(store.cache) >= 401, "pinned entries stay"
        state.write(drained, StateNumber(1, number), {})
        assert sum(s.commits.cache_bytes() for s in state.stores.values()) <= bound
        assert "kept" in store.cache
    assert "5-399" in store.cache
    assert "1-0" not in store.cache
    assert store.get("1-0") == 0
    store.load_many([f"{n}-{i}" for n in range(1, 6) for i in range(400)])
    assert store.commits.cache_bytes() > bound
    state.trim()
    assert store.commits.cache_bytes() <= bound
    state.close()


def test_dirty_entries_are_never_dropped_and_their_size_is_told() -> None:
    state = TaskState(None, [Spec("s", str, dict)], 1)
    store = state.stores["s"]
    assert state.dirty_bytes() == 0
    for i in range(100):
        store.put(f"{i}", {"text": "x" * 1000})
    state.trim()
    assert len(store.cache) == 100
    assert 100_000 < state.dirty_bytes() < 300_000
    assert state.has_dirty()
    state.write(state.drain(), StateNumber(1, 1), {})
    assert store.cache == {}
    assert not state.has_dirty()


def test_growing_values_are_measured_again_at_each_commit() -> None:
    state = TaskState(None, [Spec("s", str, list)], 1 << 30)
    store = state.stores["s"]
    store.put("a", [])
    small = store.commits.cache_bytes()
    state.write(state.drain(), StateNumber(1, 1), {})
    store.put("a", ["x" * 100] * 1000)
    state.write(state.drain(), StateNumber(1, 2), {})
    assert store.commits.cache_bytes() > small + 100_000


class Slotted:
    __slots__ = ("a",)

    def __init__(self) -> None:
        self.a = "x" * 1000


class Plain:
    def __init__(self) -> None:
        self.a = ["x" * 1000] * 64


def test_sizes_look_into_what_a_value_holds() -> None:
    assert deep_size("x" * 1000) > 1000
    assert deep_size({"k": ["x" * 1000]}) > 1000
    assert deep_size(("x" * 1000,)) > 1000
    assert deep_size(Slotted()) > 1000
    assert deep_size(Plain()) > 64_000
    assert deep_size([[[[[[["x" * 10_000]]]]]]]) < 10_000, "only to some depth"


def test_the_state_of_a_new_task_is_none() -> None:
    state = TaskState(None, [Spec("s")], 1 << 20)
    assert (state.state, state.positions) == (NO_STATE, {})


def test_a_store_counts_what_commits_write_and_what_is_read_from_the_medium(
    tmp_path: Path,
) -> None:
    state = TaskState(tmp_path, [Spec("s"), Spec("m", persistent=False)], 1 << 20)
    for name in ("s", "m"):
        for value in (1, 2):
            state.stores[name].put("a", value)
        state.stores[name].get("b")
    state.write(state.drain(), StateNumber(1, 1), {})
    on_disk, in_memory = (state.stores[name].commits.figures() for name in ("s", "m"))
    assert (on_disk.written, on_disk.read) == (in_memory.written, in_memory.read) == (1, 1)
    assert on_disk.cached_bytes > 0
    assert on_disk.medium["estimate-num-keys"] == 1
    assert on_disk.medium["size-all-mem-tables"] > 0
    assert on_disk.medium["is-write-stopped"] == 0
    assert in_memory.medium == {}
    state.close()


def test_memory_keeps_its_keys_in_order_through_deletion() -> None:
    backing = MemoryBacking()
    keys = [b"%03d" % i for i in range(100)]
    backing.update(keys, keys)
    assert [k for k, _ in backing.scan(b"010", b"012")] == [b"010", b"011"]
    backing.update(keys[:80], [None] * 80)
    backing.update([b"005"], [b"again"])
    assert [k for k, _ in backing.scan(None, b"081")] == [b"005", b"080"]
    backing.update([b"005"], [None])
    assert [k for k, _ in backing.scan(None, None)] == keys[80:]


def test_clean_entries_make_room_for_written_ones_before_their_commit(tmp_path: Path) -> None:
    bound = 150_000
    state = TaskState(tmp_path, [Spec("s")], bound)
    store = state.stores["s"]
    for i in range(400):
        store.put(f"old-{i}", i)
    state.write(state.drain(), StateNumber(1, 1), {})
    store.put("old-0", -1)
    most = 0
    for i in range(2_000):
        store.put(f"new-{i}", i)
        state.trim()
        clean = store.commits.cache_bytes() - store.commits.dirty_bytes()
        assert store.commits.cache_bytes() <= bound or clean <= bound // 10
        most = max(most, clean)
    assert most > bound // 10, "entries that fit stay"
    assert store.cache["old-0"] == -1
    assert [store.get(f"old-{i}") for i in range(1, 400)] == list(range(1, 400))
    state.close()
