"""A cluster whose machines know nothing of an application: what travels, and what survives kills.

One master and two workers, from the pip package, for all tests here. Neither they nor the driver's
JVM have our folders in their environment, and the executors' Python has no streamlet.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import attrs
import psutil
import pytest

from streamlet.broker.port import PortReservation
from streamlet.spark.cluster.java import java_home
from streamlet.testing import KafkaBroker
from tests.integration.chaos.support import wait_for
from tests.integration.spark import words
from tests.integration.spark.archive import from_archive
from tests.integration.spark.programs import LINES, counting, running

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.chaos,
]

OWN = Path(__file__).parent / "own"
#: Spark's settings of a driver on this cluster, which has little memory.
SMALL = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def python_without(folder: Path, *packages: str) -> str:
    """A Python with all that this one has installed, but for some packages and for streamlet."""
    packed, base = folder / "lib", Path(sys.base_prefix) / "bin" / "python3"
    site = packed / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    import attrs as installed

    for entry in Path(installed.__file__).parent.parent.iterdir():
        left_out = entry.suffix == ".pth" or entry.name.startswith(("streamlet", *packages))
        if not left_out:
            (site / entry.name).symlink_to(entry)
    return str(folder / "bin" / "python")


def another_minor() -> str | None:
    """A Python of another minor version, if this machine has one."""
    here = sys.version_info[1]
    for minor in (here + 1, here - 1, here + 2):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return None


@attrs.define
class SparkCluster:
    """A master, and workers of one core each."""

    folder: Path
    python: str
    master: str
    _stack: ExitStack
    workers: list[subprocess.Popen[bytes]] = attrs.field(factory=list)

    def start_worker(self) -> None:
        number = len(list(self.folder.glob("worker-*.log")))
        sizes = ["-c", "1", "-m", "1g", "-d", str(self.folder / f"worker-{number}")]
        command = daemon("worker.Worker", *sizes, self.master)
        log = self.folder / f"worker-{number}.log"
        self.workers.append(self._stack.enter_context(bare(command, log)))

    def executors(self) -> list[psutil.Process]:
        return [one for one in self._below() if "CoarseGrainedExecutorBackend" in said(one)]

    def python_workers(self) -> list[psutil.Process]:
        """Forked by the daemons of the executors."""
        below = self._below()
        daemons = {one.pid for one in below if "pyspark.daemon" in said(one)}
        found = []
        for one in below:
            with suppress(psutil.NoSuchProcess):
                if one.ppid() in daemons:
                    found.append(one)
        return found

    def _below(self) -> list[psutil.Process]:
        found = []
        for worker in self.workers:
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(worker.pid).children(recursive=True)
        return found


def said(process: psutil.Process) -> str:
    """Its command line; nothing if it has ended."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def daemon(name: str, *more: str) -> list[str]:
    """The command of one of Spark's daemons."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    return [str(program), f"org.apache.spark.deploy.{name}", *host, *more]


@contextmanager
def bare(command: list[str], log: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs elsewhere, with none of our folders in its environment."""
    elsewhere = log.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    environment = {
        "JAVA_HOME": str(java_home()),
        "PYTHONPATH": "",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with running(command, log, cwd=elsewhere, **environment, **more) as process:
        yield process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    python = python_without(folder / "without-streamlet")
    with ExitStack() as stack:
        port = str(stack.enter_context(PortReservation()).port)
        command = daemon("master.Master", "--port", port)
        stack.enter_context(bare(command, folder / "master.log"))
        found = SparkCluster(folder, python, f"spark://127.0.0.1:{port}", stack)
        found.start_worker()
        found.start_worker()
        yield found


@pytest.fixture
def broker(kafka_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """One with all lines in word count's topic."""
    words.create_topics(kafka_broker.bootstrap_servers)
    words.produce(kafka_broker.bootstrap_servers, LINES)
    yield kafka_broker
    words.delete_topics(kafka_broker.bootstrap_servers)


@contextmanager
def submitted(
    master: str, python: str, log: Path, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """``spark-submit drive.py``, from a folder that has nothing to do with the application."""
    import pyspark

    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", master]
    for key, value in {**SMALL, "spark.executor.extraJavaOptions": from_archive()}.items():
        command += ["--conf", f"{key}={value}"]
    pythons = {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": python}
    with bare([*command, str(OWN / "drive.py"), *arguments], log, **pythons) as driver:
        yield driver


def test_an_application_of_its_own_folder_survives_the_kill_of_every_process(
    cluster: SparkCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """The last driver runs on another master, with another number of cores."""
    dice, checkpoint, log = random.Random(4), tmp_path / "checkpoint", tmp_path / "log"
    poor = python_without(tmp_path / "poor", "rocksdict")
    tried = [poor, *filter(None, [another_minor()])]
    given = [broker.bootstrap_servers, str(checkpoint)]
    faults: list[Callable[[], object]] = [
        lambda: dice.choice(cluster.python_workers()).kill(),
        lambda: dice.choice(cluster.executors()).kill(),
        lambda: (cluster.workers.pop(0).kill(), cluster.start_worker()),
        broker.restart,
    ]
    with submitted(cluster.master, cluster.python, log, *given, "1ms", *tried) as driver:
        for fault in [*faults, lambda: None]:  # behind each of them the query goes on
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
            fault()
    refused = [line for line in log.read_text().splitlines() if line.startswith("refused: ")]
    assert "its Python lacks rocksdict; install streamlet[spark] there, or" in refused[0]
    assert len(refused) == len(tried), log.read_text()
    assert all("; the two must be the same" in line for line in refused[1:])
    assert words.batches(checkpoint) < len(LINES) / words.FEW, "nothing was left to do"
    with submitted(
        "local-cluster[1,3,700]", cluster.python, log, *given, "available-now"
    ) as driver:
        assert driver.wait(300) == 0, log.read_text()
    words.check(broker.bootstrap_servers, checkpoint, LINES, "updates")


@pytest.mark.long
def test_a_killed_executor_loses_nothing_that_spark_sql_aggregates(
    cluster: SparkCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    dice, checkpoint, log = random.Random(4), tmp_path / "checkpoint", tmp_path / "log"
    command = counting(
        broker.bootstrap_servers, checkpoint, "latest", cluster.master, "available-now"
    )
    with running(command, log, SPARK_LOCAL_IP="127.0.0.1") as driver:
        wait_for(lambda: words.batches(checkpoint) > 0 or driver.poll() is not None, "a batch", 300)
        time.sleep(dice.uniform(0, 0.8))  # any moment of a batch
        assert driver.poll() is None, log.read_text()
        dice.choice(cluster.executors()).kill()
        wait_for(lambda: driver.poll() is not None, "the driver ends", 300)
        assert driver.returncode == 0, log.read_text()
    words.check(broker.bootstrap_servers, checkpoint, LINES, "latest")
