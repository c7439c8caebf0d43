"""Queries that are stopped and killed at random moments end with the right counts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from streamlet.spark.plan.prepare import OutputKind
from tests.integration.chaos.support import wait_for
from tests.integration.spark import words
from tests.integration.spark.programs import LINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
]

#: Every update is written by tasks, and the latest per batch by Spark SQL.
by_tasks_and_by_sql = pytest.mark.parametrize("output", ["updates", "latest"])


@pytest.fixture
def broker(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with all lines in word count's topic."""
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    yield bootstrap_servers
    words.delete_topics(bootstrap_servers)


def python_workers() -> list[psutil.Process]:
    """Processes that run tasks: forked by a daemon that the JVM started."""
    ours = psutil.Process().children(recursive=True)
    forked_by = {p.pid for p in daemons()}
    return [p for p in ours if command(p) and p.ppid() in forked_by]


def daemons() -> list[psutil.Process]:
    """Processes that fork workers, without the workers, which have the same command."""
    ours = [
        p
        for p in psutil.Process().children(recursive=True)
        if "streamlet.spark.cluster.daemon" in command(p)
    ]
    every = {p.pid for p in ours}
    return [p for p in ours if p.ppid() not in every]


def command(process: psutil.Process) -> list[str]:
    """Its command line; none if it has ended."""
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


@by_tasks_and_by_sql
def test_stopping_in_the_middle_of_batches_commits_none_in_part(
    spark: SparkSession, broker: str, tmp_path: Path, output: OutputKind
) -> None:
    dice = random.Random(1)
    for _ in range(3):
        before = words.batches(tmp_path)
        query = words.begin(spark, broker, tmp_path, output=output)
        wait_for(lambda before=before: words.batches(tmp_path) > before, "a batch", 300)  # type: ignore[misc]
        time.sleep(dice.uniform(0, 0.8))  # any moment of a batch
        query.stop()
    words.finish(spark, broker, tmp_path, output=output)
    words.check(broker, tmp_path, LINES, output)


@by_tasks_and_by_sql
def test_killed_python_workers_lose_nothing_and_count_nothing_twice(
    spark: SparkSession, broker: str, tmp_path: Path, output: OutputKind
) -> None:
    dice = random.Random(2)
    query: StreamingQuery = words.begin(spark, broker, tmp_path, output=output)
    try:
        killed = 0
        for _ in range(5):
            before = words.batches(tmp_path)
            wait_for(lambda before=before: words.batches(tmp_path) > before, "a batch", 300)  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.5))
            victims = python_workers()
            if victims:
                with suppress(psutil.NoSuchProcess):
                    dice.choice(victims).kill()
                    killed += 1
        assert killed
    finally:
        query.stop()
    words.finish(spark, broker, tmp_path, output=output)
    words.check(broker, tmp_path, LINES, output)
