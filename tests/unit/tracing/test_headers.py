"""Which headers of records carry a trace context."""

from __future__ import annotations

import pytest

from streamlet.tracing.headers import CarriedContext, carried, with_context, with_missing

ID = b"0af7651916cd43dd8448eb211c80319c"
GOOD = b"00-" + ID + b"-b7ad6b7169203331-01"


def test_a_context_is_read_with_its_state_and_its_flags() -> None:
    found = carried([("a", b"1"), ("traceparent", GOOD), ("tracestate", b"rojo=00f,congo=t61")])
    assert found == CarriedContext(GOOD, b"rojo=00f,congo=t61")
    assert found.sampled
    assert found.ids == (int(ID, 16), 0xB7AD6B7169203331, 1)
    assert not CarriedContext(GOOD[:-2] + b"00").sampled


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        GOOD + b"-",
        GOOD * 10_000,
        GOOD.upper(),
        GOOD.replace(b"00-", b"ff-", 1),
        GOOD.replace(ID, b"0" * 32),
        GOOD.replace(b"b7ad6b7169203331", b"0" * 16),
        GOOD.replace(b"7", b"\n", 1),
        GOOD + b"\n",
        "\u0660".encode() * 27 + b"0",
    ],
)
def test_a_wrong_traceparent_does_not_count(value: bytes | None) -> None:
    assert carried([("traceparent", value)]) is None


def test_several_contexts_count_as_none() -> None:
    assert carried([("traceparent", GOOD)] * 2) is None
    assert carried([("TraceParent", GOOD)]) is None
    assert carried(None) is None


@pytest.mark.parametrize(
    "states",
    [
        [b"a=1", b"b=2"],
        [b"a=1,a=2"],
        [b"a=\x01"],
        [b"a=1, b=2"],
        [b"=1"],
        [b"a=" + b"1" * 600],
        [b",".join(b"k%d=1" % number for number in range(33))],
        [None],
    ],
)
def test_a_wrong_state_does_not_count_and_its_context_does(states: list[bytes | None]) -> None:
    heads = [("traceparent", GOOD), *(("tracestate", state) for state in states)]
    assert carried(heads) == CarriedContext(GOOD)


def test_a_context_takes_the_place_of_all_others_and_leaves_the_other_headers() -> None:
    other = CarriedContext(GOOD.replace(b"b7", b"c8"), b"x=1")
    heads = [("traceparent", GOOD), ("a", b"1"), ("tracestate", b"y=2"), ("traceparent", b"?")]
    assert with_context(heads, other.headers) == [("a", b"1"), *other.headers]
    own, none = [("traceparent", GOOD)], [("traceparent", b"?")]
    rows, its = [own, none, None], other.headers
    assert with_missing(rows, map(carried, rows), its) == [own, its, its]
