"""A topic that was made again, or lost its end, is not read on."""

from __future__ import annotations

from typing import Any

import pytest

from streamlet.errors import PositionsMismatchError, StateError
from streamlet.spark.kafka import identity
from streamlet.spark.plan.plan import check_counts

POSITION: dict[str, Any] = identity.marked(
    {"lines": {"0": 300, "1": 7}, "names": {"0": 2}}, {"lines": "a", "names": "n"}
)
ENDS = {"lines": {"0": 440, "1": 7}, "names": {"0": 2}}


def test_the_same_topics_are_read_on() -> None:
    identity.compare(POSITION, {"lines": "a", "names": "n"}, ENDS)
    assert identity.offsets(POSITION) == {"lines": {"0": 300, "1": 7}, "names": {"0": 2}}


def test_positions_without_ids_are_compared_with_the_ends() -> None:
    identity.compare(identity.offsets(POSITION), {"lines": "b", "names": "n"}, ENDS)
    with pytest.raises(PositionsMismatchError, match="lines-0 ends at 140"):
        identity.compare(
            identity.offsets(POSITION),
            {"lines": "b", "names": "n"},
            {**ENDS, "lines": {"0": 140, "1": 7}},
        )


def test_a_topic_that_was_made_again_is_named_with_its_positions() -> None:
    with pytest.raises(
        PositionsMismatchError,
        match=r"^topic lines was created again, .*lines-0 at 300, lines-1 at 7.* A new checkpoint",
    ):
        identity.compare(POSITION, {"lines": "b", "names": "n"}, ENDS)


def test_a_partition_that_ends_before_its_position_is_named() -> None:
    with pytest.raises(
        PositionsMismatchError,
        match="lines-1 ends at 3, but position 7 is committed: the topic lost records or was",
    ):
        identity.compare(
            POSITION, {"lines": "a", "names": "n"}, {**ENDS, "lines": {"0": 440, "1": 3}}
        )


def test_a_topic_that_is_gone_is_not_taken_for_one_that_was_made_again() -> None:
    identity.compare(POSITION, {"names": "n"}, {"names": {"0": 2}})


def test_a_checkpoint_of_other_topics_is_named() -> None:
    identity.check_ids({}, {"lines": "a"}, "cp")
    with pytest.raises(PositionsMismatchError, match="checkpoint cp: topic lines was created"):
        identity.check_ids({"lines": "b"}, {"lines": "a"}, "cp")


def test_a_topic_with_more_partitions_than_were_planned_is_refused() -> None:
    planned = {"lines": {"0": -2, "1": -2}, "rates": {"0": -2}}
    check_counts(planned, {"lines": 2, "rates": 1})
    check_counts(planned, {"lines": 2})  # one that is gone is not known to have more
    with pytest.raises(StateError, match=r"lines had 2 partitions when .* planned and now has 3: "):
        check_counts(planned, {"lines": 3, "rates": 1})
