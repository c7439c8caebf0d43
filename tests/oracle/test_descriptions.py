"""``describe --format java`` prints what Kafka Streams 4.1.1 did for the recorded topologies."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamlet as sl
from streamlet.topology.describe import as_java
from tests.oracle.tables import OTHER_DESCRIPTION, TOPOLOGIES


def _recorded() -> dict[str, str]:
    text = Path(__file__).with_name("descriptions.txt").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("=== ")[1:])
    return {name: description.rstrip() for name, _, description in parts}


RECORDED = _recorded()


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
def test_descriptions_are_equal_unless_the_table_says_why_not(name: str) -> None:
    app = sl.App("oracle")
    TOPOLOGIES[name](app)
    printed = as_java(app.topology()).rstrip()
    if name in OTHER_DESCRIPTION:
        assert printed != RECORDED[name], f"{name} is equal now: take it out of OTHER_DESCRIPTION"
    else:
        assert printed == RECORDED[name]


def test_every_topology_was_recorded() -> None:
    assert RECORDED.keys() == TOPOLOGIES.keys()
    assert OTHER_DESCRIPTION.keys() <= TOPOLOGIES.keys()
