"""Fixtures for pytest, there for every project that has streamlet installed.

``bootstrap_servers`` is the address of a broker that lives as long as the test run, see
``streamlet.testing.broker`` for which. ``kafka_broker`` is the same broker as an object, for tests
that stop or kill it; they must leave it running. ``fault_proxy`` is a ``FaultProxy`` in
front of it, one for each test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamlet.broker.server import KafkaBroker
    from streamlet.testing.faults.proxy import FaultProxy


#: On a machine full of tests a broker with the topics of hundreds of them takes long to come back.
_START_TIMEOUT_MS = 180_000


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """A real broker of this test run; the test is skipped when the run uses another's broker."""
    from streamlet.testing.broker import KafkaBroker, broker_choice

    choice = broker_choice()
    if choice != "embedded":
        pytest.skip(f"needs a broker it may stop, and the run uses {choice}")
    with KafkaBroker(start_timeout_ms=_START_TIMEOUT_MS) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """``host:port`` of the test run's broker."""
    from streamlet.testing.broker import broker_choice, serving_as

    choice = broker_choice()
    if choice == "embedded":
        broker: KafkaBroker = request.getfixturevalue("kafka_broker")
        yield broker.bootstrap_servers
    else:
        with serving_as(choice) as address:
            yield address


@pytest.fixture
def fault_proxy(bootstrap_servers: str) -> Iterator[FaultProxy]:
    """A proxy in front of the test run's broker, for requests that fail on purpose."""
    from streamlet.testing.faults.proxy import FaultProxy

    with FaultProxy(bootstrap_servers) as proxy:
        yield proxy
