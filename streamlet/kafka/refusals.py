"""Refusals of brokers as errors of ours: of a login or certificate, and for want of a right."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError

from streamlet.errors import AuthenticationError, MissingRightError, WriteRightError
from streamlet.rights import CLUSTER_REFUSED, Right, missing


def refused_connection(where: str, error: KafkaError) -> AuthenticationError:
    """The error of a broker that answers, and refuses the login or one side's certificate."""
    return AuthenticationError(
        f"{where} was reached, and the connection is refused: {error.str()} ({error.name()}). "
        "Look at security.protocol, sasl.… and ssl.…"
    )


def missing_right(what: str, error: KafkaError, right: Right) -> MissingRightError:
    """The error of a request without its right."""
    return MissingRightError(f"{what}: {missing(right)} ({error.name()})")


def unwritable(what: str, error: KafkaError, topics: Iterable[str]) -> WriteRightError:
    """The error of records that may not be written, or of a producer that may write none.

    A producer needs a number of the cluster before it writes. WRITE on any topic is enough for it,
    but not before Kafka 2.8.
    """
    rights = [Right("WRITE", "topic", topic) for topic in sorted(topics)]
    if error.code() == CLUSTER_REFUSED:
        rights.append(Right("IDEMPOTENT_WRITE", "cluster"))
    return WriteRightError(f"{what}: {missing(*rights)} ({error.name()})")
