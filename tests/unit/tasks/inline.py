"""A state updater that steps when a test says so, on the test's thread."""

from __future__ import annotations

from streamlet.clock import Clock
from streamlet.config import Settings
from streamlet.kafka.ports import Admin
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.changelog_reader import StoreChangelogReader
from streamlet.tasks.opening import TaskOpener
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.task_events import CopyFailed, Restored, RestoreFailed
from streamlet.testing.memory_ports import MemoryLog, MemorySource


class InlineRunner:
    """Goes round for the copies by ``round``, and to the end when they are closed."""

    def __init__(self, copies: StateUpdater) -> None:
        self._updater = copies

    def ordered(self, *, begin: bool) -> None: ...

    def join(self) -> None:
        self._updater.take_orders()
        self._updater.drop_all()


def inline_updater(
    log: MemoryLog, admin: Admin, opener: TaskOpener, targets: Targets, clock: Clock
) -> StateUpdater:
    """A state updater over a log, for ``step_all``."""
    updater = StateUpdater(
        open_stores=opener,
        reader=StoreChangelogReader(MemorySource(log, headers=True), admin, clock),
        restores=StoreChangelogReader(MemorySource(log, headers=True), admin, clock),
        targets=targets,
        settings=Settings.load(),
        clock=clock,
        runner=lambda copies, clock, settings: InlineRunner(copies),
    )
    updater.restoring = lambda progress: None
    return updater


def step_all(activation: Activation, copies: StateUpdater) -> list[ActiveTask]:
    """One round of a stream thread and of its state updater; the tasks that are ready."""
    ready: list[ActiveTask | None] = [*activation.step()]
    copies.take_orders()
    copies.step()
    copies.check()
    for event in copies.take():
        if isinstance(event, Restored):
            ready.append(activation.restored(event))
        elif isinstance(event, CopyFailed):
            activation.copy_failed(event)
        elif isinstance(event, RestoreFailed):
            activation.restore_failed(event)
    activation.check_invariants()
    return [active for active in ready if active is not None]
