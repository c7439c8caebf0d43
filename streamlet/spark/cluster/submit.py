"""Hands an application to ``spark-submit``, for a driver that runs inside the cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import attrs

from streamlet.config.spark import MAX_RECORDS_PER_BATCH, RESTARTS
from streamlet.errors import ConfigError
from streamlet.spark.cluster.java import java_home
from streamlet.spark.cluster.own_modules import own_modules, package_files, zipped

if TYPE_CHECKING:
    from streamlet.spark.plan.prepare import Aggregations, OutputKind

_DRIVER = "from streamlet.__main__ import main\n\nmain()\n"


@attrs.frozen
class SparkOptions:
    """The options of a run on Spark."""

    #: Folder or URL; None: below ``state.dir``.
    checkpoint: str | None = None
    trigger: str = "1s"
    #: 0: all there are.
    max_records_per_batch: int = MAX_RECORDS_PER_BATCH
    #: How often in a row a query that failed begins again.
    restarts: int = RESTARTS
    #: None: the one of ``spark-submit``, else ``local[*]``.
    master: str | None = None
    output: OutputKind = "updates"
    #: None: Spark SQL where the result is the same.
    aggregations: Aggregations | None = None
    #: None: no metrics are served.
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    #: Of the Spark application; None: the application's reference.
    name: str | None = None
    deploy_mode: str = "client"
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    conf: dict[str, str] = attrs.field(factory=dict)
    #: Print errors of Spark's with their traces.
    verbose: bool = False


def add_to_path(py_files: Sequence[str]) -> None:
    """Let this process import from files that executors get; those at URLs it leaves to Spark.

    Raises:
        ConfigError: one does not exist, or is no Python file or zip.
    """
    problems = []
    for one in (Path(text) for text in py_files if "://" not in text):
        if not one.is_file():
            problems.append(f"--py-files {one}: no such file")
        elif one.suffix not in (".py", ".zip", ".egg"):
            problems.append(f"--py-files {one}: expected a .py, .zip or .egg")
        else:
            entry = str((one.parent if one.suffix == ".py" else one).absolute())
            sys.path[:] = [entry, *(other for other in sys.path if other != entry)]
    if problems:
        raise ConfigError(problems)


def submit(reference: str, options: SparkOptions, settings: Sequence[str]) -> int:
    """Run ``spark-submit --deploy-mode cluster`` to its end, and return its exit code.

    The application's modules and streamlet travel as zips, settings as a file: a command line
    shows passwords to everyone on the machine.

    Args:
        reference: ``module:attribute`` of the application.
        options: those of the run, which the driver gets, and of ``spark-submit``.
        settings: as ``key=value``.

    Raises:
        ConfigError: the cluster cannot take such a driver.
    """
    check(options)
    import pyspark

    with TemporaryDirectory(prefix="streamlet-") as name:
        folder = Path(name)
        own = own_modules(reference.partition(":")[0])
        zips = [zipped(own, "streamlet-app", folder)] if own else []
        zips.append(zipped(package_files("streamlet"), "streamlet", folder))
        file = folder / "streamlet.properties"
        file.touch(mode=0o600)
        file.write_text(properties(settings))
        driver = folder / "streamlet_driver.py"
        driver.write_text(_DRIVER)
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        words = [str(program), *arguments(reference, options, zips, file, driver)]
        environment = os.environ | {"JAVA_HOME": str(java_home())}
        return subprocess.run(words, env=environment, check=False).returncode


def check(options: SparkOptions) -> None:
    """Refuse a driver that would not start, or that would lose its state.

    Raises:
        ConfigError: naming why.
    """
    master = options.master or "local[*]"
    if master.startswith(("local", "spark://")):
        raise ConfigError(
            [
                f"--deploy-mode cluster: {master} takes no driver in Python; start the command on "
                "a machine of the cluster instead, with --deploy-mode client"
            ]
        )
    if "://" not in (options.checkpoint or ""):
        raise ConfigError(
            [
                "--deploy-mode cluster: the driver's folders go with its container; give "
                "--checkpoint a URL, as s3a://… or hdfs://…"
            ]
        )


def properties(settings: Sequence[str]) -> str:
    """Settings as the lines of a properties file; the last of equal keys counts."""
    found = dict(setting.split("=", 1) for setting in settings)
    return "".join(f"{key}={value}\n" for key, value in found.items())


def arguments(
    reference: str, options: SparkOptions, zips: Sequence[Path], settings: Path, driver: Path
) -> list[str]:
    """The words behind ``spark-submit``."""
    words = ["--master", options.master or "", "--deploy-mode", "cluster"]
    words += ["--name", options.name or reference]
    lists = {
        "--py-files": [*map(str, zips), *options.py_files],
        "--archives": options.archives,
        "--files": [str(settings), *options.files],
        "--packages": options.packages,
        "--jars": options.jars,
    }
    for option, many in lists.items():
        words += [option, ",".join(many)] if many else []
    for key, value in options.conf.items():
        words += ["--conf", f"{key}={value}"]
    run = {
        "--engine": "spark",
        "--config": settings.name,
        "--checkpoint": options.checkpoint,
        "--trigger": options.trigger,
        "--max-records-per-batch": options.max_records_per_batch,
        "--restarts": options.restarts,
        "--output": options.output,
        "--aggregations": options.aggregations,
        "--metrics-port": options.metrics_port,
        "--metrics-host": options.metrics_host,
    }
    words += [str(driver), "run", reference]
    return words + [f"{option}={value}" for option, value in run.items() if value is not None]
