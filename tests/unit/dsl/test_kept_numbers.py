"""A number in a store is in memory what it is on disk: results do not depend on evictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import streamlet as sl
from tests.unit.dsl.value_tasks import DocumentTask

Stream = sl.KStream[str, dict[str, Any]]


def added(_key: str, value: dict[str, Any], total: float) -> float:
    return total + value["n"]


def kept(record: Any, context: Any) -> Any:
    store = context.store("s")
    store.put(record.key, (store.get(record.key) or 0) + record.value["n"])
    return store.get(record.key)


def unwindowed(stream: Stream, windows: Any, of: Any, **more: Any) -> Any:
    folded = stream.group_by_key().windowed_by(windows)
    rows = folded.aggregate(lambda: 0, added, value=of, **more).to_stream()
    return rows.filter(lambda key, n: n is not None).select_key(lambda key, n: key.key, key=str)


#: Operators that keep numbers, which come from functions of the user.
PLACES: dict[str, Callable[[Stream, Any], Any]] = {
    "aggregate": lambda s, of: s.group_by_key().aggregate(lambda: 0, added, value=of).to_stream(),
    "tumbling": lambda s, of: unwindowed(s, sl.tumbling(100), of),
    "session": lambda s, of: unwindowed(s, sl.session(100), of, merger=lambda key, a, b: a + b),
    "sliding": lambda s, of: unwindowed(s, sl.sliding(100, grace=100), of),
    "to_table": lambda s, of: (
        s.map_values(lambda v: v["n"], value=of)
        .to_table(store="t")
        .map_values(lambda v: v, value=of, store="m")
        .to_stream()
    ),
    "processor": lambda s, of: s.process_values(
        kept, stores=[sl.key_value_store("s", key=str, value=of)], value=of
    ),
}
SINGLE = sl.serdes.float32()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("of", [SINGLE, float])
def test_numbers_are_those_of_their_bytes(place: str, of: Any, tmp_path: Path) -> None:
    def rows(folder: Path | None) -> Any:
        app = sl.App("a")
        stream = app.stream("s", key=str, value=dict)
        shown = PLACES[place](stream, of).map_values(repr, value=str)
        shown.map_values(lambda text: {"text": text}, value=dict).to("out")
        task = DocumentTask(app, folder)
        for number in (1, 2**53 + 1, 0.1, 0.2):
            task.send([("s", "a", {"n": number})])
            if folder is not None:
                task.start_again()
        found = task.outputs["out"]
        task.close()
        return found

    assert rows(None) == rows(tmp_path)


@pytest.mark.parametrize("number", [10**400, 1e300])
def test_a_number_without_bytes_is_one_for_the_policy(number: float) -> None:
    with pytest.raises(sl.StreamletError, match="float32: cannot encode"):
        SINGLE.copy(number)


@dataclass(frozen=True)
class Flat:
    n: float


class Struct(msgspec.Struct, frozen=True):
    n: float | None
    inner: Flat | None = None


class Named(NamedTuple):
    n: tuple[float, ...] = ()
    both: int | float = 0
    next: Struct | None = None


WHOLE: list[tuple[Any, Any, Any]] = [
    (Flat, Flat(1), Flat(1.0)),
    (Struct, Struct(2, Flat(3)), Struct(2.0, Flat(3.0))),
    (Struct, Struct(None, None), Struct(None, None)),
    (Named, Named((1, 0.5), 2, Struct(3)), Named((1.0, 0.5), 2, Struct(3.0))),
    (tuple[int, float], (1, 2), (1, 2.0)),
    (frozenset[float], frozenset({1}), frozenset({1.0})),
    (dict[str, float], {"a": 1}, {"a": 1.0}),
]


@pytest.mark.parametrize(("of", "value", "kept"), WHOLE)
def test_a_float_of_a_type_is_a_float_in_memory(of: Any, value: Any, kept: Any) -> None:
    app = sl.App("a")
    app.table("s", key=str, value=of, store="t").to_stream().foreach(lambda key, value: None)
    stream = app.stream("u", key=str, value=int).group_by_key()
    stream.aggregate(lambda: value, lambda key, n, so_far: value, value=of, store="f")
    with sl.testing.TopologyTestDriver(app) as driver:
        driver.pipe_input("s", "a", value)
        driver.pipe_input("u", "a", 1)
        stores = [driver.store(name) for name in ("t", "f")]
        assert [repr(store.get("a")) for store in stores] == [repr(kept)] * 2


@pytest.mark.parametrize("wrong", [True, "1", 10**400, Flat("1")])  # type: ignore[arg-type]
def test_what_is_no_number_is_one_for_the_policy(wrong: Any) -> None:
    of: Any = Flat if isinstance(wrong, Flat) else float
    app = sl.App("a", on_error="skip")
    stream = app.stream("u", key=str, value=int).group_by_key()
    stream.aggregate(lambda: of(0), lambda key, n, so_far: wrong, value=of, store="f")
    with sl.testing.TopologyTestDriver(app) as driver:
        driver.pipe_input("u", "a", 1)
        assert driver.store("f").get("a") is None
        assert driver.skipped() == 1
