"""Functions of joins by foreign keys that change what they have, against ones that do not.

Rows are random documents, in any cuts of their records into batches, with crashes of all tasks.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streamlet as sl
from streamlet.serdes import serde
from streamlet.types import TopicPartition
from tests.shares import share_of
from tests.unit.dsl.foreign_tasks import ForeignCluster
from tests.unit.dsl.test_values_model import Around, as_is, merged, on_copies, touched

DOCUMENTS = serde(dict)
Fed = tuple[str, str, Any]


def foreign_key(value: dict[str, Any]) -> str:
    """The key of the right row, and a change of the left one."""
    value["n"] = value.get("n", 0) + 1
    return str(value.get("of", "a"))


def placed(app: sl.App, kind: str, around: Around[Any]) -> None:
    left = app.table("l", key=str, value=dict, store="left")
    right: Any = app.table("r", key=str, value=dict, store="right")
    if "mapped" in kind:
        left = left.map_values(around(touched), value=dict)
        right = right.map_values(around(touched), value=dict, store="mapped")
    join = left.left_join if "left" in kind else left.join
    joiner = around(lambda one, other: merged(one, other))
    of = around(foreign_key)
    found = join(right, joiner, foreign_key=of, value=dict, store="found")
    stream = found.to_stream()
    change = around(lambda value: touched(value) if value else value)
    stream.map_values(change, value=dict).to("changed", value=dict)
    stream.to("out", value=dict)


def played(kind: str, around: Around[Any], fed: list[Fed], size: int, crashes: bool) -> Any:
    """The rows of the stores, and what came of the records, so many at a time."""
    app = sl.App("a")
    placed(app, kind, around)
    cluster = ForeignCluster(app, {"l": 1, "r": 1})
    tasks = range(len(cluster.tasks))
    for start in range(0, len(fed), size):
        for at, (topic, key, value) in enumerate(fed[start : start + size], start):
            raw = None if value is None else DOCUMENTS.encode(value)
            cluster.write(topic, 0, (key.encode(), raw, at))
        cluster.settle()
        for number in tasks:
            cluster.commit(number)
            if crashes:
                cluster.crash(number)
    rows = {name: cluster.rows(name) for name in ("left", "right", "found")}
    return rows, [cluster.logs[TopicPartition(name, 0)] for name in ("out", "changed")]


LEFT = st.tuples(st.just("l"), st.sampled_from("pq"), st.sampled_from("ab"), st.integers(0, 9))
RIGHT = st.tuples(st.just("r"), st.sampled_from("ab"), st.just(""), st.integers(0, 9))
SOME = [
    ("r", "a", "", 1),
    ("l", "p", "a", 2),
    ("l", "q", "a", 3),
    ("r", "a", "", 4),
    ("l", "p", "b", 0),
]


@pytest.mark.parametrize("kind", ["inner", "left", "inner, mapped", "left, mapped"])
@example(SOME)
@settings(max_examples=share_of(15), deadline=None)
@given(st.lists(LEFT | RIGHT, max_size=8))
def test_joins_are_those_of_functions_that_change_nothing(
    kind: str, steps: list[tuple[str, str, str, int]]
) -> None:
    """A value of 0 deletes the row."""
    fed: list[Fed] = [
        (topic, key, {"n": n, "l": [n], **({"of": of} if of else {})} if n else None)
        for topic, key, of, n in steps
    ]
    found = []
    for size, crashes in ((1, False), (max(1, len(fed)), False), (2, True)):
        right = played(kind, on_copies, deepcopy(fed), size, crashes)
        assert played(kind, as_is, deepcopy(fed), size, crashes) == right
        found.append(right[0])
    assert found[0] == found[1] == found[2]
