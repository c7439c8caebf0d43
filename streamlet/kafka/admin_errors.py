"""The errors of administrative requests, in our own kinds."""

from __future__ import annotations

import attrs
from confluent_kafka import KafkaError, KafkaException

from streamlet.errors import BROKER_ADVICE, BrokerError, BrokerTooOldError, UnreachableError
from streamlet.kafka.codes import NO_ANSWER, NOT_NOW


@attrs.frozen
class AdminErrors:
    """Makes errors of what brokers answer, or do not.

    Args:
        where: the brokers, ``host:port,…``.
        timeout_ms: the time that a request may take.
    """

    _where: str
    _timeout_ms: int

    def silent(self, reason: str = "") -> BrokerError:
        """The error for brokers that did not answer in time, or for a reason."""
        return UnreachableError(
            f"no answer from {self._where} within {self._timeout_ms} ms{reason}. {BROKER_ADVICE}"
        )

    def unreachable(self, error: KafkaException) -> BrokerError:
        """The error for brokers that cannot be reached, or are too old."""
        reason = error.args[0].str()
        if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
            return BrokerTooOldError(f"{self._where} is too old, Kafka 2.5 is needed: {reason}")
        return self.silent(f": {reason}")

    def failed(self, what: str, error: KafkaException) -> BrokerError:
        """The error for a request, named by ``what``, that was refused."""
        cause = error.args[0]
        if cause.code() in NO_ANSWER:
            return self.unreachable(error)
        kind = UnreachableError if cause.code() in NOT_NOW else BrokerError
        return kind(f"{what}: {cause.str()} ({cause.name()})")
