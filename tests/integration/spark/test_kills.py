"""Queries that are stopped and killed at random moments end with the right counts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from streamlet.spark.query import Connector
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).resolve().parents[3]
LINES = [f"w{n % 37} w{n % 11} w{n % 5} all" for n in range(5_000)]


@pytest.fixture
def broker(bootstrap_servers: str) -> Iterator[str]:
    """The address of a broker with all lines in word count's topic."""
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    yield bootstrap_servers
    words.delete_topics(bootstrap_servers)


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def python_workers() -> list[psutil.Process]:
    """Processes that run tasks: forked by a daemon that the JVM started."""
    ours = list(psutil.Process().children(recursive=True))
    daemons = {p.pid for p in ours if "pyspark.daemon" in " ".join(command(p))}
    return [p for p in ours if command(p) and p.ppid() in daemons]


def command(process: psutil.Process) -> list[str]:
    """Its command line; none if it has ended."""
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


@pytest.mark.parametrize("connector", ["java", "python"])
def test_stopping_in_the_middle_of_batches_commits_none_in_part(
    spark: SparkSession, broker: str, tmp_path: Path, connector: Connector
) -> None:
    dice = random.Random(1)
    for _ in range(3):
        before = words.batches(tmp_path)
        query = words.begin(spark, broker, tmp_path, connector=connector)
        wait_for(lambda before=before: words.batches(tmp_path) > before, 60)  # type: ignore[misc]
        time.sleep(dice.uniform(0, 0.8))  # any moment of a batch
        query.stop()
    words.finish(spark, broker, tmp_path, connector=connector)
    words.check_exact(words.consume(broker), LINES)


def test_killed_python_workers_lose_nothing_and_count_nothing_twice(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    dice = random.Random(2)
    query: StreamingQuery = words.begin(spark, broker, tmp_path)
    try:
        for _ in range(5):
            before = words.batches(tmp_path)
            wait_for(lambda before=before: words.batches(tmp_path) > before, 60)  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.5))
            victims = python_workers()
            if victims:
                with suppress(psutil.NoSuchProcess):
                    dice.choice(victims).kill()
    finally:
        query.stop()
    words.finish(spark, broker, tmp_path)
    words.check_exact(words.consume(broker), LINES)


@contextmanager
def driver(broker: str, checkpoint: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of its own, in a process group of its own."""
    command = [sys.executable, "-m", "tests.integration.spark.words", broker, str(checkpoint)]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def test_a_killed_driver_goes_on_where_it_was(
    spark: SparkSession, broker: str, tmp_path: Path
) -> None:
    """Driver, JVM and workers die at once, as with the machine; the checkpoint is what is left."""
    dice, checkpoint, log = random.Random(3), tmp_path / "checkpoint", tmp_path / "log"
    for _ in range(2):
        before = words.batches(checkpoint)
        with driver(broker, checkpoint, log) as process:
            wait_for(
                lambda before=before, process=process: (  # type: ignore[misc]
                    words.batches(checkpoint) > before or process.poll() is not None
                ),
                120,
            )
            assert process.poll() is None, log.read_text()
            time.sleep(dice.uniform(0, 0.8))
    words.finish(spark, broker, checkpoint)
    words.check_exact(words.consume(broker), LINES)
