"""Pieces over a log in memory that several tests put together in the same way."""

from __future__ import annotations

from collections.abc import Callable

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.kafka.ports import Admin
from streamlet.tasks.targets import CommittedPositions, Targets
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySource
from streamlet.topology.graph import Topology
from streamlet.types import TaskId, TopicPartition


def targets_over(
    log: MemoryLog,
    topology: Topology,
    positions: CommittedPositions,
    clock: Clock,
    *,
    admin: Admin | None = None,
    settings: Settings | None = None,
    inputs: Callable[[TaskId], tuple[TopicPartition, ...]] | None = None,
    later: Callable[[TopicPartition], bool] = lambda tp: False,
    remade: Callable[[TopicPartition], bool] = lambda tp: False,
) -> Targets:
    """Finds what tasks of the topology begin with; without ``inputs`` they read ``words``."""
    return Targets(
        topology,
        inputs=inputs or (lambda task: (TopicPartition("words", task.partition),)),
        positions=positions,
        admin=admin or MemoryAdmin(log),
        settings=settings or Settings.load(),
        open_source=lambda: MemorySource(log, headers=True),
        clock=clock,
        later=later,
        remade=remade,
    )
