"""Numbers and lists as Kafka's Java serdes write them: bytes of kafka-clients 4.1.1."""

from __future__ import annotations

import math
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlet as sl
from streamlet.errors import SerdeError
from streamlet.serdes import Serde, float32, int16, int32, list_of, serde
from streamlet.testing import TopologyTestDriver

ID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
HEX_ID = str(ID).encode().hex()

NUMBERS: list[tuple[Serde[Any], Any, str]] = [
    (int32(), 0, "00000000"),
    (int32(), 1, "00000001"),
    (int32(), -2, "fffffffe"),
    (int32(), 2**31 - 1, "7fffffff"),
    (int32(), -(2**31), "80000000"),
    (int16(), 1, "0001"),
    (int16(), -2, "fffe"),
    (int16(), 2**15 - 1, "7fff"),
    (int16(), -(2**15), "8000"),
    (float32(), 1.0, "3f800000"),
    (float32(), -2.5, "c0200000"),
    (float32(), math.inf, "7f800000"),
    (float32(), 2.0**-149, "00000001"),
]

#: What ``new ListSerializer<>(inner)`` writes.
LISTS: list[tuple[Serde[Any], list[Any], str]] = [
    (list_of(int32()), [1, None, -2], "00 00000001 00000001 00000003 00000001 fffffffe"),
    (list_of(int32()), [], "00 00000000 00000000"),
    (list_of(int), [7, None], "00 00000001 00000001 00000002 0000000000000007"),
    (list_of(int16()), [None, 7], "00 00000001 00000000 00000002 0007"),
    (list_of(float32()), [1.5, None], "00 00000001 00000001 00000002 3fc00000"),
    (list_of(float), [1.5, None], "00 00000001 00000001 00000002 3ff8000000000000"),
    (list_of(uuid.UUID), [ID, None], f"00 00000001 00000001 00000002 {HEX_ID}"),
    (
        list_of(str),
        ["a", None, "", "bc"],
        "01 00000004 00000001 61 ffffffff 00000000 00000002 6263",
    ),
    (list_of(bool), [True, None, False], "01 00000003 00000001 01 ffffffff 00000001 00"),
    (list_of(bytes), [b"\x00\xff"], "01 00000001 00000002 00ff"),
    (
        list_of(list_of(int32())),
        [[5], None],
        "01 00000002 0000000d 00 00000000 00000001 00000005 ffffffff",
    ),
]


@pytest.mark.parametrize(("of", "value", "raw"), NUMBERS + LISTS)
def test_values_have_the_bytes_of_java(of: Serde[Any], value: Any, raw: str) -> None:
    written = bytes.fromhex(raw)
    assert of.encode(value) == written
    assert of.decode(written) == value
    assert of.encode_column([value, None, value]) == [written, None, written]
    assert of.decode_column([written, None, written]) == [value, None, value]


def test_a_float_is_rounded_as_java_casts_a_double() -> None:
    assert float32().encode(0.1).hex() == "3dcccccd"
    assert float32().decode(float32().encode(0.1)) == 0.10000000149011612
    assert float32().encode(math.nan).hex() == "7fc00000"
    assert repr(float32().decode(float32().encode(3))) == "3.0"


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (int32(), 2**31),
        (int32(), -(2**31) - 1),
        (int16(), 2**15),
        (int16(), -(2**15) - 1),
        (float32(), 1e39),
        (list_of(int32()), [1, 2**31]),
        (list_of(str), ["a", 1]),
    ],
)
def test_what_does_not_fit_is_refused_one_by_one_and_in_a_column(
    of: Serde[Any], value: Any
) -> None:
    with pytest.raises(SerdeError, match=rf"^{of.name}: cannot encode"):
        of.encode(value)
    with pytest.raises(SerdeError, match=rf"^entry 1: {of.name}: cannot encode"):
        of.encode_column([None, value])


@pytest.mark.parametrize(
    ("of", "value", "got"),
    [
        (int32(), True, "bool"),
        (int16(), 1.0, "float"),
        (float32(), "1", "str"),
        (list_of(int), (1, 2), "tuple"),
    ],
)
def test_the_wrong_type_is_refused(of: Serde[Any], value: Any, got: str) -> None:
    with pytest.raises(SerdeError, match=f"expected .*, got {got}"):
        of.encode_column([value])


