"""Calls of async functions that take long, by the tasks whose commits wait for them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from streamlet.kafka.waiting_partitions import LONG_MS, WaitingPartitions
from streamlet.tasks.active import ActiveTask
from streamlet.types import TopicPartition


@attrs.define
class LongCalls:
    """Names the calls that records have waited for since ``LONG_MS``."""

    _waiting: WaitingPartitions = attrs.field(factory=WaitingPartitions)

    def problems(self, tasks: Iterable[ActiveTask], now_ms: int) -> dict[str, str]:
        """The reason why each task commits nothing, if it is the same call for so long."""
        found: dict[TopicPartition, tuple[str, str, int]] = {}
        for active in tasks:
            calls = active.processor.calls
            if calls is not None and (oldest := calls.oldest) is not None:
                node, call = oldest
                at = TopicPartition(call.topic, call.partition)
                found[at] = str(active.task), node, call.offset
        offsets = {at: offset for at, (_, _, offset) in found.items()}
        return {
            found[at][0]: (
                f"the call of {found[at][1]} for the record at offset {offset} of {at} has not "
                f"ended for {LONG_MS // 1000} s or more; timeout= of map_values_async() ends one"
            )
            for at, offset in self._waiting.for_long(offsets, now_ms).items()
        }
