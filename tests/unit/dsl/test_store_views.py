"""The stores of keys and values that processors keep, against what a dict would have."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.dsl.graph.builder import Builder
from streamlet.errors import SerdeError
from streamlet.state.task_state import TaskState
from streamlet.state.version_rows import VersionedRecord
from streamlet.types import StateNumber
from tests.shares import share_of


class Kept:
    """A store of one task, over a cache that holds next to nothing."""

    def __init__(self, built: sl.StoreBuilder[Any], folder: Path | None = None) -> None:
        self.state = TaskState(folder, [built.added(Builder("a"))], 1)
        task: Any = SimpleNamespace(store=self.state.stores.__getitem__)
        self.view: Any = built.view(task, lambda: 0)
        self.commits = 0

    def commit(self) -> None:
        self.commits += 1
        self.state.write(self.state.drain(), StateNumber(1, self.commits), {})


#: Keys whose order by bytes is not that of their lengths.
KEYS = st.sampled_from(["", "a", "aa", "ab", "b", "é"])
COMMIT = st.just(None)


def by_bytes(entry: tuple[str, Any]) -> bytes:
    return entry[0].encode()


@pytest.mark.parametrize("on_disk", [False, True])
def test_entries_come_in_order_and_backwards(on_disk: bool) -> None:
    @settings(max_examples=share_of(8 if on_disk else 40), deadline=None)
    @given(st.lists(COMMIT | st.tuples(KEYS, KEYS, st.integers(0, 3)), max_size=25))
    def holds(steps: list[Any]) -> None:
        with TemporaryDirectory() as folder:
            check_entries(steps, Path(folder) if on_disk else None)

    holds()


def check_entries(steps: list[Any], folder: Path | None) -> None:
    kept = Kept(sl.timestamped_store("s", key=str, value=int), folder)
    view, model = kept.view, dict[str, tuple[int, int]]()
    for step in steps:
        if step is None:
            kept.commit()
            continue
        key, other, value = step
        assert view.put_if_absent(key, 9, 5) == model.get(key)
        model.setdefault(key, (9, 5))
        given_ = (value, 7) if value else None
        view.put_all([(other, None if given_ is None else sl.ValueAndTimestamp(*given_))])
        model.pop(other, None)
        if given_ is not None:
            model[other] = given_
        every = sorted(model.items(), key=by_bytes)
        assert list(view.all()) == every
        assert list(view.reverse_all()) == every[::-1]
        low, high = sorted((key, other), key=str.encode)
        some = [e for e in every if low.encode() <= e[0].encode() <= high.encode()]
        assert list(view.range(low, high)) == some
        assert list(view.reverse_range(low, high)) == some[::-1]
        assert list(view.range(high, low)) == (some if low == high else [])
        assert list(view.reverse_range(high, low)) == (some if low == high else [])
        assert view.approximate_num_entries() == len(model)
        starting = [e for e in every if e[0].startswith("a")]
        assert list(view.prefix_scan("a")) == starting
        assert list(view.prefix_scan(b"a", bytes)) == starting
        assert list(view.prefix_scan("a", reverse=True)) == starting[::-1]
        accent = [e for e in every if e[0] == "é"]
        assert list(view.prefix_scan("é".encode()[:1], bytes)) == accent
    kept.state.close()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda view: view.put("a", "x"), "store s, the value: int: expected int, got str 'x'"),
        (lambda view: view.put(1, 1), "store s: str: expected str, got int 1"),
        (lambda view: view.get(1), "store s: str: expected str, got int 1"),
    ],
)
def test_what_a_store_refuses_is_said_with_its_name(use: Any, said: str) -> None:
    view = Kept(sl.key_value_store("s", key=str, value=int)).view
    with pytest.raises(SerdeError, match=f"^{re.escape(said)}"):
        use(view)


@pytest.mark.parametrize("times", [("now",), (0, "now"), (0.5,)])
def test_times_of_versions_are_whole_numbers(times: tuple[Any, ...]) -> None:
    view = Kept(sl.versioned_store("s", key=str, value=int, history="1h")).view
    view.put("a", 1, 5)
    with pytest.raises(TypeError, match="expected for store s a time in ms since the epoch as an"):
        view.get("a", *times)
    assert view.get("a", 5).value == 1
    assert [one.value for one in view.get("a", None, None)] == [1]
    assert view.get("a", -1) is None
    assert view.get("a", (1 << 63) - 1).value == 1


def test_a_store_of_values_has_the_same_words() -> None:
    kept = Kept(sl.key_value_store("s", key=str, value=int))
    assert kept.view.put_if_absent("b", 1) is None
    kept.view.put_all([("a", 2), ("c", 3), ("b", 4)])
    assert kept.view.put_if_absent("b", 1) == 4
    assert list(kept.view.reverse_all()) == [("c", 3), ("b", 4), ("a", 2)]
    assert list(kept.view.prefix_scan(b"c", bytes)) == [("c", 3)]
    assert kept.view.delete("c") == 3
    assert kept.view.approximate_num_entries() == 2


HISTORY = 30
TIMES = st.integers(0, 80)


@settings(max_examples=share_of(60), deadline=None)
@given(st.lists(COMMIT | st.tuples(KEYS, TIMES, TIMES, st.integers(0, 3)), max_size=40))
def test_versions_of_a_span_of_time_are_those_valid_in_it(steps: list[Any]) -> None:
    kept = Kept(sl.versioned_store("v", key=str, value=int, history=HISTORY))
    model: dict[str, dict[int, int | None]] = {}
    observed = -1
    for step in steps:
        if step is None:
            kept.commit()
            continue
        key, time, other, value = step
        told = kept.view.put(key, value or None, time)
        if observed != -1 and time < observed - HISTORY:
            assert told == sl.VersionedKeyValueStore.NOT_PUT
            continue
        observed = max(observed, time)
        versions = model.setdefault(key, {})
        versions[time] = value or None
        later = [began for began in versions if began > time]
        assert told == min(later, default=sl.VersionedKeyValueStore.VALID_TO_UNDEFINED)
        low, high = sorted((time, other))
        assert list(kept.view.get(key, low, high)) == valid(versions, low, high, observed)
        assert list(kept.view.get(key, None, None)) == valid(versions, 0, 1 << 60, observed)
        assert [one.value for one in kept.view.get(key, low, low)] == [
            one.value for one in [kept.view.get(key, low)] if one is not None
        ]


def valid(
    versions: dict[int, int | None], low: int, high: int, observed: int
) -> list[VersionedRecord]:
    """The versions that a store shows of a span of time."""
    low, found, begins = max(low, observed - HISTORY), [], sorted(versions)
    for began, behind in zip(begins, [*begins[1:], None], strict=True):
        value = versions[began]
        inside = behind is None or (low < behind and low <= high)
        if value is not None and began <= high and inside:
            found.append(VersionedRecord(value, began, behind))
    return found
