"""Where a task begins to read: at its commit, or where ``auto.offset.reset`` says."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from streamlet.config import Settings
from streamlet.errors import BrokerError
from streamlet.group.messages import Committed
from streamlet.kafka.ports import Admin
from streamlet.topology.subtopologies import Subtopology
from streamlet.types import TaskId, TopicPartition

log = logging.getLogger(__name__)


def start_offsets(
    tasks: Mapping[TaskId, Subtopology],
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
    parts = {
        TopicPartition(topic, task.partition): part
        for task, part in tasks.items()
        for topic in part.input_topics
    }
    first, end = admin.start_offsets(list(parts)), admin.end_offsets(list(parts))
    found = {}
    for tp, part in parts.items():
        offset = committed[tp].offset
        if first[tp] <= offset <= end[tp]:
            found[tp] = offset
        else:
            reset = part.source_of(tp.topic).reset or settings.auto_offset_reset
            if any(topic.name == tp.topic for topic in part.repartitions):
                reset = "earliest"  # what lies between two subtopologies is all to be processed
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
