"""A cluster of a master and two workers, from the pip package, that loses executors."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from streamlet.spark.java import java_home
from tests.integration.spark import words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
    pytest.mark.timeout(600),
]

ROOT = Path(__file__).resolve().parents[3]
LINES = [f"w{n % 37} w{n % 11} w{n % 5} all" for n in range(5_000)]


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, all of which is gone at the end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        family = [process.pid, *(p.pid for p in psutil.Process(process.pid).children(True))]
        for pid in family:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        process.wait(30)


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Address of a master, and its two workers of one core each."""
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    master = f"spark://127.0.0.1:{port}"
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    environment = {
        "JAVA_HOME": str(java_home()),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        command = [spark_class, f"{deploy}.master.Master", *host, "--port", port]
        stack.enter_context(running(command, folder / "master.log", **environment))
        workers = []
        for number in range(2):
            work = folder / f"worker-{number}"
            sizes = ["-c", "1", "-m", "1g", "-d", str(work)]
            command = [spark_class, f"{deploy}.worker.Worker", *host, *sizes, master]
            log = folder / f"worker-{number}.log"
            workers.append(stack.enter_context(running(command, log, **environment)))
        yield master, workers


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def executors(workers: list[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    found = []
    for worker in workers:
        for process in psutil.Process(worker.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if any("CoarseGrainedExecutorBackend" in part for part in process.cmdline()):
                    found.append(process)
    return found


def test_killed_executors_lose_nothing_and_count_nothing_twice(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    dice, checkpoint, log = random.Random(4), tmp_path / "checkpoint", tmp_path / "driver.log"
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    try:
        with cluster(tmp_path) as (master, workers):
            program = [sys.executable, "-m", "tests.integration.spark.words"]
            command = [*program, bootstrap_servers, str(checkpoint), master]
            with running(command, log, SPARK_LOCAL_IP="127.0.0.1") as driver:
                for _ in range(2):
                    before = words.batches(checkpoint)
                    wait_for(
                        lambda before=before: (  # type: ignore[misc]
                            words.batches(checkpoint) > before or driver.poll() is not None
                        ),
                        200,
                    )
                    assert driver.poll() is None, log.read_text()
                    time.sleep(dice.uniform(0, 0.8))  # any moment of a batch
                    dice.choice(executors(workers)).kill()
                before = words.batches(checkpoint)
                wait_for(lambda: words.batches(checkpoint) > before, 200)
        words.finish(spark, bootstrap_servers, checkpoint)
        words.check_exact(words.consume(bootstrap_servers), LINES)
    finally:
        words.delete_topics(bootstrap_servers)
