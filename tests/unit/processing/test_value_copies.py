"""Values that are written as they were read, which need no look at their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import streamlet as sl
from streamlet.processing.value_copies import writes_as_read


@dataclass(frozen=True)
class Frozen:
    n: int


@dataclass
class Changing:
    n: int


FLOWS: dict[str, tuple[type, bool, Callable[[Any], object]]] = {
    "as it is": (Frozen, True, lambda s: s.to("out")),
    "some of them, by way of a table": (
        Frozen,
        True,
        lambda s: s.filter(lambda k, v: True).peek(print).to_table().to_stream().to("out"),
    ),
    "another value": (Frozen, False, lambda s: s.map_values(lambda v: v, value=Frozen).to("out")),
    "merged with another": (
        Frozen,
        False,
        lambda s: s.merge(s.map_values(lambda v: v, value=Frozen)).to("out"),
    ),
    "of another serde": (Frozen, False, lambda s: s.to("out", value=Frozen)),
    "that can change": (Changing, False, lambda s: s.peek(print).to("out")),
    "of a fold": (Frozen, False, lambda s: s.group_by_key().reduce(max).to_stream().to("out")),
}


@pytest.mark.parametrize("flow", FLOWS)
def test_values_are_as_read_where_nothing_makes_or_changes_them(flow: str) -> None:
    of, expected, build = FLOWS[flow]
    app = sl.App("as-read")
    build(app.stream("in", key=str, value=of))
    (part,) = app.topology().subtopologies
    (sink,) = (one for one in part.sinks if one.topic == "out")
    assert writes_as_read(part, sink) is expected
