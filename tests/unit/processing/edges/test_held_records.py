"""The prefix of records that wait for their writer's commit."""

from __future__ import annotations

from streamlet.processing.edges.held_columns import pack
from streamlet.processing.edges.held_records import pack_head, read_head


def test_the_head_of_a_record_is_read_as_it_was_written() -> None:
    (whole,) = pack(pack_head(1, 7 << 32 | 1, 3), [b""], 1)
    head = read_head(whole[:32])
    assert (head.writer, head.period, head.number, head.marker) == (1, 7 << 32 | 1, 3, False)
