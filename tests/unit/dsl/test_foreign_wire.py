"""Messages of foreign-key joins that are cut off."""

from __future__ import annotations

import pytest

from streamlet.dsl.foreign_keys import wire

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
def test_answers_and_copies_that_are_cut_off_are_value_errors(size: int) -> None:
    for read in (wire.answered, wire.copied):
        with pytest.raises(ValueError, match="cut off"):
            read(bytes(size))
