"""``python -m tests.downloads``: fetches what tests run beside streamlet, before they need it.

An old Kafka, a schema registry, Kafka Streams with a compiler, and Spark's own connector: each once
for this machine's user. What cannot be fetched is named; the test that needs it says so again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from bench import spark_connector
from bench.peers import kafka_streams
from streamlet.broker import registry
from streamlet.errors import BrokerError
from tests.integration import test_old_broker

#: What is fetched, by a name for people.
WANTED: Final[dict[str, Callable[[], object]]] = {
    "an old Kafka": test_old_broker.fetched,
    "a schema registry": registry.fetched,
    "Kafka Streams": kafka_streams.fetched,
    "Spark's connector": spark_connector.connector_jars,
}


def main() -> int:
    """Fetch all; the exit status, 1 where something is missing."""
    missing = 0
    for name, fetch in WANTED.items():
        try:
            fetch()
        except BrokerError as error:
            missing = 1
            print(f"{name} cannot be fetched: {error}", file=sys.stderr)
        else:
            print(f"{name} is here", flush=True)
    return missing


if __name__ == "__main__":
    sys.exit(main())
