"""Last stable offsets as the client's statistics have them."""

from __future__ import annotations

import json

from streamlet.kafka.stable_offsets import StableOffsets
from streamlet.types import TopicPartition

AT = TopicPartition("in", 0)


def statistics(high: int, stable: int) -> str:
    one = {"hi_offset": high, "ls_offset": stable}
    nowhere = {"hi_offset": -1001, "ls_offset": -1001}
    return json.dumps({"topics": {"in": {"partitions": {"0": one, "1": nowhere, "-1": nowhere}}}})


def test_the_end_is_the_stable_one_until_the_log_moves_on() -> None:
    found = StableOffsets()
    assert (found.end(AT, 9), found.held_from(AT)) == (9, None)
    found.take(statistics(9, 4))
    assert (found.end(AT, 9), found.held_from(AT)) == (4, 4)
    assert found.end(AT, 12) == 12, "there may be something to read"
    found.take(statistics(12, 12))
    assert (found.end(AT, 12), found.held_from(AT)) == (12, None)
    assert found.end(TopicPartition("in", 1), 7) == 7
