"""A store that refuses what its changelog would not take, and keeps what it had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamlet.batch import Batch, OperatorFailed
from streamlet.dsl.aggregations import Aggregate, Reduce
from streamlet.dsl.uses import TableUse
from streamlet.errors import SerdeError
from streamlet.serdes import serde
from streamlet.state.bounded import BoundedCache
from streamlet.state.memory import MemoryEngine
from streamlet.state.rows import untimed
from streamlet.state.store import CachedStore
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
    store.bound(MOST)
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
    store.bound(MOST)
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
    store.bound(MOST)
    operator = make(store)
    values = ["12345", "678", "too much", "9"]
    batch = Batch("in", 0, range(4), ["k"] * 4, values, [0] * 4)
    with pytest.raises(OperatorFailed) as failed:
        operator.process(batch)
    assert failed.value.done.values == ["12345", "12345678"]
    assert (store.get("k"), list(store.dirty)) == ("12345678", ["k"])
    assert isinstance(failed.value.__cause__ or failed.value.cause, SerdeError)


def test_a_store_over_a_topic_of_somebody_else_is_not_bounded() -> None:
    own, theirs = TopicPartition("s-changelog", 0), TopicPartition("prices", 0)
    specs = [Spec("s"), Spec("t", source_topic="prices")]
    state = TaskState(None, specs, 1_000, {"s": own, "t": theirs})
    state.bound(MOST, {})
    bounded = {name: isinstance(s.cache, BoundedCache) for name, s in state.stores.items()}
    assert bounded == {"s": True, "t": False}


def test_a_topic_that_takes_less_than_the_producer_says_how_much() -> None:
    partitions = {name: TopicPartition(f"{name}-changelog", 0) for name in ("s", "t")}
    state = TaskState(None, [Spec("s"), Spec("t")], 1_000, partitions)
    state.bound(10 * MOST, {"s-changelog": MOST, "t-changelog": 20 * MOST})
    for name, most in (("s", MOST), ("t", 10 * MOST)):
        cache = state.stores[name].cache
        assert isinstance(cache, BoundedCache)
        assert cache._most == BoundedCache({}, "", lambda k, v: 0, most)._most
