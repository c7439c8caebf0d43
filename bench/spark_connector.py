"""The JVM's Kafka connector for Spark: four jars, fetched once when they are not given."""

from __future__ import annotations

from pathlib import Path

from streamlet.broker.jars import jars

NAME = "spark-kafka-4.2.0"
SUMS = Path(__file__).parent / f"{NAME}.sha256"

#: Pinned together, not to the version of PySpark: the connector of the same version is not
#: published everywhere. These work with PySpark 4.2 and 4.3. Nothing else that the first one names
#: is needed: Spark brings it along.
COORDINATES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def connector_jars() -> list[Path]:
    """The connector's jars, for ``session(jars=…)``; fetched when they are not there yet.

    Raises:
        BrokerError: they cannot be fetched.
    """
    return jars(NAME, COORDINATES, transitive=False, sums=SUMS)
