"""A store that refuses what its changelog would not take, and keeps what it had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.folds.stream_folds import Aggregate, Reduce
from streamlet.dsl.graph.uses import TableUse
from streamlet.errors import SerdeError, UnwritableEntryError
from streamlet.serdes import serde
from streamlet.state.bucket_store import BucketStore, bucket_rows
from streamlet.state.checked import CheckedCache
from streamlet.state.memory import MemoryEngine
from streamlet.state.rows import untimed
from streamlet.state.store import CachedStore
from streamlet.state.store_specs import WindowSpec
from streamlet.state.task_state import TaskState
from streamlet.types import TopicPartition
from tests.unit.state.support import Spec

#: With what a record takes beside its key and value.
MOST = 128 + 8 + 10


def store_of(key: Any = str, value: Any = str) -> CachedStore:
    return CachedStore("s", serde(key), serde(value), MemoryEngine(["s"]).backing("s"))


def test_what_is_too_large_is_refused_when_it_is_put() -> None:
    store = store_of()
    store.put("a", "x" * 100)
    store.commits.check_entries(MOST)
    store.put("k", "x" * 9)
    with pytest.raises(SerdeError, match=r"store s: 19 bytes .* producer\.message\.max\.bytes"):
        store.put("k", "x" * 10)
    assert store.get("k") == "x" * 9
    store.put("k", None)
    assert store.get("k") is None
    assert store.get("a") == "x" * 100, "it was taken before"


def test_what_is_stored_already_can_be_read_however_large() -> None:
    engine = MemoryEngine(["s"])
    backing = engine.backing("s")
    backing.update([b"a", b"b"], untimed([b"x" * 100, b"y" * 100]))
    store = CachedStore("s", serde(str), serde(str), backing)
    store.commits.check_entries(MOST)
    assert store.get("a") == "x" * 100
    store.load_many(["b"])
    assert store.cache["b"] == "y" * 100


def operators() -> list[Callable[[CachedStore], Any]]:
    text, use = serde(str), TableUse()
    return [
        lambda store: Aggregate(store, str, lambda k, v, old: old + v, text, use),
        lambda store: Reduce(store, lambda old, v: old + v, text, use),
    ]


@pytest.mark.parametrize("make", operators())
def test_the_one_record_fails_that_makes_it_too_large(make: Callable[[CachedStore], Any]) -> None:
    """What was before it is done, and its own update is not in the store."""
    store = store_of()
    store.commits.check_entries(MOST)
    operator = make(store)
    values = ["12345", "678", "too much", "9"]
    batch = Batch("in", 0, range(4), ["k"] * 4, values, [0] * 4)
    with pytest.raises(OperatorFailed) as failed:
        operator.process(batch)
    assert failed.value.done.values == ["12345", "12345678"]
    assert (store.get("k"), list(store.dirty)) == ("12345678", ["k"])
    assert isinstance(failed.value.__cause__ or failed.value.cause, SerdeError)


def test_a_commit_that_cannot_be_written_names_store_and_key() -> None:
    store = store_of(str, str)
    store.put("k", "\ud83d")
    with pytest.raises(UnwritableEntryError, match=r"^store s, key 'k': str: cannot encode"):
        store.commits.drain()
    keys = store_of(str, str)
    keys.put("\ud83d", "value")
    with pytest.raises(UnwritableEntryError, match=r"^store s, key '\\ud83d': str: cannot encode"):
        keys.commits.drain()
    assert list(keys.dirty) == ["\ud83d"], "nothing has changed"


@pytest.mark.parametrize(
    "value", [{"n": {1}}, {"n": [{"m": b""}]}, {"n": {1: 2}}, {"n": ({"m": frozenset()},)}]
)
def test_what_json_would_change_is_found_behind_other_rows(value: Any) -> None:
    for rows in (
        [("a", {"n": {"m": [1]}}), ("k", value)],
        [("a", {"n": 1}), ("b", {}), ("k", value)],
    ):
        store = store_of(str, dict)
        for key, row in rows:
            store.put(key, row)
        with pytest.raises(UnwritableEntryError, match=r"^store s, key 'k': dict: cannot encode"):
            store.commits.drain()
        store.put("k", {"n": [1, (2, {"m": None})]})
        assert len(store.commits.drain().values) == len(rows)


@pytest.mark.parametrize("value", ["value", None])
def test_a_key_without_bytes_is_refused_when_it_is_put_or_deleted(value: str | None) -> None:
    store = store_of(str, str)
    store.commits.check_entries(None)
    with pytest.raises(UnwritableEntryError, match=r"^store s, key '\\ud83d': str: cannot encode"):
        store.put("\ud83d", value)
    assert not store.commits.has_changes()


def test_the_rows_of_one_record_are_put_all_or_none() -> None:
    """A session takes the place of two in other rows; its value has no bytes."""
    layout = WindowSpec(serde(str), "", None, None, 0, bucket_ms=10)
    backing = MemoryEngine(["s"]).backing("s")
    store = BucketStore("s", layout, bucket_rows(serde(str)), backing)
    store.commits.check_entries(None)
    (ckey,) = store.ckeys(["k"])
    old = [(5, 5, "one"), (15, 15, "two")]
    for item in old:
        store.replace(ckey, [], [item], item[0])
    with pytest.raises(UnwritableEntryError):
        store.replace(ckey, old, [(25, 5, "\ud83d")], 25)
    assert store.items(ckey, 0, 30) == old


def test_a_store_over_a_topic_of_somebody_else_is_not_bounded() -> None:
    own, theirs = TopicPartition("s-changelog", 0), TopicPartition("prices", 0)
    specs = [Spec("s"), Spec("t", source_topic="prices")]
    state = TaskState(None, specs, 1_000, {"s": own, "t": theirs})
    state.check_entries(MOST, {})
    caches = {name: s.cache for name, s in state.stores.items()}
    limits = {n: c.check._most for n, c in caches.items() if isinstance(c, CheckedCache)}
    assert limits == {"s": MOST - 128, "t": None}


def test_a_topic_that_takes_less_than_the_producer_says_how_much() -> None:
    partitions = {name: TopicPartition(f"{name}-changelog", 0) for name in ("s", "t")}
    state = TaskState(None, [Spec("s"), Spec("t")], 1_000, partitions)
    state.check_entries(10 * MOST, {"s-changelog": MOST, "t-changelog": 20 * MOST})
    for name, most in (("s", MOST), ("t", 10 * MOST)):
        cache = state.stores[name].cache
        assert isinstance(cache, CheckedCache)
        assert cache.check._most == most - 128
