"""What is around our bytes in a group of type "consumer", against Kafka's own reading of it."""

from __future__ import annotations

import warnings

import attrs
import pytest

from streamlet.assignor.values import Copy, Role
from streamlet.rebalance.envelope import (
    CONSUMER,
    STREAM,
    Envelope,
    FixedTopics,
    Opened,
    open_assignment,
    open_subscription,
)
from streamlet.rebalance.values import Assignment, Subscription
from streamlet.rebalance.wire import WireError
from streamlet.types import TaskId, TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer.metadata import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

T00, T01, T02, T10 = TaskId(0, 0), TaskId(0, 1), TaskId(0, 2), TaskId(1, 0)
AROUND = Envelope(FixedTopics({0: ("flights", "planes"), 1: ("flights-by-plane",)}))
SAID = Subscription(
    "process",
    "h1",
    0,
    1.0,
    1,
    (),
    {T01: Copy(Role.ACTIVE, 4), T02: Copy(Role.RELEASED), T10: Copy(Role.LEARNER, lag=3)},
)


def test_kafkas_tools_see_what_a_member_reads_and_which_partitions_it_has() -> None:
    """Copies are nobody's business, and of a task all input partitions count."""
    data = AROUND.subscription(SAID, b"ours", eager=False, generation=4)
    theirs = ConsumerProtocolSubscription.decode(data)
    assert theirs.topics == ["flights", "flights-by-plane", "planes"]
    owned = {(t.topic, n) for t in theirs.owned_partitions for n in t.partitions}
    assert owned == {("flights", 1), ("planes", 1)}
    assert (theirs.generation_id, theirs.user_data) == (4, b"ours")


def test_a_member_that_has_given_up_everything_says_no_more_than_what_it_reads() -> None:
    """V0 has no place for what is owned."""
    data = AROUND.subscription(SAID, b"ours", eager=True, generation=4)
    assert data[:2] == b"\0\0"
    opened = open_subscription(data, CONSUMER)
    assert (opened, opened.eager) == (Opened(b"ours", 0), True)


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (Assignment(active=frozenset({T00, T10})), {("flights", 0), ("flights-by-plane", 0)}),
        # On its way: the next owner has it in a moment, and nobody rebalances when it has.
        (Assignment(release={T00: "b"}), set()),
        (Assignment(pending={T00: "a"}), {("flights", 0)}),
        (Assignment(revoke=frozenset({T00})), {("flights", 0)}),
        (Assignment(learner=frozenset({T00}), standby=frozenset({T10})), set()),
    ],
)
def test_kafkas_tools_see_each_partition_at_one_member(
    answer: Assignment, seen: set[TopicPartition]
) -> None:
    data = AROUND.assignment(answer, b"ours", 3)
    theirs = ConsumerProtocolAssignment.decode(data)
    found = {(t.topic, n) for t in theirs.assigned_partitions for n in t.partitions}
    assert {one for one in found if one[0] != "planes"} == seen
    assert open_assignment(data, CONSUMER) == b"ours"


def test_in_a_group_of_our_own_type_there_is_nothing_around() -> None:
    assert open_subscription(b"ours", STREAM) == Opened(b"ours")
    assert not open_subscription(b"ours", STREAM).eager
    assert open_assignment(b"ours", STREAM) == b"ours"


def test_a_member_without_an_answer_reads_an_empty_one() -> None:
    """As the coordinator has it for a member that the leader left out."""
    assert open_assignment(b"", CONSUMER) == b""


@pytest.mark.parametrize("garbage", [b"", b"\xff\xff", b"\x00\x01\x00\x00\x00\x01"])
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(WireError):
        open_subscription(garbage, CONSUMER)


def test_a_layout_of_tomorrow_is_read_as_the_latest_of_today() -> None:
    data = AROUND.subscription(SAID, b"ours", eager=False, generation=4)
    newer = b"\0\x07" + data[2:] + b"more"
    assert open_subscription(newer, CONSUMER) == Opened(b"ours", 3)


def test_a_topology_that_the_leader_does_not_know_shows_nothing() -> None:
    unknown = attrs.evolve(AROUND, read=FixedTopics())
    data = unknown.assignment(Assignment(active=frozenset({T00})), b"ours", 3)
    assert ConsumerProtocolAssignment.decode(data).assigned_partitions == []
