"""Inputs that brokers do not know: they may have been deleted while the application runs."""

from __future__ import annotations

import attrs

from streamlet.errors import MissingTopicError, StreamletError


@attrs.define
class MissingTopics:
    """Names of topics that brokers did not know; who looks at topics empties it."""

    topics: set[str] = attrs.field(factory=set)

    def waits_out(self, error: StreamletError) -> bool:
        """True if an answer of brokers may be another one soon; notes the topics that they lack."""
        if isinstance(error, MissingTopicError):
            self.topics |= error.topics
            return bool(error.topics)
        return error.passing
