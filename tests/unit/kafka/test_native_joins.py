"""The extension gives joins what Python gives them."""

from __future__ import annotations

from hashlib import blake2b
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet import columnwise
from streamlet.batch import Batch
from streamlet.processing import merged_batch
from streamlet.serdes import serde
from streamlet.state import join_rows

native: ModuleType = pytest.importorskip("streamlet.kafka.native._native")


class Text(str):
    """A text whose class may have methods of its own."""


quick = settings(max_examples=40)
NUMBERS = st.booleans() | st.integers() | st.floats(allow_nan=False)
SCALARS = st.none() | NUMBERS | st.text(max_size=3)
VALUES = SCALARS | st.dictionaries(st.text(max_size=2), SCALARS, max_size=3)
NESTED = VALUES | st.binary(max_size=2) | st.lists(SCALARS, max_size=1).map(lambda one: {"a": one})
TIMES = st.integers(0, 40)
KEYS = st.sampled_from("abc")
MOMENTS = st.integers(-(1 << 62), 1 << 62)


@quick
@given(st.lists(VALUES), st.lists(NESTED, max_size=3))
def test_flat_dicts_are_told_and_copied(flat: list[Any], more: list[Any]) -> None:
    for column in (flat, flat + more, [*flat, {Text("a"): 1}], [*flat, {"a": Text("b")}]):
        assert native.all_flat(column) == columnwise.PLAIN["all_flat"](column)
        copies = native.flat_copies(column)
        assert copies == (column if native.all_flat(column) else None)
        pairs = zip(column, copies or (), strict=False)
        assert not any(one is copy for one, copy in pairs if type(one) is dict)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
JSON = st.recursive(
    st.none() | st.booleans() | FINITE | LONG | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("b"), inner),
    max_leaves=6,
)
DOCUMENTS = st.lists(st.none() | st.dictionaries(st.text(max_size=2), JSON, max_size=3))
NO_DOCUMENTS = [
    {"a": float("inf")},
    {"a": float("nan")},
    {"a": 1 << 63},
    {"a": [b""]},
    {"a": (1,)},
    {1: 2},
    {"a": "\ud800"},
    {"\ud800": 1},
    {"a": {1}},
    {Text("a"): 1},
    {"a": [Text("b")]},
    [1],
    "a",
    1,
]


@quick
@given(DOCUMENTS)
def test_documents_are_copied_as_their_bytes_return(column: list[Any]) -> None:
    copies, value = native.document_copies(column, dict), serde(dict).as_value
    assert value is not None
    assert repr(copies) == repr([None if one is None else value.copy(one) for one in column])
    before = repr(column)
    for one in copies:
        emptied(one)
    assert repr(column) == before


def emptied(part: Any) -> None:
    if isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            emptied(inner)
        part.clear()


@pytest.mark.parametrize("one", NO_DOCUMENTS, ids=ascii)
def test_what_may_return_as_another_document_is_not_copied(one: Any) -> None:
    assert native.document_copies([{}, one], dict) is None
    deep: Any = {}
    for _ in range(70):
        deep = {"a": deep}
    assert native.document_copies([deep], dict) is None


@quick
@given(st.lists(st.integers(-50, 50)), st.lists(st.integers(0, 3)))
def test_places_are_found_and_sorted(numbers: list[int], order: list[int]) -> None:
    assert native.order_of(numbers) == sorted(range(len(numbers)), key=numbers.__getitem__)
    assert native.order_of([0, 1 << 40]) is None
    found = native.merge_places(order, 4)
    assert found == [[at for at, one in enumerate(order) if one == number] for number in range(4)]
    many = [number % 4 - 1 for number in numbers]
    assert native.spread(numbers, many) == columnwise.PLAIN["spread"](numbers, many)
    wanted = [at + 7 for at in range(len(numbers))][::-1]
    assert native.entries_at(numbers, wanted, 7) == numbers[::-1]


@quick
@given(st.lists(st.tuples(st.text(max_size=1), MOMENTS, MOMENTS)))
def test_rows_and_their_times_are_put(rows: list[tuple[str, int, int]]) -> None:
    keys, times, others = ([row[part] for row in rows] for part in range(3))
    assert native.later_times(times, others) == columnwise.PLAIN["later_times"](times, others)
    wanted_times = columnwise.PLAIN["moved_times"](times, others[0] if others else 0)
    assert native.moved_times(times, others[0] if others else 0) == wanted_times
    for put in ("put_values", "put_times"):
        found, wanted = {"": -1}, {"": -1}
        getattr(native, put)(found, keys, times)
        columnwise.PLAIN[put](wanted, keys, times)
        assert list(found.items()) == list(wanted.items())
    found, wanted = dict.fromkeys(keys, 0), dict.fromkeys(keys, 0)
    olds = columnwise.PLAIN["swap_values"](wanted, keys, times)
    assert (native.swap_values(found, keys, times), found) == (olds, wanted)


@quick
@given(st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(-1, (1 << 63) - 1))))
def test_times_are_put_before_values(rows: list[tuple[bytes | None, int]]) -> None:
    values, times = [value for value, _ in rows], [time for _, time in rows]
    earlier = [time ^ -1 for time in times]
    for column, plus in ((times, 1), (times, 1 << 63), (earlier, 1 << 63)):
        wanted = columnwise.PLAIN["timed_values"](values, column, plus)
        assert native.timed_values(values, column, plus) == wanted


