"""Windowed keys: the bytes of Java's serdes, JSON, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.errors import SerdeError
from streamlet.serdes import Serde, Windowed, session_windowed, time_windowed, windowed_json

times = st.integers(0, 2**62)


def test_the_bytes_are_those_of_java() -> None:
    """TimeWindowedSerializer and SessionWindowedSerializer of Kafka Streams."""
    window = Windowed("key", 0x0102, 0x0304)
    assert time_windowed(str).encode(window) == b"key" + bytes.fromhex("0000000000000102")
    times = "0000000000000304" + "0000000000000102"
    assert session_windowed(str).encode(window) == b"key" + bytes.fromhex(times)


@pytest.mark.parametrize(
    "serde", [time_windowed(str, 10), session_windowed(str), windowed_json(str)], ids=repr
)
@given(column=st.lists(st.one_of(st.none(), st.tuples(st.text(), times))))
def test_what_is_written_is_read_again(
    serde: Serde[Any], column: list[tuple[str, int] | None]
) -> None:
    windows = [None if one is None else Windowed(*one, one[1] + 10) for one in column]
    raws = serde.encode_column(windows)
    assert serde.decode_column(raws) == windows
    assert raws == [None if one is None else serde.encode(one) for one in windows]


def test_a_size_is_a_length_of_time() -> None:
    raw = time_windowed(str).encode(Windowed("a", 7, 0))
    assert time_windowed(str, "5s").decode(raw) == Windowed("a", 7, 5_007)
    for wrong in (True, 1.5, "5 parsecs", -1, 0):
        with pytest.raises(SerdeError, match=r"time_windowed\(size_ms=.*expected"):
            time_windowed(str, wrong)  # type: ignore[arg-type]


def test_an_unlimited_window_ends_with_time_itself() -> None:
    serde = time_windowed(str)
    assert serde.decode(serde.encode(Windowed("a", 5, 2**63 - 1))) == Windowed("a", 5, 2**63 - 1)


@pytest.mark.parametrize("serde", [time_windowed(str, 10), session_windowed(str)], ids=repr)
def test_other_values_and_bytes_are_refused_with_the_serdes_name(serde: Serde[Any]) -> None:
    wrong: list[Any] = [("a", 1, 2), Windowed(None, 1, 2), Windowed(5, 1, 2), "a"]
    for value in wrong:
        with pytest.raises(SerdeError):
            serde.encode(value)
        with pytest.raises(SerdeError):
            serde.encode_column([value])
    with pytest.raises(SerdeError, match="cannot decode"):
        serde.decode(b"short")
