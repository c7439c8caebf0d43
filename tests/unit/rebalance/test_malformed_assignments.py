"""Assignments that are none: of another program, of a damaged leader, of a broker that lies."""

from __future__ import annotations

import struct

import pytest

from streamlet.errors import RefusedError
from streamlet.rebalance import consumer_protocol as kafka
from streamlet.rebalance import wire
from streamlet.rebalance.values import Assignment
from streamlet.types import TopicPartition
from tests.unit.rebalance.test_protocol import T00, Bench


@pytest.mark.parametrize(
    "garbage",
    [b"garbage here", b"?", struct.pack(">ii", 7, 7) + b"\xff" * 50, bytes(3_000_000)],
    ids=["another program's", "short", "packed", "zeros"],
)
def test_a_member_joins_again_and_ends_with_an_error_where_that_does_not_help(
    garbage: bytes,
) -> None:
    bench, good = Bench(), wire.encode_assignment(Assignment(active=frozenset({T00})))
    for _ in range(2):
        for tries in range(1, 4):
            assert bench.protocol.decode(garbage) == Assignment()
            assert len(bench.rejoins) == tries
        assert bench.rejoins[0].startswith("the answer of the group's leader cannot be read: ")
        assert bench.protocol.decode(good).active == {T00}
        bench.rejoins.clear()
    for _ in range(3):
        bench.protocol.decode(garbage)
    with pytest.raises(wire.WireError, match="4 times in a row; is another program in this group"):
        bench.protocol.decode(garbage)


@pytest.mark.parametrize("given", [frozenset(), frozenset({TopicPartition("in", 0)})])
def test_partitions_that_the_broker_assigns_are_not_taken_for_no_tasks(
    given: frozenset[TopicPartition],
) -> None:
    """It lets us join consumers of ``group.protocol=consumer``, and gives us some of theirs."""
    bench = Bench(mode="eager")
    answer = kafka.encode_assignment(kafka.ConsumerAssignment(kafka.V3, given, b""))
    with pytest.raises(
        RefusedError, match=r"group\.protocol=consumer.*give the application another"
    ):
        bench.protocol.decode(answer)
