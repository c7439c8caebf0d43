"""Columns: gaps stay gaps, and the entry at fault is found with what was done before it."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.errors import SerdeError
from streamlet.serdes import ColumnError, Serde, json, list_of, serde, time_windowed
from streamlet.serdes.serde import alike


@dataclass
class Defaults:
    """A class whose decoding may run a user's code."""

    amount: int = 0


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_null_and_empty_stay_apart(values: list[str | None]) -> None:
    raw = serde(str).encode_column(list(values))
    assert raw == [None if value is None else value.encode() for value in values]
    assert serde(str).decode_column(raw) == values


def test_an_empty_column_is_an_empty_column() -> None:
    for kind in (str, int, bytes, dict, (str.encode, bytes.decode)):
        assert serde(kind).decode_column([]) == []
        assert serde(kind).encode_column([]) == []


@given(st.lists(st.none() | st.integers(0, 5)), st.lists(st.none() | st.integers(0, 5)))
def test_the_failing_entry_is_named_with_the_results_before_it(
    before: list[int | None], after: list[int | None]
) -> None:
    good = serde(int).encode_column(list(before))
    behind = serde(int).encode_column(list(after))
    with pytest.raises(ColumnError) as caught:
        serde(int).decode_column([*good, b"bad", *behind])
    assert caught.value.index == len(before)
    assert caught.value.done == before
    assert "b'bad'" in str(caught.value.cause)
    with pytest.raises(ColumnError) as caught:
        serde(int).encode_column([*before, "bad", *after])  # type: ignore[list-item]
    assert caught.value.index == len(before)
    assert caught.value.done == good


def test_a_column_can_be_continued_behind_a_failure() -> None:
    column: list[bytes | None] = [b"a", b"\xff", None, b"b", b"\xfe", b"c"]
    done: list[Any] = []
    while len(done) < len(column):
        try:
            done += serde(str).decode_column(column[len(done) :])
        except ColumnError as error:
            done += [*error.done, "?"]
    assert done == ["a", "?", None, "b", "?", "c"]


@pytest.mark.parametrize(
    ("of", "shortest"),
    [
        (str, b""),
        (bytes, b""),
        (int, bytes(8)),
        (float, bytes(8)),
        (bool, b"\0"),
        (dict, b"{}"),
        (list, b"[]"),
        (json(), b"0"),
        (dict[str, int], b"{}"),
        (set[str], b"[]"),
        (tuple[int, ...], b"[]"),
        (Annotated[list[int], msgspec.Meta(min_length=1)], None),
        (tuple[int, int], None),
        (Defaults, None),
        ((str.encode, bytes.decode), None),
    ],
)
def test_the_shortest_bytes_of_a_serde_are_those_that_it_decodes(
    of: Any, shortest: bytes | None
) -> None:
    found = serde(of)
    assert found.shortest == shortest
    if shortest is not None:
        assert found.decode(shortest) is not None
        assert found.decode_column([shortest]) == [found.decode(shortest)]


class Touchy:
    """Refuses to be compared or asked for its truth, as an array does."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __bool__(self) -> bool:
        raise AssertionError("asked for its truth")


def test_encoding_never_compares_values_nor_asks_for_their_truth() -> None:
    pair = serde((lambda _: b"touchy", lambda _: Touchy()))
    assert pair.encode_column([Touchy(), None, Touchy()]) == [b"touchy", None, b"touchy"]
    assert len(pair.decode_column([b"x", None])) == 2


def stops(raw: bytes) -> str:
    if raw == b"stop":
        raise StopIteration
    return raw.decode()


@pytest.mark.parametrize("gap", [[], [None]])
def test_a_stop_iteration_in_a_users_function_is_a_failure_not_an_end(gap: list[None]) -> None:
    for one in (serde((str.encode, stops)), Serde("bare", str.encode, stops)):
        with pytest.raises(ColumnError) as caught:
            one.decode_column([*gap, b"a", b"stop", b"b"])
        assert caught.value.index == len(gap) + 1
        assert caught.value.done == [*gap, "a"]
        assert isinstance(caught.value.cause, SerdeError)


def test_the_users_own_error_is_chained() -> None:
    def fails(raw: bytes) -> str:
        raise LookupError(raw)

    for one in (serde((str.encode, fails)), Serde("bare", str.encode, fails)):
        with pytest.raises(ColumnError, match="LookupError") as caught:
            one.decode_column([b"a"])
        assert isinstance(caught.value.cause.__cause__, LookupError)


def test_a_users_encoder_must_return_bytes() -> None:
    def same(value: Any) -> Any:
        return value

    ready: Serde[Any] = Serde("ready", same, bytes.decode)
    for pair in (serde((same, bytes.decode)), serde(ready)):
        assert pair.encode_column([b"fine"]) == [b"fine"]
        for wrong in ("text", bytearray(b"x"), 5):
            with pytest.raises(ColumnError, match=r"encode returned .*, not bytes") as caught:
                pair.encode_column([b"fine", wrong])
            assert caught.value.index == 1
            with pytest.raises(SerdeError, match="not bytes"):
                pair.encode(wrong)


def test_a_value_that_cannot_be_printed_still_gets_its_error() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise ValueError("no")

    with pytest.raises(SerdeError, match="got Mute <repr failed: ValueError>"):
        serde(str).encode(Mute())  # type: ignore[arg-type]


def test_serdes_are_told_apart_by_what_they_write_and_not_by_names() -> None:
    def order(module: str) -> type:
        return make_dataclass("Order", [("item", str)], namespace={"__module__": module})

    one, other = order("shop"), order("old_shop")
    pair = (str.encode, bytes.decode)
    for of in (str, dict, one, list[one], pair, time_windowed(str, 5), list_of(int)):  # type: ignore[valid-type]
        assert alike(serde(of), serde(of))
    assert alike(serde(one), Serde("json(Order)", str.encode, bytes.decode)) is False
    assert not alike(serde(one), serde(other))
    assert not alike(serde(str), Serde("str", str.encode, bytes.decode))
    assert not alike(serde((lambda v: b"", bytes.decode)), serde((lambda v: b"1", bytes.decode)))
    by_hand = [Serde("mine", function, bytes.decode) for function in (str.encode, repr)]
    assert not alike(*by_hand)  # type: ignore[arg-type]
