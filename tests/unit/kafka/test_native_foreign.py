"""The extension makes and reads messages of joins by foreign keys as Python does."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet.dsl.foreign_keys import wire, wire_columns

native: ModuleType = pytest.importorskip("streamlet.kafka.native._native")

quick = settings(max_examples=60)
HERE, THERE = wire.partition_bytes(3), wire.partition_bytes(70_000)
SOURCE = wire.source_of(3, 9)
NAMES = st.none() | st.sampled_from([b"", b"a", b"ann"])
DIGESTS = st.none() | st.sampled_from([bytes(16), bytes(range(16))])
KEYS = st.binary(max_size=3)
PLACES = st.sampled_from([HERE, THERE])
ASKED = st.tuples(st.integers(0, 5), DIGESTS, KEYS, PLACES)


@quick
@given(st.lists(st.tuples(KEYS, DIGESTS, NAMES, NAMES, st.none() | KEYS)), st.booleans())
def test_subscriptions_are_those_of_python(rows: list[tuple[Any, ...]], left: bool) -> None:
    columns = [[row[part] for row in rows] for part in range(5)]
    wanted = wire_columns.plain_subscriptions(*columns, HERE, left)  # type: ignore[arg-type]
    assert native.foreign_subscriptions(*columns, HERE, left) == wanted
    more = [columns[0], *([*column, b""] for column in columns[1:])]
    assert native.foreign_subscriptions(*more, HERE, left) == wanted
    digests = wire_columns.plain_digests_of(columns[1], columns[2])
    assert native.foreign_digests(columns[1], columns[2]) == digests


@quick
@given(st.lists(st.tuples(ASKED, NAMES)), st.lists(st.binary(max_size=30), max_size=1))
def test_rows_of_subscriptions_are_those_of_python(
    some: list[tuple[Any, Any]], odd: list[bytes]
) -> None:
    raws = [wire.subscription(min(one[0], 3), *one[1:]) for one, _ in some]
    names = [name or b"" for _, name in some]
    found = native.foreign_kept(raws, names)
    assert found == wire_columns.plain_kept(raws, names)  # type: ignore[arg-type]
    assert native.foreign_kept([*raws, raws[0]] if raws else [b""], [*names, None]) is None
    quick_way = native.foreign_kept([*raws, *odd], [*names, *([b"a"] * len(odd))])
    if quick_way is not None:
        assert quick_way == wire_columns.plain_kept([*raws, *odd], [*names, *([b"a"] * len(odd))])


@quick
@given(
    st.lists(st.tuples(ASKED, st.none() | st.sampled_from("abcd"), st.integers(-1, 9))),
    st.dictionaries(
        st.none() | st.sampled_from("abc"), st.tuples(st.none() | KEYS, st.integers(-1, 9))
    ),
)
def test_answers_are_those_of_python(
    asked: list[tuple[Any, ...]], rows: dict[Any, tuple[bytes | None, int]]
) -> None:
    columns = [[one[part] for one in asked] for part in range(3)]
    wanted = wire_columns.plain_answers(*columns, rows, SOURCE)
    assert native.foreign_answers(*columns, rows, SOURCE) == wanted


@quick
@given(st.lists(st.tuples(DIGESTS, st.none() | KEYS, PLACES)), st.lists(st.binary(max_size=32)))
def test_answers_are_read_as_python_reads_them(
    answers: list[tuple[Any, ...]], odd: list[bytes]
) -> None:
    source = wire.source_of(4, 1)
    raws = [wire.answer(place, source, *one) for *one, place in answers]
    usual = all(None not in one for one in answers)
    wanted = wire_columns.plain_answered(raws)
    assert native.foreign_answered(raws) == (wanted if usual else None)
    each = [native.foreign_answered([raw]) for raw in odd]
    assert all(one in (None, wire_columns.plain_answered([raw])) for one, raw in zip(each, odd))  # noqa: B905
    found = native.foreign_partitions([*raws, *odd])
    assert found == wire_columns.plain_partitions_of([*raws, *odd])


def test_columns_that_are_not_as_usual_are_left_to_python() -> None:
    one = (wire.SUBSCRIBE, bytes(16), b"k", HERE)
    asked = [[b"k"], [bytes(16)], ["name"], [None], [None]]
    assert native.foreign_subscriptions(*asked, HERE, False) is None
    assert native.foreign_subscriptions([None], *asked[1:], HERE, False) is None
    assert native.foreign_kept([bytearray(40)], [b""]) is None
    assert native.foreign_kept([], [b""]) is None
    rows: dict[str, tuple[Any, int]] = {"a": ("text", 1)}
    assert native.foreign_answers([one], ["a"], [0], rows, SOURCE) is None
    assert native.foreign_answered([None]) is None


@pytest.mark.parametrize(
    ("function", "columns"),
    [
        ("foreign_digests", ([b""], [])),
        ("foreign_digests", ([b""], ["a"])),
        ("foreign_digests", (["a"], [b""])),
        ("foreign_subscriptions", ([b"a"], [], [], [], [], b"", True)),
        ("foreign_subscriptions", ((), [], [], [], [], b"", True)),
        ("foreign_kept", ((), [])),
        ("foreign_answers", ([("a", None, b"", HERE)], ["a"], [0], {}, b"")),
        ("foreign_answers", ([(2, None, b"", HERE)], [[]], [0], {}, b"")),
        ("foreign_answers", ([(2, None, b"", HERE)], ["a"], ["0"], {"a": (b"", 1)}, b"")),
        ("foreign_answered", ((),)),
        ("foreign_partitions", ((),)),
        ("foreign_partitions", ([None],)),
    ],
)
def test_what_is_no_such_column_is_refused(function: str, columns: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)):
        getattr(native, function)(*columns)
