"""The topics that a query writes, and the records that they take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from streamlet.clock import SystemClock
from streamlet.kafka.limits import LearnedLimits, TopicLimits

#: What the processes of a cluster have learned of topics, by their clients' settings.
_LEARNED: dict[str, LearnedLimits] = {}


@attrs.frozen
class WrittenTopics:
    """The limits of topics that a query writes by name, and how to ask for those of others.

    It is small, and sent to every worker. Without an address no topic is asked for.
    """

    limits: TopicLimits = attrs.field(factory=TopicLimits)
    bootstrap_servers: str = ""
    admin: Mapping[str, Any] = attrs.field(factory=dict, repr=False)

    def learned(self) -> LearnedLimits:
        """The limits, and what this process has learned of other topics."""
        if not self.bootstrap_servers:
            return LearnedLimits(self.limits, None, {}, SystemClock())
        key = self.bootstrap_servers + json.dumps(dict(self.admin))
        known = _LEARNED.get(key)
        if known is None or known.start != self.limits:
            known = _LEARNED[key] = LearnedLimits(self.limits, self._ask, {}, SystemClock())
        return known

    def _ask(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        from streamlet.kafka.client import KafkaAdmin

        return KafkaAdmin(self.bootstrap_servers, dict(self.admin)).topic_settings(topics)
