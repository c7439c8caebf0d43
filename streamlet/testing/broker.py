"""The broker a test run speaks to, as ``STREAMLET_TEST_BROKER`` says.

``embedded`` (also when it is not set): real Kafka started here, see ``KafkaBroker``.
``container``: Kafka in a container; needs the package testcontainers and a container runtime.
``host:port``: a broker that is there already; nothing is started or ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from streamlet.broker.server import KafkaBroker
from streamlet.errors import BrokerError, ConfigError

__all__ = ["KafkaBroker", "broker_choice", "serving_as"]

VARIABLE = "STREAMLET_TEST_BROKER"

#: What tests rely on, as the images' entry point wants it said.
_CONTAINER_SETTINGS = {
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_LOG_RETENTION_MS": "-1",
}


def broker_choice() -> str:
    """``embedded``, ``container``, or the ``host:port`` of a broker that is there.

    Raises:
        ConfigError: the variable says anything else.
    """
    choice = os.environ.get(VARIABLE) or "embedded"
    _, colon, port = choice.rpartition(":")
    if choice not in ("embedded", "container") and not (colon and port.isdigit()):
        raise ConfigError([f"{VARIABLE} is {choice!r}, not embedded, container or host:port"])
    return choice


@contextmanager
def serving_as(choice: str) -> Iterator[str]:
    """The address of a broker of this choice, which lives as long as the block."""
    if choice == "embedded":
        with KafkaBroker() as broker:
            yield broker.bootstrap_servers
    elif choice == "container":
        with _container() as address:
            yield address
    else:
        yield choice


@contextmanager
def _container() -> Iterator[str]:
    try:
        from testcontainers.community.kafka import KafkaContainer
    except ModuleNotFoundError:
        try:  # where it was before testcontainers had a community part
            from testcontainers.kafka import KafkaContainer
        except ModuleNotFoundError as error:
            raise BrokerError(
                f"{VARIABLE}=container needs a package; run: pip install testcontainers"
            ) from error
    try:
        container = KafkaContainer().with_kraft()
        for name, value in _CONTAINER_SETTINGS.items():
            container = container.with_env(name, value)
        container.start()
    except Exception as error:  # whatever the container runtime's client raises
        raise BrokerError(f"{VARIABLE}=container, and none can be started: {error}") from error
    try:
        yield container.get_bootstrap_server()
    finally:
        container.stop()
