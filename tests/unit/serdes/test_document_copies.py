"""Documents are copied as their bytes would copy them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.errors import SerdeError
from streamlet.serdes import Serde
from streamlet.serdes.json_serde import document, json


class Text(str):
    """A text that is more than one."""


class Fields(dict[str, int]):
    """A dict that is more than one."""


plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.floats(), st.just("ü"), st.just("\ud800")
)
odd = st.sampled_from(
    [Text("text"), Fields(a=1), (1, [2]), {1}, b"raw", date(2024, 2, 29), {3: "x"}, 1 << 80]
)
keys = st.one_of(st.text(max_size=3), st.just("\udfff"))
documents = st.recursive(
    st.one_of(plain, plain, plain, odd),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
)


def outcome(copied: Any) -> Any:
    """The copy with the types of all it is made of, or that there is none."""
    try:
        return shown(copied())
    except SerdeError:
        return "refused"


def shown(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value), [(type(name), name, shown(one)) for name, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [shown(one) for one in value]
    return type(value), value


@given(documents)
def test_a_copy_is_what_the_bytes_give(value: Any) -> None:
    for serde in (json(), document(dict), document(list)):
        by_bytes: Serde[Any] = serde.as_value or serde
        bytes_of = lambda: None if value is None else by_bytes.decode(by_bytes.encode(value))  # noqa: E731, B023
        assert outcome(lambda: by_bytes.copy(value)) == outcome(bytes_of)  # noqa: B023


def test_a_copy_shares_nothing_that_can_change() -> None:
    value = {"a": [1, {"b": [2.5, "text"]}], "c": {}}
    copied = document(dict).copy(value)
    assert copied == value
    copied["a"][1]["b"].append(3)
    copied["c"]["d"] = 4
    assert value == {"a": [1, {"b": [2.5, "text"]}], "c": {}}


@pytest.mark.parametrize("value", [[1], "text", Fields(a=1)])
def test_what_the_serde_does_not_take_is_not_copied(value: Any) -> None:
    with pytest.raises(SerdeError):
        document(dict).copy(value)
