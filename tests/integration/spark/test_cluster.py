"""A cluster of a master and two workers, from the pip package, that loses executors."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from streamlet.spark.java import java_home
from tests.integration.chaos.support import wait_for
from tests.integration.spark import words
from tests.integration.spark.programs import LINES, ROOT, counting, running

if TYPE_CHECKING:
    from streamlet.spark.prepare import OutputKind

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
    pytest.mark.timeout(600),
]


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


def executors(workers: list[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    found = []
    for worker in workers:
        for process in psutil.Process(worker.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if any("CoarseGrainedExecutorBackend" in part for part in process.cmdline()):
                    found.append(process)
    return found


@pytest.mark.parametrize(("output", "kills"), [("updates", 2), ("latest", 1)])
def test_killed_executors_lose_nothing_and_count_nothing_twice(
    bootstrap_servers: str, tmp_path: Path, output: OutputKind, kills: int
) -> None:
    dice, checkpoint, log = random.Random(4), tmp_path / "checkpoint", tmp_path / "driver.log"
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    try:
        with cluster(tmp_path) as (master, workers):
            command = counting(bootstrap_servers, checkpoint, output, master, "available-now")
            with running(command, log, SPARK_LOCAL_IP="127.0.0.1") as driver:
                for _ in range(kills):
                    before = words.batches(checkpoint)
                    wait_for(
                        lambda before=before: (  # type: ignore[misc]
                            words.batches(checkpoint) > before or driver.poll() is not None
                        ),
                        "a batch",
                        200,
                    )
                    time.sleep(dice.uniform(0, 0.8))  # any moment of a batch
                    assert driver.poll() is None, log.read_text()
                    dice.choice(executors(workers)).kill()
                wait_for(lambda: driver.poll() is not None, "the driver ends", 200)
                assert driver.returncode == 0, log.read_text()
        words.check(bootstrap_servers, checkpoint, LINES, output)
    finally:
        words.delete_topics(bootstrap_servers)
