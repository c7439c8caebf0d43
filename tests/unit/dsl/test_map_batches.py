"""``map_batches``: batches, columns that are returned, records that fail, what is refused."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamlet as sl
from streamlet.app import App
from streamlet.dsl.operators import record_batch
from streamlet.dsl.stream import KStream
from streamlet.errors import ProcessingError, TopologyError
from streamlet.testing import TopologyTestDriver
from streamlet.topology.edges import edges_of
from tests.unit.dsl.test_lazy_results import awaited, generating

Batch = sl.RecordBatch[str, int]
BAD = 13
VALUES = [1, 2, BAD, 4, 5, 6, BAD, 8, 9]
GOOD = [2 * value for value in VALUES if value != BAD]


def numbers(app: App) -> KStream[str, int]:
    return app.stream("in", key=str, value=int)


def outcome(app: App, values: list[Any]) -> tuple[list[Any], int]:
    """The values that come of these, piped as one batch, and the number of dead letters."""
    with TopologyTestDriver(app) as driver:
        driver.pipe_inputs("in", [("k", value) for value in values])
        found = [record.value for record in driver.read_output("out")]
        return found, driver.skipped()


class Doubling:
    """A function of batches that fails on a bad value, as it is told; it notes its calls."""

    def __init__(self, fail: Callable[[int], Exception]) -> None:
        self.fail = fail
        self.calls: list[list[int]] = []

    def __call__(self, batch: Batch) -> list[int]:
        self.calls.append(list(batch.values))
        if BAD in batch.values:
            raise self.fail(batch.values.index(BAD))
        return [2 * value for value in batch.values]


def doubling(function: Any, on_error: Any = "skip", **more: Any) -> App:
    app = App("a", on_error=on_error)
    numbers(app).map_batches(function, value=int, **{"max_records": 4, **more}).to("out")
    return app


@pytest.mark.parametrize("max_wait", [None, "1h"])
def test_a_record_that_the_function_names_fails_alone(max_wait: str | None) -> None:
    function = Doubling(lambda index: sl.FailedAt(index if max_wait else np.int64(index)))
    app = doubling(function, ("dead_letter", "dlq"), max_wait=max_wait)
    assert outcome(app, VALUES) == (GOOD, 2)
    assert all(len(call) <= 4 for call in function.calls)
    assert [1, 2] in function.calls
    assert [BAD] not in function.calls


def test_behind_any_other_error_each_record_is_taken_alone() -> None:
    function = Doubling(lambda index: ValueError(index))
    assert outcome(doubling(function), VALUES) == (GOOD, 2)
    assert function.calls[:5] == [[1, 2, BAD, 4], [1], [2], [BAD], [4]]


class Unnamed(sl.FailedAt):
    """Has no index: it does not call the constructor of the class that it is below."""

    def __init__(self, index: int) -> None:
        self.mine = index


@pytest.mark.parametrize("fail", [lambda index: sl.FailedAt(index + 100), Unnamed])
def test_records_that_it_names_wrongly_are_searched_for(fail: Any) -> None:
    assert outcome(doubling(Doubling(fail)), VALUES) == (GOOD, 2)


def test_when_the_records_before_one_that_it_named_fail_too_each_is_taken_alone() -> None:
    def last_first(batch: Batch) -> list[int]:
        bad = [index for index, value in enumerate(batch.values) if value == BAD]
        if bad:
            raise sl.FailedAt(bad[-1])
        return [2 * value for value in batch.values]

    assert outcome(doubling(last_first), [1, BAD, 2, BAD, 3]) == ([2, 4, 6], 2)


@pytest.mark.parametrize("named", [True, False])
def test_the_policy_is_told_the_error_and_may_try_again(named: bool) -> None:
    met: list[tuple[int, int, str]] = []

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        met.append((context.offset, context.attempt, str(error)))
        return sl.Retry(2, backoff=0, then="skip")

    def failing(batch: Batch) -> list[int]:
        for index, value in enumerate(batch.values):
            try:
                assert value != BAD, "no luck"
            except AssertionError as error:
                if named:
                    raise sl.FailedAt(index) from error
                raise
        return [2 * value for value in batch.values]

    app = App("a", processing_handler=handler)
    numbers(app).map_batches(failing, max_records=4).to("out")
    assert outcome(app, VALUES) == (GOOD, 2)
    assert [(offset, attempt) for offset, attempt, _ in met] == [(2, 1), (2, 2), (6, 1), (6, 2)]
    assert {text.split("\n")[0] for _, _, text in met} == {"no luck"}


def test_an_error_names_the_record_and_the_function() -> None:
    app = doubling(Doubling(sl.FailedAt), "fail")
    with pytest.raises(ProcessingError, match="named the record at 2 of its batch") as raised:
        outcome(app, VALUES)
    assert raised.value.offset == 2
    assert raised.value.operator == "KSTREAM-MAPBATCHES-0000000001"


#: What a function makes of values -> what becomes of the values 1, 2 and 3.
COLUMNS: dict[str, tuple[Callable[[Batch], Any], list[Any]]] = {
    "list": (lambda b: b.values, [1, 2, 3]),
    "numpy": (lambda b: b.to_numpy() / 2, [0.5, 1.0, 1.5]),
    "numpy, two dimensions": (lambda b: np.ones((len(b), 2)), [[1.0, 1.0]] * 3),
    "pandas": (lambda b: b.to_pandas()["value"] > 1, [False, True, True]),
    "pandas, none": (
        lambda b: b.to_pandas()["value"].astype("Int64").where(lambda v: v < 3),
        [1, 2, None],
    ),
    "pandas, other index": (lambda b: pd.Series(b.values, index=["x", "y", "z"]), [1, 2, 3]),
    "arrow": (lambda b: b.to_arrow().column("value"), [1, 2, 3]),
    "arrow, chunks": (lambda b: pa.chunked_array([[1], [None, 3]]), [1, None, 3]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_these_packages_are_values_of_python(kind: str) -> None:
    function, expected = COLUMNS[kind]
    app = App("a")
    numbers(app).map_batches(function, value=sl.json()).to("out")
    assert outcome(app, [1, 2, 3]) == (expected, 0)


class Table:
    """A class of a user's, with the name of one of Arrow's."""


#: Results that are no column of three values -> what is said.
WRONG: dict[str, tuple[Callable[[Batch], Any], str]] = {
    "none": (lambda b: None, "returned None: expected a list"),
    "text": (lambda b: "abc", "returned 'abc': expected a list"),
    "tuple": (lambda b: (1, 2, 3), "expected a list, or an array or Series"),
    "too few": (lambda b: [1], "returned 1 value for a batch of 3 records"),
    "number": (lambda b: np.float64(1), "expected a list"),
    "frame": (lambda b: b.to_pandas(), "returned a DataFrame: return one of its columns"),
    "batch": (lambda b: b, "returned a RecordBatch: return one of its columns"),
    "a user's table": (lambda b: Table(), "returned <.*Table.*>: expected a list"),
    "generator": (lambda b: generating(1), "a generator of generating: nothing goes"),
    "coroutine": (lambda b: awaited(1), "a coroutine of awaited: nothing awaits"),
    "coroutines": (lambda b: [awaited(v) for v in b.values], "a coroutine of awaited"),
    "lazy": (lambda b: map(str, b.values), "a map: nothing goes through it"),
    "order": (
        lambda b: b.to_pandas()["value"].sort_values(ascending=False),
        "a Series in another order than the records",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_such_column_fails_every_record_by_one_call(kind: str) -> None:
    function, message = WRONG[kind]
    calls, told = 0, set()

    def counted(batch: Batch) -> Any:
        nonlocal calls
        calls += 1
        return function(batch)

    def handler(context: sl.ErrorContext, record: object, error: BaseException) -> sl.Answer:
        told.add(str(error))
        return "skip"

    app = App("a", processing_handler=handler)
    numbers(app).map_batches(counted, value=int).to("out")
    assert (outcome(app, [1, 2, 3]), calls, len(told)) == (([], 3), 1, 1)
    assert re.search(message, told.pop())


@dataclass
class Reading:
    room: str
    degrees: float | None


def test_keys_of_windows_are_structs_of_arrow_and_a_value_without_fields_is_named() -> None:
    window = sl.Windowed("a", 0, 5)
    arrow = sl.RecordBatch([window], [1], [7]).to_arrow()
    assert arrow.to_pydict()["key"] == [{"key": "a", "start": 0, "end": 5}]
    with pytest.raises(sl.FailedAt, match="one is a int") as failed:
        sl.RecordBatch(["a", "b"], [{"x": 1}, 5], [7, 7]).to_pandas()
    assert failed.value.index == 1


def test_a_batch_as_arrays_and_frames() -> None:
    readings: list[Reading | None] = [Reading("a", 1.5), None, Reading("b", None)]
    batch = sl.RecordBatch(["x", "y", "z"], readings, [5, 6, 7], [[("h", b"1")], None, None])
    assert batch.headers == [(("h", b"1"),), (), ()]
    assert np.array_equal(
        batch.to_numpy("degrees", "degrees"),
        [[1.5, 1.5], [np.nan] * 2, [np.nan] * 2],
        equal_nan=True,
    )
    rows = batch.to_arrow().to_pylist()
    assert rows[0] == {"key": "x", "value": {"room": "a", "degrees": 1.5}, "timestamp": 5}
    assert rows[1]["value"] is None
    frame = batch.to_pandas()
    assert list(frame.columns) == ["key", "value.room", "value.degrees", "timestamp"]
    assert frame["value.degrees"].isna().tolist() == [False, True, True]
    with pytest.raises(TypeError, match="to_numpy\\(\\) gives numbers, and field 'room' are"):
        batch.to_numpy("room")
    with pytest.raises(sl.FailedAt) as raised:
        sl.RecordBatch(["x", "y"], [{"n": 1}, {}], [1, 2]).to_numpy("n")
    assert raised.value.index == 1


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("numpy", lambda b: b.to_numpy()),
        ("pandas", lambda b: b.to_pandas()),
        ("pyarrow", lambda b: b.to_arrow()),
    ],
)
def test_a_package_that_is_not_installed_is_named(
    package: str, call: Callable[[Batch], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importlib.import_module(name)

    monkeypatch.setattr(record_batch, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=f"needs {package}, which is not installed: pip"):
        call(sl.RecordBatch(["k"], [1], [0]))


async def later(batch: Batch) -> list[int]:
    return batch.values


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda s: s.map_batches(5), "expects a function, got 5"),
        (lambda s: s.map_batches(later), "cannot await, and later is an async function"),
        (lambda s: s.map_batches(generating), "generating is a generator function"),
        (lambda s: s.map_batches(lambda k, v: []), r"calls its function as \(batch\)"),
        (lambda s: s.map_batches(sl.with_context(list)), "has no RecordContext"),
        (lambda s: s.map_batches(list, max_records=0), "max_records 0: expected 1 to 100,000"),
        (lambda s: s.map_batches(list, max_records=True), "max_records=. expects a"),
        (lambda s: s.map_batches(list, max_wait="soon"), "max_wait 'soon'"),
    ],
)
def test_what_cannot_be_is_refused(build: Callable[[Any], object], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        build(numbers(App("a")))


def test_results_have_the_type_of_the_entries() -> None:
    def halves(batch: Batch) -> np.ndarray[Any, np.dtype[np.float64]]:
        return batch.to_numpy() / 2

    def lengths(batch: Batch) -> np.ndarray[Any, np.dtype[np.int64]]:
        return batch.to_numpy()

    def names(batch: Batch) -> list[str | None]:
        return [str(value) for value in batch.values]

    found = [numbers(App("a")).map_batches(one)._value.of for one in (halves, lengths, names)]
    assert found == [float, int, str]


def doubled(batch: Batch) -> list[int]:
    return [2 * value for value in batch.values]


@pytest.mark.parametrize(
    ("function", "max_wait", "reason"),
    [
        (doubled, None, None),
        (
            sl.non_deterministic(lambda batch: doubled(batch)),
            None,
            "whose function is non_deterministic()",
        ),
        (doubled, "1s", "whose results come when batches end"),
    ],
)
def test_a_repartition_topic_behind_it(
    function: Any, max_wait: str | None, reason: str | None
) -> None:
    app = App("a")
    twice = numbers(app).map_batches(function, value=int, max_wait=max_wait)
    twice.group_by(lambda key, number: number, key=int).count(store="counts")
    (edge,) = edges_of(app.topology())
    assert edge.reason is None if reason is None else reason in (edge.reason or "")
