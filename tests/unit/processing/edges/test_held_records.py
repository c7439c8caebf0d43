"""The prefix of records that wait for their writer's commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlet.processing.edges.held_records import (
    are_whole,
    bodies_of,
    pack,
    pack_head,
    read_head,
    rise,
    sequences_of,
)

HEAD = pack_head(1, 7 << 32 | 1, 3)


@pytest.mark.parametrize("first", [1, 100, 127, (1 << 15) - 3, (1 << 40) - 130])
@pytest.mark.parametrize("null", [lambda at: False, lambda at: at % 3 == 0, lambda at: True])
def test_sequences_rise_and_values_come_back_wherever_a_run_begins(
    first: int, null: Callable[[int], bool]
) -> None:
    values = [None if null(at) else b"%d" % at * (at % 4) for at in range(300)]
    packed = pack(HEAD, values, first)
    assert bodies_of(packed) == values
    sequences = [int.from_bytes(one, "big") >> 1 for one in sequences_of(packed)]
    assert sequences == [*range(first, first + 300)]
    assert rise(packed)
    assert not rise([*packed[:200], packed[100]])
    assert not rise([packed[0], packed[0]])


def test_a_prefix_that_is_cut_off_is_none() -> None:
    (whole,) = pack(HEAD, [b""], 1)
    assert are_whole([whole])
    assert not are_whole([whole, whole[:-1]])
    assert read_head(whole[:32]).number == 3
