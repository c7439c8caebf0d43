"""A join by foreign keys ends as a join of two dicts, however its tasks step, commit and crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamlet.app import App
from streamlet.dsl.foreign_keys import wire
from streamlet.kafka.murmur2 import partition_of
from streamlet.types import TopicPartition
from tests.shares import share_of
from tests.unit.dsl.foreign_tasks import ForeignCluster

KEYS = ("k0", "k1", "k2")
FOREIGN = ("a", "b", "c")
LEFT, RIGHT = 2, 3

#: A row of the left table begins with its foreign key, or with "|" if it has none.
LEFT_VALUES = st.none() | st.builds("{}{}".format, st.sampled_from("abc|"), st.integers(0, 2))
STEPS = st.one_of(
    st.tuples(st.just("left"), st.sampled_from(KEYS), LEFT_VALUES),
    st.tuples(
        st.just("right"), st.sampled_from(FOREIGN), st.none() | st.sampled_from(["", "x", "y"])
    ),
    st.tuples(st.just("step"), st.integers(0, 19), st.integers(1, 3)),
    st.tuples(st.just("commit"), st.integers(0, 4), st.just(0)),
    st.tuples(st.just("crash"), st.integers(0, 4), st.just(0)),
    st.tuples(st.just("replace"), st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.just("wake"), st.just(0), st.just(0)),
)


def joined(key: str, foreign: str | None, left: str, right: str | None) -> str:
    return f"{key} {foreign} {left} {right}"


def foreign_of(value: str) -> str | None:
    return None if value[0] == "|" else value[0]


def application(left_join: bool) -> App:
    app = App("a")
    left = app.table("left", key=str, value=str, store="left-rows")
    right = app.table("right", key=str, value=str, store="right-rows")
    join: Any = left.left_join if left_join else left.join
    table = join(right, joined, foreign_key=foreign_of, value=str, store="joined", name="fk")
    table.to_stream().to("out")
    return app


def naive(left: dict[str, str], right: dict[str, str], left_join: bool) -> dict[str, str]:
    rows = {}
    for key, value in left.items():
        foreign = foreign_of(value)
        match = None if foreign is None else right.get(foreign)
        if match is not None or left_join:
            rows[key] = joined(key, foreign, value, match)
    return rows


def put(table: dict[str, str], key: str, value: str | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


#: Owners that are frozen have not seen the last rows that are referred to, and send answers late.
LATE: list[tuple[str, Any, Any]] = [
    *(("left", key, "a1") for key in KEYS),
    *(("step", number, 3) for number in range(5)),
    *(("right", foreign, "x") for foreign in FOREIGN),
    *(("replace", number, 3) for number in range(2, 5)),
    *(("right", foreign, "y") for foreign in FOREIGN),
    *(("step", number, 9) for _ in range(4) for number in range(5)),
    ("wake", 0, 0),
]


@pytest.mark.parametrize("left_join", [False, True])
@example(LATE)
@settings(max_examples=share_of(100))
@given(steps=st.lists(STEPS, max_size=40))
def test_a_join_by_foreign_keys_ends_as_that_of_two_dicts(
    left_join: bool, steps: list[tuple[str, Any, Any]]
) -> None:
    cluster = ForeignCluster(application(left_join), {"left": LEFT, "right": RIGHT})
    left: dict[str, str] = {}
    right: dict[str, str] = {}
    for time, (what, one, two) in enumerate(steps):
        if what in ("left", "right"):
            # Rows of the left table lie where their writer put them, not where a hash would.
            by_hash = partition_of(one.encode(), RIGHT)
            place = KEYS.index(one) % LEFT if what == "left" else by_hash
            raw = None if two is None else two.encode()
            cluster.write(what, place, (one.encode(), raw, time))
            put(left if what == "left" else right, one, two)
        elif what == "step":
            cluster.step(one, two)
        elif what == "replace":
            if cluster.topology.subtopologies[1].id == cluster.task_of(one).subtopology:
                cluster.replace(one, 2, two)  # of other tasks the runtime drops what comes late
        elif what == "wake":
            cluster.wake()
        else:
            if cluster.task_of(one).subtopology == 0:
                cluster.wake()  # what tasks know of owners is not kept over a restart
            getattr(cluster, what)(one)
    cluster.settle()
    cluster.wake()
    cluster.settle()
    expected = naive(left, right, left_join)
    assert dict(cluster.rows("joined")) == expected
    wanted = sorted(
        wire.row_key(foreign.encode(), key.encode())
        for key, value in left.items()
        if (foreign := foreign_of(value)) is not None
    )
    assert [key for key, _ in cluster.rows("fk-subscription-store")] == wanted
    sent = {key: value for key, value, _ in cluster.logs[TopicPartition("out", 0)]}
    last = {key.decode(): value.decode() for key, value in sent.items() if key and value}
    assert last == expected
