"""An application with the settings that it runs by, as a host is given it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from streamlet.config import Settings
from streamlet.processing.policy import ErrorPolicy
from streamlet.rebalance.leader import Assignor
from streamlet.runtime.listeners import Listeners
from streamlet.tasks.served_tasks import ServedTasks
from streamlet.topology.graph import Topology

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


@attrs.frozen
class HostedApp:
    """The parts of an application that workers are made of."""

    topology: Topology
    settings: Settings
    policy: ErrorPolicy
    assignor: Assignor | None = None
    listeners: Listeners = attrs.field(factory=Listeners)
    served: ServedTasks = attrs.field(factory=ServedTasks)
    tracer_provider: TracerProvider | None = None

    @property
    def name(self) -> str:
        """The application's name."""
        return self.topology.application
