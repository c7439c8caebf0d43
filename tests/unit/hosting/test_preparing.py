"""What an instance finds of the program that ran before under its application's id."""

from __future__ import annotations

import streamlet as sl
from streamlet.hosting.preparing import of_another
from streamlet.topology.description import description
from streamlet.topology.graph import Topology


def counting(topic: str, store: str | None) -> Topology:
    app = sl.App("words")
    source = app.stream(topic, key=str, value=str)
    if store is None:
        source.to("out")
    else:
        source.group_by_key().count(store=store).to_stream().to("out")
    return app.topology()


def test_a_program_with_nothing_in_common_is_that_of_another_application() -> None:
    before = description(counting("lines", "counts")).parts
    assert of_another(counting("orders", "sums"), before) == ["counts", "lines"]
    for alike in (counting("lines", None), counting("orders", "counts"), counting("lines", "sums")):
        assert of_another(alike, before) == []
    assert of_another(counting("orders", "sums"), ()) == []
