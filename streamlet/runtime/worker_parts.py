"""The parts of a worker that reach outside: they bring tasks up, keep copies, and commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from streamlet.config import Settings
from streamlet.coordinator.session import GroupSession
from streamlet.processing.edges.plan import EdgePlan
from streamlet.processing.global_tables import GlobalTables
from streamlet.processing.policy import ErrorPolicy
from streamlet.runtime.catalog import Catalog
from streamlet.runtime.worker_ports import WorkerPorts
from streamlet.tasks.activation import Activation
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import LOOK_MS, AtLeastOnceCommit
from streamlet.tasks.commit_loop import Purge
from streamlet.tasks.open_task import RestoreProgress
from streamlet.tasks.served_copies import ServedCopies
from streamlet.tasks.state_updater import StateUpdater
from streamlet.tasks.targets import Targets
from streamlet.tasks.transactional_commit import TransactionalCommit


@attrs.frozen(eq=False)
class WorkerParts:
    """Makes these of a worker's ports; both know by the same requests where tasks begin."""

    settings: Settings
    ports: WorkerPorts
    catalog: Catalog
    #: As of ``Observer``.
    settled: Callable[[bool], None]
    targets: Targets = attrs.field(init=False)

    @targets.default
    def _asking(self) -> Targets:
        ports = self.ports
        return Targets(
            self.catalog.topology,
            inputs=self.catalog.inputs_of,
            later=self.catalog.came_later,
            remade=self.catalog.was_remade,
            positions=ports.positions,
            admin=ports.log_admin,
            settings=self.settings,
            open_source=partial(ports.open_source, "entries"),
            clock=ports.clock,
            thread=ports.threads.asking(),
        )

    def state_updater(
        self,
        wake: Callable[[], None],
        restoring: Callable[[RestoreProgress], None],
        copies: ServedCopies,
        copying: Callable[[RestoreProgress], None] | None,
    ) -> StateUpdater:
        """Keeps copies and restores; see there for the arguments.

        ``copying`` is called with the progress of copies, on the thread that reads them.
        """
        ports = self.ports
        reader = ports.open_reader("copies")
        reader.progress = copying
        return StateUpdater(
            open_stores=ports.open_stores,
            reader=reader,
            restores=ports.open_reader("restore"),
            targets=self.targets,
            settings=self.settings,
            clock=ports.clock,
            wake=wake,
            runner=ports.threads.copies,
            restoring=restoring,
            copies=copies,
        )

    def commit(
        self,
        group: GroupSession,
        settle: Callable[[ActiveTask], None],
        tasks: Callable[[], Sequence[ActiveTask]],
    ) -> AtLeastOnceCommit:
        """Commits of these tasks by way of this membership; ``settle`` ends a task's batch."""
        look_ms = min(LOOK_MS, self.settings.metadata_max_age_ms)
        parts = group, self.ports.delivery, self.ports.clock
        texts, sink = self.catalog.texts, self.ports.transactions
        if sink is None:
            return AtLeastOnceCommit(*parts, texts=texts, look_ms=look_ms, settle=settle)
        if texts.max_bytes is not None:  # the client writes a zero byte behind each
            texts = attrs.evolve(texts, max_bytes=texts.max_bytes - 1)
        return TransactionalCommit(
            *parts,
            texts=texts,
            look_ms=look_ms,
            settle=settle,
            sink=sink,
            tasks=tasks,
            settled=self.settled,
        )

    def purge(self, alive: Callable[[], bool]) -> Purge:
        """Deletes what was read of internal topics, while the membership is ``alive``."""
        topics = frozenset(self.catalog.topology.repartition_topics)
        pause_ms = self.settings.repartition_purge_interval_ms
        return Purge(self.ports.admin, topics, pause_ms, alive)

    def activation(
        self,
        updater: StateUpdater,
        edges: EdgePlan,
        policy: ErrorPolicy,
        tables: GlobalTables | None,
    ) -> Activation:
        """Brings tasks up that process by this policy and read these global tables."""
        ports, catalog = self.ports, self.catalog
        return ports.activation(
            catalog.topology,
            targets=self.targets,
            open_stores=ports.open_stores,
            updater=updater,
            settings=self.settings,
            edges=edges,
            new_task=partial(
                ports.new_task,
                policy=policy,
                partition_counts=catalog.counts,
                idle_ms=self.settings.max_task_idle_ms,
                wall_ms=ports.clock.wall_ms,
                now_ns=ports.clock.now_ns,
                global_stores=None if tables is None else tables.stores,
            ),
            limits=catalog.limits.by_topic,
            clock=ports.clock,
        )
