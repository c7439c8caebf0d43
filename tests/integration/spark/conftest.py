"""One Spark session for all tests here; its JVM ends with the test run."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import streamlet.spark
from tests.integration.spark import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark says that a pandas newer than the extra asks for may not work; it need not here."""
    ignored = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(ignored)


@pytest.fixture(scope="session", autouse=True)
def short_lived() -> Iterator[None]:
    """Processes of Spark's that tests start, also by programs of their own, are to start soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LAUNCHER_OPTS", archive.short_lived())
        if find_spec("pyspark"):
            patch.setenv("SPARK_HOME", str(archive.spark_home()))
            for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
                patch.setenv(name, archive.from_archive())
        yield


@pytest.fixture(autouse=True)
def both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics of tests are small: of a batch's ranges some are handed on, and some are packed."""
    pytest.importorskip("pyspark")
    monkeypatch.setattr("streamlet.spark.kafka.python_kafka.HANDED_ON", 3)


@pytest.fixture
def topics(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with word count's topics, empty."""
    from tests.integration.spark import words  # needs the extra spark

    words.create_topics(bootstrap_servers)
    yield bootstrap_servers
    words.delete_topics(bootstrap_servers)


@pytest.fixture(scope="session")
def spark(short_lived: None) -> Iterator[SparkSession]:
    """A session on two cores; skips where the extra ``spark`` is missing."""
    pytest.importorskip("pyspark")
    session = streamlet.spark.session(
        "streamlet-tests",
        master="local[2,4]",  # a failing task is tried again, as on a cluster
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            # Files that are not needed any more are deleted soon.
            "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
            # Every sort spills to disk, as large ones do, which mixes the rows of a group.
            "spark.shuffle.spill.numElementsForceSpillThreshold": "3",
        },
    )
    yield session
    streamlet.spark.stop(session)
