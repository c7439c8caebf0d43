"""What was read of repartition topics is deleted, and nothing else."""

from __future__ import annotations

from typing import Any, cast

from streamlet.runtime.active import ActiveTask
from streamlet.runtime.purge import PURGE_INTERVAL_MS, Purge
from streamlet.testing.ports import MemoryAdmin, MemoryLog
from streamlet.types import TopicPartition

OURS = TopicPartition("app-words-repartition", 0)
THEIRS = TopicPartition("lines", 0)


def committed(**offsets: int) -> ActiveTask:
    """A task as a commit leaves it; the purge looks at nothing else of it."""
    positions = {OURS: offsets["ours"], THEIRS: offsets["theirs"]}
    return ActiveTask(cast(Any, None), cast(Any, None), committed=positions)


def test_only_committed_records_of_our_topics_go_and_only_once_an_interval() -> None:
    log = MemoryLog()
    for tp in (OURS, THEIRS):
        log.create(tp.topic)
        log.append(tp, [b"k"] * 10, [b"v"] * 10)
    purge = Purge(MemoryAdmin(log), [OURS.topic])

    purge.committed(committed(ours=4, theirs=9))
    purge.run(1_000)
    assert log.start(OURS) == 0, "an interval has to pass first"
    purge.committed(committed(ours=6, theirs=9))
    purge.run(1_000 + PURGE_INTERVAL_MS)
    assert (log.start(OURS), log.start(THEIRS)) == (6, 0)

    purge.committed(committed(ours=8, theirs=9))
    purge.run(1_001 + PURGE_INTERVAL_MS)
    assert log.start(OURS) == 6
    purge.run(1_000 + 2 * PURGE_INTERVAL_MS)
    assert log.start(OURS) == 8