@quick
@given(st.lists(st.none() | st.binary(max_size=300)), st.integers(1, 64))
def test_digests_are_those_of_hashlib(column: list[bytes | None], size: int) -> None:
    assert native.blake2b_column(column, size) == columnwise.PLAIN["blake2b_column"](column, size)
    for length in (127, 128, 129, 256, 257):
        raw = bytes(length)
        assert native.blake2b_column([raw], size) == [blake2b(raw, digest_size=size).digest()]


@quick
@given(
    st.lists(st.lists(st.tuples(TIMES, KEYS), min_size=1, max_size=12), min_size=1, max_size=4),
    st.none() | st.integers(0, 30),
)
def test_records_of_several_inputs_come_in_one_order(
    inputs: list[list[tuple[int, str]]], spread_ms: int | None
) -> None:
    def taken() -> tuple[list[int], list[tuple[int, list[int], list[str]]]]:
        times = [[time for time, _ in records] for records in inputs]
        order = merged_batch.merge_order(times, spread_ms)
        parts = []
        for at, records in enumerate(inputs):
            some = records[: order.count(at)]
            keys, moments = [key for _, key in some], [time for time, _ in some]
            parts.append(Batch("in", at, range(len(some)), keys, list(keys), moments))
        found = merged_batch.merged(parts, order).batches
        return order, [(one.partition, list(one.offsets), one.keys) for one in found]

    quick_way = taken()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged_batch, "order_in_c", None)
        patch.setattr(merged_batch, "rounds_in_c", None)
        patch.setattr(merged_batch, "places_in_c", None)
        assert taken() == quick_way


@quick
@given(
    st.lists(st.tuples(KEYS, TIMES), max_size=30),
    st.lists(st.tuples(KEYS, TIMES, TIMES), max_size=10),
    st.integers(0, 20),
    st.integers(1, 9),
)
def test_rows_of_joined_streams_are_kept_found_and_written_alike(
    records: list[tuple[str, int]], asked: list[tuple[str, int, int]], shown: int, most: int
) -> None:
    results = []
    for add, find, pack in (
        (native.join_add, native.join_find, native.join_pack),
        (join_rows.plain_add, join_rows.plain_find, join_rows.plain_pack),
    ):
        cache: dict[Any, Any] = {(0, "c"): None}
        dirty: dict[Any, int] = {}
        keys, times = [key for key, _ in records], [time for _, time in records]
        ends, at = [], 0
        while at < len(records):
            at, new = add(cache, dirty, keys, times, list(range(len(keys))), shown, 10, 3, at)
            ends.append((at, new))
            at += 1

        def whole(place: tuple[int, str], rows: dict[Any, Any] = cache) -> list[tuple[int, Any]]:
            return [*rows[place], (place[0], "behind")]

        columns = [[one[part] for one in asked] for part in range(3)]
        found = find(cache, *columns, shown, 10, 3, whole, 0, most)
        rows = [row for row in cache.values() if row]
        raws = pack(rows, [b"%d" % value for row in rows for _, value in row])
        results.append((cache, list(dirty.items()), ends, found, raws))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("all_flat", (({},),)),
        ("flat_copies", ((),)),
        ("blake2b_column", ([b"", ""], 16)),
        ("blake2b_column", ([b""], 65)),
        ("merge_order", ([[]], None)),
        ("merge_order", ([], None)),
        ("merge_order", ([[1, "a"]], None)),
        ("merge_order", ([[1 << 63]], None)),
        ("merge_rounds", ([1], [["a"]])),
        ("merge_rounds", ([0, 0], [["a"]])),
        ("merge_rounds", ([-1], [["a"]])),
        ("merge_rounds", ([0], [[[]]])),
        ("merge_places", ([2], 2)),
        ("entries_at", ([1], [1], 2)),
        ("entries_at", ([1], [1], 0)),
        ("entries_at", ([1], ["a"], 0)),
        ("order_of", (["a"],)),
        ("order_of", ((1,),)),
        ("put_values", ({}, [[]], [1])),
        ("put_values", ({}, ["a"], [])),
        ("put_times", ({}, ["a"], ["b"])),
        ("swap_values", ({"a": 0}, ["a"], [])),
        ("swap_values", ({}, ["a"], [1])),
        ("spread", ([1], [])),
        ("spread", ([1], ["a"])),
        ("moved_times", (["a"], 1)),
        ("moved_times", ([1 << 62], 1 << 62)),
        ("timed_values", ([b""], [], 1)),
        ("timed_values", ([b""], [-2], 1)),
        ("timed_values", ([""], [1], 1)),
        ("timed_values", ([b""], ["a"], 1)),
        ("highest_time", ([],)),
        ("highest_time", ((1,),)),
        ("highest_time", ([1, "a"],)),
        ("highest_time", ([1 << 63],)),
        ("late_places", ([1, "a"], 0)),
        ("late_places", ((1,), 0)),
        ("late_places", ([-1 << 64], 0)),
        ("later_times", ([1], [])),
        ("later_times", ([1], ["a"])),
        ("document_copies", (({},), dict)),
        ("document_copies", ([{}], "dict")),
        ("join_add", ({}, {}, ["a"], [1], [], 0, 10, 3, 0)),
        ("join_add", ({}, {}, ["a"], ["b"], [1], 0, 10, 3, 0)),
        ("join_add", ({}, {}, ["a"], [1], [1], 0, 0, 3, 0)),
        ("join_find", ({}, ["a"], [1], [], 0, 10, 3, None, 0, 1)),
        ("join_pack", ([[(1, "a")]], [])),
        ("join_pack", ([[("a", "a")]], [b""])),
    ],
)
def test_what_is_no_such_column_is_refused(function: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError, LookupError)):
        getattr(native, function)(*arguments)
