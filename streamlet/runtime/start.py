"""Where a task begins to read: at its commit, or where ``auto.offset.reset`` says.

A commit before the log's start under ``none`` is returned as it is: the task comes up, its consumer
finds nothing there, and the task is halted alone (``runtime.out_of_range``).
"""

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
            reset = reset_policy(part, tp.topic, settings)
            if reset == "none" and 0 <= offset < first[tp] and not is_table(part, tp.topic):
                found[tp] = offset
            else:
                found[tp] = _reset(tp, offset, reset, first[tp], end[tp])
    return found


def reset_policy(part: Subtopology, topic: str, settings: Settings) -> str:
    """Where to read an input topic on whose log does not hold the position: as Kafka's setting."""
    if any(repartition.name == topic for repartition in part.repartitions):
        return "earliest"  # what lies between two subtopologies is all to be processed
    return part.source_of(topic).reset or settings.auto_offset_reset


def is_table(part: Subtopology, topic: str) -> bool:
    """Whether a store of the subtopology is a table over this input topic."""
    return any(store.source_topic == topic for store in part.stores)


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