@pytest.mark.parametrize(
    ("of", "raw"),
    [
        (int32(), "0000000000000001"),  # a long
        (int16(), "00000001"),
        (float32(), "3ff8000000000000"),
        (list_of(int32()), ""),
        (list_of(int32()), "01 00000000"),  # with sizes
        (list_of(str), "00 00000000 00000000"),  # without
        (list_of(int32()), "00 00000000 00000002 00000001"),  # an entry too few
        (list_of(int32()), "00 00000000 00000001 00000001 00"),
        (list_of(int32()), "00 00000002 00000000 00000000 00000002"),  # the same null twice
        (list_of(int32()), "00 00000001 00000005 00000001"),  # a null behind the end
        (list_of(int32()), "00 ffffffff 00000000"),
        (list_of(int32()), "00 7fffffff 00000000"),
        (list_of(str), "01 00000001 00000005 61"),
        (list_of(str), "01 00000001 fffffffe"),
        (list_of(str), "01 7fffffff 00000001 61"),
        (list_of(str), "01 ffffffff"),
        (list_of(str), "01 00000001 00000001 61 00"),
        (list_of(str), "01 00000001 00000001 ff"),  # no text
    ],
)
def test_other_bytes_are_refused(of: Serde[Any], raw: str) -> None:
    with pytest.raises(SerdeError, match=of.name):
        of.decode(bytes.fromhex(raw))
    with pytest.raises(SerdeError, match=rf"^entry 1: {of.name}"):
        of.decode_column([None, bytes.fromhex(raw)])


@given(st.lists(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))))
def test_lists_survive_as_a_column(values: list[list[int | None]]) -> None:
    of = list_of(int32())
    assert of.decode_column(of.encode_column(list(values))) == values


@given(st.lists(st.none() | st.binary(max_size=5)))
def test_lists_with_sizes_survive(values: list[bytes | None]) -> None:
    assert list_of(bytes).decode(list_of(bytes).encode(values)) == values


def test_a_list_that_is_copied_shares_nothing() -> None:
    inner = [1]
    of = list_of(list_of(int))
    copied = of.copy([inner])
    inner.append(2)
    assert copied == [[1]]


def test_a_type_without_a_serde_is_refused() -> None:
    with pytest.raises(SerdeError, match="no serde for"):
        list_of(object)


def test_an_application_reads_and_writes_them() -> None:
    app = sl.App("java")
    readings = app.stream("readings", key=sl.serdes.int32(), value=sl.serdes.float32())
    readings.group_by_key().count(store="counts").to_stream().to("counts", value=sl.serdes.int16())
    totals = readings.group_by_key().aggregate(sl.sum_(sl.value()), store="totals", value=float)
    totals.to_stream().to("totals")
    with TopologyTestDriver(app) as driver:
        for value in (1.5, 0.25):
            raw = struct.pack(">f", value)
            driver.pipe_bytes("readings", struct.pack(">i", -7), raw, 1)
        counts = driver.read_output("counts", key=bytes, value=bytes)
        assert [(record.key, record.value) for record in counts] == [
            (struct.pack(">i", -7), b"\x00\x01"),
            (struct.pack(">i", -7), b"\x00\x02"),
        ]
        assert driver.store("totals").get(-7) == 1.75


def test_no_type_stands_for_them() -> None:
    assert serde(int).name != int32().name
    assert serde(int32()).name == "int32"


@pytest.mark.parametrize("places", [range(0, 200_000, 2), range(150_000), range(50_000, 200_000)])
def test_a_list_of_many_nulls_is_decoded(places: range) -> None:
    """In a megabyte they took twelve seconds, as each was inserted by itself."""
    entries: list[int | None] = list(range(200_000))
    for place in places:
        entries[place] = None
    one = list_of(int)
    assert one.decode(one.encode(entries)) == entries


@pytest.mark.parametrize("nulls", [(0, 0), (-1,), (3,)])
def test_nulls_at_places_that_cannot_be_are_refused(nulls: tuple[int, ...]) -> None:
    raw = b"\0" + struct.pack(f">{len(nulls) + 2}i", len(nulls), *nulls, 3)
    with pytest.raises(SerdeError, match="nulls are not those of a list of 3"):
        list_of(int).decode(raw + bytes(8 * (3 - len(nulls))))


@pytest.mark.parametrize("name", ["int", "uuid", "float32"])
def test_a_list_asks_for_the_format_of_its_entries_not_for_their_name(name: str) -> None:
    """A serde of the user's may be called like one whose values all have one size."""
    entries = sl.Serde(name, str.encode, bytes.decode, accepts=frozenset({str}))
    lists = list_of(entries)
    assert lists.decode(lists.encode(["a", None, "longer"])) == ["a", None, "longer"]
