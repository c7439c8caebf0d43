"""Bytes of the partitions protocol, against Kafka's own reading of them."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.partitions.wire import (
    V0_EAGER,
    V1_COOPERATIVE,
    PartitionsAssignment,
    PartitionsSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from streamlet.rebalance.consumer_protocol import ConsumerProtocolError
from streamlet.types import TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer.metadata import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

partitions = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 2**31 - 1)),
    max_size=6,
)
subscriptions = st.builds(
    PartitionsSubscription,
    st.sampled_from([V0_EAGER, V1_COOPERATIVE]),
    st.lists(st.text(max_size=5), max_size=3).map(tuple),
    partitions,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
assignments = st.builds(
    PartitionsAssignment,
    st.sampled_from([V0_EAGER, V1_COOPERATIVE]),
    partitions,
    partitions,
    st.integers(0, 2),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(min_size=8, max_size=8),
)


@given(subscriptions)
def test_a_subscription_is_read_as_it_was_written(said: PartitionsSubscription) -> None:
    """But for the claims of V0, which has no place for them."""
    read = decode_subscription(encode_subscription(said))
    assert read.owned == (said.owned if said.version else frozenset())
    assert (read.version, read.topics, read.nonce) == (said.version, said.topics, said.nonce)
    assert (read.generation, read.tags) == (said.generation, said.tags)
    assert read.identity == said.identity


@given(assignments)
def test_an_assignment_is_read_as_it_was_written(answer: PartitionsAssignment) -> None:
    assert decode_assignment(encode_assignment(answer)) == answer


@given(subscriptions)
def test_kafkas_own_tools_read_a_subscription(said: PartitionsSubscription) -> None:
    theirs = ConsumerProtocolSubscription.decode(encode_subscription(said))
    assert tuple(theirs.topics) == said.topics
    if said.version == V1_COOPERATIVE:
        owned = {(t.topic, n) for t in theirs.owned_partitions for n in t.partitions}
        assert owned == said.owned


@given(assignments)
def test_kafkas_own_tools_read_an_assignment(answer: PartitionsAssignment) -> None:
    theirs = ConsumerProtocolAssignment.decode(encode_assignment(answer))
    assigned = {(t.topic, n) for t in theirs.assigned_partitions for n in t.partitions}
    assert assigned == answer.assigned


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_what_another_client_says_is_read_in_all_versions(version: int) -> None:
    """Later versions only add fields; they count as cooperative."""
    owned = ConsumerProtocolSubscription.TopicPartition(topic="a", partitions=[1, 2])
    theirs = ConsumerProtocolSubscription(
        version=version,
        topics=["a"],
        user_data=b"theirs",
        owned_partitions=[owned],
        generation_id=4,
        rack_id="r",
    )
    read = decode_subscription(theirs.encode())
    assert (read.version, read.topics) == (min(version, 1), ("a",))
    assert read.owned == ({("a", 1), ("a", 2)} if version else frozenset())


def test_no_bytes_are_an_empty_assignment() -> None:
    """What the coordinator has for a member that its leader left out."""
    assert decode_assignment(b"").assigned == frozenset()


@given(subscriptions, st.data())
def test_bytes_cut_short_are_refused_not_misread(
    said: PartitionsSubscription, data: st.DataObject
) -> None:
    whole = encode_subscription(said)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ConsumerProtocolError):
        decode_subscription(whole[:cut])


@pytest.mark.parametrize("garbage", [b"", b"\xff\xff", b"\x00\x01\x00\x00\x00\x01\x00\x02\xff\xfe"])
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(ConsumerProtocolError):
        decode_subscription(garbage)
