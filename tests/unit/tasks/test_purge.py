"""What was read of repartition topics is deleted, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from streamlet.state.drained import Drained
from streamlet.tasks.commit_loop import Purge
from streamlet.tasks.commit_share import TaskCommit
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.types import StateNumber, TopicPartition

#: Between deletions.
INTERVAL_MS = 30_000
OURS = TopicPartition("app-words-repartition", 0)
THEIRS = TopicPartition("lines", 0)


def committed(*, ours: int, theirs: int) -> TaskCommit:
    """A commit that was accepted; the purge looks at nothing else of it."""
    positions = {OURS: ours, THEIRS: theirs}
    return TaskCommit(cast(Any, SimpleNamespace(remade=False)), 1, positions, StateNumber(1, 1))


def test_only_committed_records_of_our_topics_go_and_only_once_an_interval() -> None:
    log = MemoryLog()
    for tp in (OURS, THEIRS):
        log.create(tp.topic)
        log.append(tp, [b"k"] * 10, [b"v"] * 10)
    purge = Purge(MemoryAdmin(log), [OURS.topic], INTERVAL_MS)

    purge.committed(committed(ours=4, theirs=9))
    purge.run(1_000)
    assert log.start(OURS) == 0, "an interval has to pass first"
    purge.committed(committed(ours=6, theirs=9))
    purge.run(1_000 + INTERVAL_MS)
    assert (log.start(OURS), log.start(THEIRS)) == (6, 0)

    purge.committed(committed(ours=8, theirs=9))
    purge.run(1_001 + INTERVAL_MS)
    assert log.start(OURS) == 6
    purge.run(1_000 + 2 * INTERVAL_MS)
    assert log.start(OURS) == 8


def test_changelogs_are_cut_off_where_the_commit_says() -> None:
    log, changelog = MemoryLog(), TopicPartition("app-counts-changelog", 0)
    log.create(changelog.topic)
    log.append(changelog, [b"k"] * 10, [b"v"] * 10)
    purge = Purge(MemoryAdmin(log), [], INTERVAL_MS)
    purge.run(0)
    purge.committed(expired({changelog: 4}))
    purge.committed(expired({}))
    purge.run(INTERVAL_MS)
    assert log.start(changelog) == 4


def test_a_process_that_slept_deletes_nothing_of_topics_that_may_have_been_made_again() -> None:
    log, changelog = MemoryLog(), TopicPartition("app-counts-changelog", 0)
    log.create(changelog.topic)
    log.append(changelog, [b"k"] * 10, [b"v"] * 10)
    alive = [False, True]
    purge = Purge(MemoryAdmin(log), [], INTERVAL_MS, lambda: alive.pop(0))
    purge.run(0)
    purge.committed(expired({changelog: 4}))
    purge.run(INTERVAL_MS)
    purge.run(2 * INTERVAL_MS)
    assert log.start(changelog) == 0
    purge.committed(expired({changelog: 5}))
    purge.run(3 * INTERVAL_MS)
    assert log.start(changelog) == 5


def expired(starts: dict[TopicPartition, int]) -> TaskCommit:
    """A commit with which changelogs may begin later."""
    drained = Drained({}, {}, starts)
    return TaskCommit(cast(Any, SimpleNamespace(remade=False)), 1, {}, StateNumber(1, 1), drained)
