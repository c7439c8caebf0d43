"""Records with epochs that no owner had: what copies and owners make of them."""

from __future__ import annotations

import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import Committed
from streamlet.state.changelog import encode_column
from streamlet.state.task_state import TaskState
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.open_task import OpenTask
from streamlet.tasks.target import Target
from streamlet.tasks.targets import _name_unreadable
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import StateNumber, TaskId
from tests.unit.state.support import Spec, changelog

TASK, LOG = TaskId(0, 0), changelog("s", 0)
FAR, NEAR = 1 << 62, 9


class World:
    """A changelog of an owner of epoch 3, with a forged record amid it, and its reader."""

    def __init__(self, forged: int) -> None:
        self.log = MemoryLog()
        self.log.create(LOG.topic, 1)
        for epoch, number, key in ((3, 1, "a"), (forged, 1, "z"), (3, 2, "a"), (3, 3, "b")):
            values, headers = encode_column(
                StateNumber(epoch, number), [bytes(15) + b"%c" % number]
            )
            self.log.append(LOG, [key.encode()], values, headers=headers)
        self.reader = StoreChangelogReader(
            MemorySource(self.log, headers=True), MemoryAdmin(self.log), ManualClock()
        )
        self.state = TaskState(None, [Spec("s")], 1 << 20, {"s": LOG})

    def target(self) -> Target:
        """What the owner committed last."""
        metadata = CommitMetadata(3, "one", 7, {LOG: 4}, StateNumber(3, 3))
        return Target(ends={LOG: 4}, epoch=3, limit=metadata.state, metadata=metadata)

    def restored(self) -> OpenTask:
        """The task, restored to that."""
        job = OpenTask(TASK, self.state).restore(self.target())
        self.reader.add(job)
        assert self.reader.step(10) == [job]
        return job


@pytest.mark.parametrize(("forged", "beyond"), [(FAR, None), (NEAR, (NEAR, 1))])
def test_an_owner_restores_all_that_its_predecessor_wrote(
    forged: int, beyond: tuple[int, int] | None
) -> None:
    """Of an epoch that could be it is told: positions may have been set back."""
    world = World(forged)
    job = world.restored()
    assert dict(world.state.stores["s"].range()) == {"a": 2, "b": 3}
    assert job.beyond == beyond
    assert set(world.state.again["s"]) == {b"z"}, "compaction may have kept it alone"


@pytest.mark.parametrize(("forged", "promoted"), [(FAR, True), (NEAR, False)])
def test_a_copy_that_left_out_what_counts_is_read_again(forged: int, promoted: bool) -> None:
    world = World(forged)
    world.reader.add(OpenTask(TASK, world.state).follow(Target(ends={LOG: 0})))
    assert world.reader.step(10) == []
    assert world.reader.promote(TASK, world.target()) is promoted
    if promoted:
        assert len(world.reader.step(10)) == 1
        assert dict(world.state.stores["s"].range()) == {"a": 2, "b": 3}


def test_a_running_owner_writes_the_keys_of_a_forged_epoch_again() -> None:
    """It is not taken for a successor."""
    world = World(FAR)
    log, clock = world.log, ManualClock()
    delivery = ChangelogDelivery(
        *(MemorySink(log), MemoryAdmin(log), clock, lambda: MemorySource(log, headers=True), 1_000)
    )
    assert delivery._foreign_keys(LOG, 0, 4, 3) == [b"z"]


def test_a_text_that_cannot_be_read_is_named_with_its_position(
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = {changelog("in", 0): Committed(7, '{"v":1,"epoch":-5}', 0), LOG: Committed(8, "", 0)}
    _name_unreadable(texts)
    (line,) = caplog.messages
    assert "in-changelog-0: the text beside its position 7 tells nothing" in line.replace(
        "app-", ""
    )
