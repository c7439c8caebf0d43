"""The errors of administrative requests: no answer, a refused login, a missing right, the rest."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streamlet.errors import (
    BROKER_ADVICE,
    NO_TOKEN,
    AuthenticationError,
    BrokerError,
    BrokerTooOldError,
    UnreachableError,
)
from streamlet.kafka.codes import NO_ANSWER, NO_TOPIC, NOT_NOW
from streamlet.kafka.oidc import TokenError
from streamlet.kafka.refusals import may_pass, missing_right, refused_connection
from streamlet.rights import REFUSED, Right


@attrs.frozen
class AdminErrors:
    """Makes the errors of one client's requests.

    Args:
        where: the brokers' addresses.
        timeout_ms: how long a request may take.
        refusal: the client's refused login or certificate, if it met one; or the reason why it had
            no token.
        look: what does not fit the listener among the settings, as a sentence; empty for nothing.
        broken: what became of the client's last connection; empty if none broke.
        no_token: asks the token endpoint, and gives the reason if it has no token; None: it has
            one, or there is no endpoint.
    """

    where: str
    timeout_ms: int
    refusal: Callable[[], KafkaError | None]
    look: Callable[[], str]
    broken: Callable[[], str] = str
    no_token: Callable[[], TokenError | None] = lambda: None

    def hopeless(self) -> AuthenticationError | None:
        """The error where trying again is of no use: a refusal, or settings that do not fit."""
        refused = self.refusal()
        if misfit := self.look():
            return AuthenticationError(misfit)
        if refused is None or may_pass(refused):
            return None
        return refused_connection(self.where, refused)

    def silent(self, reason: str = "") -> BrokerError:
        """The error for a request that no broker answered in time."""
        if (error := self.hopeless()) is not None:
            return error
        if (lack := self.no_token()) is not None:
            kind = AuthenticationError if lack.final else UnreachableError
            return kind(f"no answer from {self.where}: {NO_TOKEN}: {lack}")
        if (passing := self.refusal()) is not None:
            return UnreachableError(f"no answer from {self.where}: {NO_TOKEN}: {passing.str()}")
        if broken := self.broken():
            reason = f": {broken}"
        return UnreachableError(
            f"no answer from {self.where} within {self.timeout_ms} ms{reason}. {BROKER_ADVICE}"
        )

    def unreachable(self, error: KafkaException) -> BrokerError:
        """The error where the client gave up."""
        reason = error.args[0].str()
        if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
            return BrokerTooOldError(f"{self.where} is too old, Kafka 2.5 is needed: {reason}")
        return self.silent(f": {reason}")

    def failed(self, what: str, error: KafkaException, right: Right) -> BrokerError:
        """The error of an answer; ``right`` is what the request needs."""
        cause = error.args[0]
        if cause.code() in NO_ANSWER:
            return self.unreachable(error)
        if cause.code() in REFUSED:
            return missing_right(what, cause, right)
        kind = UnreachableError if cause.code() in NOT_NOW else BrokerError
        return kind(f"{what}: {cause.str()} ({cause.name()})")

    def of_topic(self, what: str, topic: str, error: KafkaException, operation: str) -> BrokerError:
        """The error of a request about one topic, which needs the right to this operation."""
        return self.failed(f"{what} {topic}", error, Right(operation, "topic", topic))

    def settings(
        self,
        topic: str,
        error: KafkaException,
        operation: str = "DESCRIBE_CONFIGS",
        *,
        listed: bool = False,
    ) -> BrokerError:
        """The error of a request about a topic's settings.

        ``listed``: the metadata has the topic, so a broker that does not know it has only just
        started, and will.
        """
        failed = self.of_topic("settings of topic", topic, error, operation)
        return (
            UnreachableError(str(failed)) if listed and error.args[0].code() in NO_TOPIC else failed
        )

    def offsets(self, partition: TopicPartition, error: KafkaException) -> BrokerError:
        """The error of a request for an offset of a partition."""
        what = f"offsets of {partition.topic}-{partition.partition}"
        return self.failed(what, error, Right("DESCRIBE", "topic", partition.topic))
