"""Makes a Spark session with the settings that streamlet's queries need, and ends it for good."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from streamlet.errors import StreamletError
from streamlet.spark.cluster.gateway import running_settings, start_jvm
from streamlet.spark.cluster.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The only state store that can hold what a stateful task keeps, and how it is saved.
ROCKSDB_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"

_SETTINGS = {
    PROVIDER_SETTING: ROCKSDB_PROVIDER,
    # Saves what changed, not the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # What the UI and the event log show as stars: Spark's own words, and what Kafka's clients add.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|ssl[.]key|private.?key",
    # A column of a wrong type would otherwise fail inside the JVM, with a message about nothing.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
}

#: In one process nothing needs to be reached from outside.
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Only here: on a cluster streamlet may come with the job, and a daemon starts without that.
    "spark.python.daemon.module": "streamlet.spark.cluster.daemon",
    # Over TCP the JVM holds the end of what it sends to a worker back until the worker's kernel has
    # acknowledged the beginning, which it does after 40 ms: each batch waits for that. Only here:
    # on a cluster the path of a container's temporary folder may be too long for a socket.
    "spark.python.unix.domain.socket.enabled": "true",
}

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_pyspark() -> None:
    """Check that PySpark can be imported.

    Raises:
        StreamletError: it cannot; the message says what to install.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise StreamletError(
            "Spark needs the package pyspark; run: pip install 'streamlet[spark]'"
        ) from error


def session(
    name: str | None = None,
    *,
    master: str | None = None,
    jars: Sequence[Path | str] = (),
    packages: Sequence[str] = (),
    files: Sequence[Path | str] = (),
    archives: Sequence[Path | str] = (),
    config: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> SparkSession:
    """A Spark session in which streamlet's queries run; the active one if there is one.

    The JVM is started on ``JAVA_HOME`` if that is 17 or newer, else on the Java that pip brought.
    It sees the modules that this process sees, and logs errors only. Under ``spark-submit`` it is
    there already, and what was given to ``spark-submit`` goes before what is chosen here.

    Args:
        name: of the Spark application; ``streamlet`` if nothing names it.
        master: ``local[2]``, ``spark://host:port``, …; ``local[*]`` if nothing names it.
        jars: on the class path of driver and executors.
        packages: jars by their Maven coordinates, ``group:artifact:version``.
        files: copied to each executor.
        archives: unpacked on each executor, as ``env.tar.gz#env``.
        config: settings of Spark's, over those chosen here. ``spark.pyspark.python`` is the
            executors' Python, as the variable ``PYSPARK_PYTHON`` is.
        verbose: print what Spark logs with its traces; else an error is one line, which names its
            cause. Only for a JVM that this starts.

    Raises:
        StreamletError: PySpark is not installed, there is no Java, or Spark does not start on it.
        ConfigError: settings that come too late for the session, or the JVM, that runs already.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    lists = {
        "spark.jars": jars,
        "spark.jars.packages": packages,
        "spark.files": files,
        "spark.archives": archives,
        "spark.master": [] if master is None else [master],
    }
    given = {key: ",".join(map(str, many)) for key, many in lists.items() if many}
    settings = _settings(given | dict(config or {}), name)
    log4j = resources.files("streamlet.spark") / "log4j2.properties"
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    with resources.as_file(log4j) as file, _environment(_found_on_path(python, settings)):
        options = f"-Dlog4j2.configurationFile={file} "
        options += settings.get("spark.driver.extraJavaOptions", "")
        settings["spark.driver.extraJavaOptions"] = options.strip()
        start_jvm(settings, verbose=verbose)
        builder = SparkSession.builder
        for key, value in sorted(settings.items()):
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
    # It is for executors' own start; a worker on the driver would find another Python's modules.
    spark.sparkContext.environment.pop("PATH", None)
    return spark


def _settings(given: dict[str, str], name: str | None) -> dict[str, str]:
    """The given settings, over those that run already, over those chosen here."""
    running = running_settings(given)
    if name is not None:
        given["spark.app.name"] = name
    settings = {"spark.master": "local[*]", "spark.app.name": "streamlet"} | running | given
    local = settings["spark.master"].startswith("local")
    return _SETTINGS | (_LOCAL_SETTINGS if local else {}) | settings


def _found_on_path(python: str | None, settings: dict[str, str]) -> str:
    """The name of a Python of an archive, which executors find on a path that it is put on.

    The driver's own workers start by the same name, and the archive does not lie in its folder:
    they find the Python that runs here. Any other Python is returned as it is.
    """
    if python is None or "/" not in python or python.startswith("/") or _submitted():
        return python or sys.executable
    folder, _, name = python.rpartition("/")
    settings.setdefault("spark.executorEnv.PATH", f"{folder}:{_USUAL_PATH}")
    return name


def _submitted() -> bool:
    """True under ``spark-submit``, which has chosen the driver's folder."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def stop(spark: SparkSession) -> None:
    """Stop a session, and end the JVM that this process started for it, and wait for its end.

    ``spark.stop()`` leaves the JVM to the end of the Python process.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    spark.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return  # Spark Connect, or a JVM that another program started
    gateway.shutdown()
    process.stdin.close()  # what the JVM takes for its parent's end
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _environment(python: str) -> Iterator[None]:
    """The environment of the JVM at its start: which Java, which Python, where modules lie."""
    own = set(sysconfig.get_paths().values())  # these come with the Python itself
    path = [os.path.abspath(entry) for entry in sys.path if entry not in own]
    given = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": python,
        # A Python without a folder is found there, by the JVM's own workers.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        # Workers start with it; sys.path of this process would otherwise not reach them all.
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
