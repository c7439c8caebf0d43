"""Where a task begins to read: at its commit, or where ``auto.offset.reset`` says."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.group.messages import Committed
from streamlet.kafka.ports import Admin
from streamlet.runtime.active import ActiveTask
from streamlet.types import TopicPartition

log = logging.getLogger(__name__)


def start_offsets(
    tasks: Sequence[ActiveTask],
    committed: Mapping[TopicPartition, Committed],
    admin: Admin,
    settings: Settings,
) -> dict[TopicPartition, int]:
    """The first offset to read of each input partition.

    A commit that lies outside what the partition holds (retention, a topic made anew) is no better
    than none.

    Raises:
        BrokerError: there is no usable commit and ``auto.offset.reset`` is ``none``.
    """
    inputs = [tp for active in tasks for tp in active.inputs]
    first, end = admin.start_offsets(inputs), admin.end_offsets(inputs)
    found = {}
    for active in tasks:
        for tp in active.inputs:
            offset = committed[tp].offset
            if first[tp] <= offset <= end[tp]:
                found[tp] = offset
                continue
            reset = active.subtopology.source_of(tp.topic).reset or settings.auto_offset_reset
            found[tp] = _reset(tp, offset, reset, first[tp], end[tp])
    return found


def _reset(tp: TopicPartition, offset: int, reset: str, first: int, end: int) -> int:
    if reset == "none":
        what = "no commit" if offset < 0 else f"commit {offset}"
        raise BrokerError(
            f"{tp}: {what}, the topic holds {first} to {end}, and auto.offset.reset is none; "
            "set it to earliest or latest, or commit an offset"
        )
    start = end if reset == "latest" else first
    if offset >= 0:
        log.warning(
            "%s: commit %d is outside of what the topic holds (%d to %d); starting at %s, %d",
            tp, offset, first, end, reset, start,
        )  # fmt: skip
    return start
