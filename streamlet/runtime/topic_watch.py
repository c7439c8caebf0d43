"""Follows the topics there are while a worker runs: other partitions, topics that are gone."""

from __future__ import annotations

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.session import GroupSession
from streamlet.errors import BrokerError, TimedOutError
from streamlet.logs import get_logger
from streamlet.runtime.catalog import Catalog
from streamlet.tasks.missing_topics import MissingTopics
from streamlet.tasks.task_actions import TaskActions

log = get_logger(__name__)


@attrs.define(eq=False)
class TopicWatch:
    """Asks for another plan, and lets tasks begin again, where topics have changed.

    Args:
        catalog: knows the topics.
        missing: inputs that brokers did not know.
        group: our membership.
        actions: bring tasks up again.
        clock: the time.
    """

    _catalog: Catalog
    _missing: MissingTopics
    _group: GroupSession
    _actions: TaskActions
    _clock: Clock
    #: Generation of the last plan at which topics were looked for.
    _looked: int = attrs.field(default=-1, init=False)

    def step(self) -> None:
        """Look at once if a broker lacks an input, or if another member may have seen that.

        Raises:
            BrokerError: a topic is gone that is read by its name.
        """
        missing, self._missing.topics = self._missing.topics, set()
        try:
            self._catalog.check_named(missing)
        except (BrokerError, TimedOutError) as error:
            if not error.passing:
                raise
            self._missing.topics |= missing  # asked again in the next round
            log.warning("looking at topics: %s", error)
            return
        generation = self._actions.generation
        planned = generation != self._looked and bool(self._catalog.topology.patterns)
        if (missing or planned) and not self.look(self._clock.now_ms(), at_once=True):
            self._missing.topics |= missing  # as above
            return
        self._looked = generation

    def look(self, now_ms: int, *, at_once: bool = False) -> bool:
        """Look if it is time, or at once; False if it is to be tried again soon."""
        try:
            if self._catalog.look(now_ms, at_once=at_once):
                self._group.rejoin("there are other partitions")
            self._actions.follow_inputs(self._catalog.topic_ids)
        except (BrokerError, TimedOutError) as error:
            log.warning("looking at topics: %s", error)
            return not error.passing
        return True
