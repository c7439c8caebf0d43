"""Marking instances of a cluster, what the control topic says of them, and what must hold then."""

from __future__ import annotations

import time
from collections.abc import Sequence

from streamlet.config import Settings
from streamlet.control.topic import ControlTopic
from streamlet.control.values import Mark, MemberProgress
from streamlet.hosting.clients import open_control
from streamlet.state.directory import INSTANCE_LOCK, fields_of
from tests.integration.chaos.checks import assert_counts_exact, contents
from tests.integration.chaos.support import Cluster, Instance, wait_for
from tests.integration.chaos.topics import Load

#: Tasks are shared out when the group begins, and no learner ever takes one over.
NEVER_READY = {"learner_ready_linger_ms": "600000", "initial_assignment_delay_ms": "10000"}


def process_id(cluster: Cluster, instance: Instance) -> str:
    """What an instance is called in the control topic."""
    return str(fields_of(instance.state / cluster.name / INSTANCE_LOCK)["process_id"])


class Marks:
    """The control topic of a cluster, read on."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        settings = Settings.load({"bootstrap.servers": cluster.servers})
        self.control: ControlTopic = open_control(cluster.name, settings)
        self.control.read()

    def mark(self, instance: Instance, deadline_in_ms: int | None = None) -> None:
        """Mark an instance to leave."""
        now = time.time_ns() // 1_000_000
        deadline = None if deadline_in_ms is None else now + deadline_in_ms
        self.control.write(Mark(process_id(self._cluster, instance), now, deadline, instance.name))
        self.control.flush()

    def cancel(self, instance: Instance) -> None:
        """Remove the mark of an instance."""
        self.control.remove((Mark, process_id(self._cluster, instance)))
        self.control.flush()

    def names(self) -> set[str]:
        """Instances that are marked now."""
        self._catch_up()
        return {mark.name for mark in self.control.view.marks.values()}

    def of(self, instance: Instance) -> MemberProgress | None:
        """What the first member of an instance said last."""
        self._catch_up()
        said = self.control.view.progress.values()
        return next((one for one in said if one.member == f"{instance.name}-0"), None)

    def await_leaving(self, instance: Instance, leaving: bool) -> None:
        """Wait until an instance says that it leaves, or that it stays."""

        def says_so() -> bool:
            said = self.of(instance)
            return said is not None and said.leaving is leaving

        wait_for(says_so, lambda: f"{instance.name} says leaving={leaving}: {self.control.view}")

    def _catch_up(self) -> None:
        while self.control.follow(0):
            pass


def assert_nothing_lost(cluster: Cluster, living: Sequence[Instance], load: Load) -> None:
    """Everything is processed, and counted once."""
    true = load.finish()
    cluster.await_settled()
    for one in living:
        one.interrupt()
    assert [one.wait() for one in living] == [0] * len(living), cluster.logs()
    assert_counts_exact(cluster, contents(cluster, cluster.instances), true)
