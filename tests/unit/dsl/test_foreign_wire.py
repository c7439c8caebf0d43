"""Messages of foreign-key joins: those that are cut off, and columns of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.app import App
from streamlet.dsl.foreign_keys import wire, wire_columns
from streamlet.processing.policy import ErrorPolicy
from streamlet.topology.edges import edges_of
from tests.unit.dsl.foreign_tasks import ForeignCluster

PARTITION = wire.partition_bytes(3)
DIGEST = bytes(range(16))
WHOLE = wire.subscription(wire.SUBSCRIBE, DIGEST, b"", PARTITION)
DELETED = wire.subscription(wire.UNSUBSCRIBE, None, b"", PARTITION)


def test_the_shortest_subscriptions_are_read() -> None:
    assert wire.subscribed(WHOLE) == (wire.SUBSCRIBE, DIGEST, b"", PARTITION)
    assert wire.subscribed(DELETED) == (wire.UNSUBSCRIBE, None, b"", PARTITION)


@pytest.mark.parametrize(
    "raw", [*(WHOLE[:size] for size in range(len(WHOLE))), DELETED[:-1], DELETED[:1]]
)
def test_a_subscription_that_is_cut_off_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off"):
        wire.subscribed(raw)


@pytest.mark.parametrize("size", range(5))
def test_a_copy_that_is_cut_off_is_a_value_error(size: int) -> None:
    with pytest.raises(ValueError, match="cut off"):
        wire.copied(bytes(size))


@pytest.mark.parametrize("digest", [DIGEST, None])
@pytest.mark.parametrize("version", [1, 2])
def test_an_answer_that_is_cut_off_is_a_value_error(version: int, digest: bytes | None) -> None:
    whole = wire.answer(PARTITION, wire.source_of(3, 9), digest, None)
    if version == 1:
        whole = whole[:4] + bytes((whole[4] - 1,)) + whole[13:]
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="cut off"):
            wire.answered(whole[:size])
    assert wire.answered(whole)[1:] == (digest, None)


@given(
    st.lists(st.tuples(st.sampled_from([None, DIGEST]), st.sampled_from([None, b"", b"some"]))),
    st.lists(st.integers(0, 28) | st.sampled_from([b"\0", b"\3", b"\x43some"]), max_size=1),
)
def test_a_column_of_answers_is_read_as_each_of_them_is(
    answers: list[tuple[bytes | None, bytes | None]], bad: list[int | bytes]
) -> None:
    source = wire.source_of(3, 9)
    raws = [wire.answer(PARTITION, source, *one) for one in answers]
    whole = wire.answer(PARTITION, source, DIGEST, b"")
    broken = [whole[:one] if isinstance(one, int) else PARTITION + one for one in bad]
    older = [raw[:4] + bytes((raw[4] - 1,)) + raw[5 + len(source) :] for raw in raws[:1]]
    sources, digests, values, error = wire_columns.answered([*raws, *older, *broken, *raws])
    found = list(zip(sources, digests, values, strict=True))
    assert isinstance(error, ValueError) if bad else error is None
    assert found == list(map(wire.answered, [*raws, *older, *(raws if not bad else [])]))


@pytest.mark.parametrize("value", [None, b"", b"some"])
def test_subscriptions_of_one_foreign_key_are_answered_as_each_of_them_is(
    value: bytes | None,
) -> None:
    source, digests = wire.source_of(3, 9), [DIGEST, bytes(16)]
    rows = [(b"key", digest + PARTITION) for digest in digests]
    each = [wire.answer(PARTITION, source, digest, value) for digest in digests]
    assert wire.answers(rows, source, value) == each


FORGED: list[tuple[bytes | None, bytes | None]] = [
    (key, value)
    for key in (b"k", None, b"\xff\xfe", b"")
    for value in (None, b"", b"\xff" * 40, b"text", WHOLE[:-9], b"\0" * 7)
]


@pytest.mark.parametrize("join", ["join", "left_join"])
def test_messages_that_no_join_sent_are_for_the_error_policy(join: str) -> None:
    """Others may write to its topics; no such record ends the task or costs it a row."""
    app = App("a")
    left = app.table("left", key=str, value=str)
    right = app.table("right", key=str, value=str)
    found = getattr(left, join)(right, joined, foreign_key=foreign, value=str, store="found")
    found.to_stream().to("out")
    cluster = ForeignCluster(app, {"left": 1, "right": 1}, ErrorPolicy.of("skip"))
    asked, answered = (edge.topic for edge in edges_of(app.topology()))
    cluster.write("right", 0, (b"r", b"1", 1))
    for time, value in enumerate((b"r one", b"r two"), 2):
        cluster.write("left", 0, (b"k", value, time))
        cluster.settle()
        for topic, (key, forged) in itertools.product((asked, answered), FORGED):
            cluster.write(topic, 0, (key, forged, time))
        cluster.settle()
    cluster.write("right", 0, (b"r", b"2", 4))
    cluster.settle()
    assert cluster.rows("found") == [("k", "r two 2")]
    assert cluster.rows(left.store or "") == [("k", "r two")]


def joined(one: str, other: str | None) -> str:
    return f"{one} {other}"


def foreign(row: str) -> str:
    return row[0]
