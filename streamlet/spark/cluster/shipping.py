"""Brings an application to a cluster's executors, and checks that their Python can run it.

The application's own modules always travel, as a zip. streamlet travels where an executor has
none, or another one. What is compiled cannot travel so: the check names it. All that Spark keeps
lies in the session's own folder, which goes with the session.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from streamlet.errors import ConfigError
from streamlet.spark.cluster import executor_check
from streamlet.spark.cluster.executors import Answer, ask
from streamlet.spark.cluster.own_modules import (
    folders_of,
    installed,
    own_modules,
    package_files,
    zipped,
)
from streamlet.spark.hadoop_file import HadoopFile

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_ENVIRONMENT = (
    "install streamlet[spark] there, or bring an environment along: --archives env.tar.gz#env and "
    "PYSPARK_PYTHON=./env/bin/python"
)


def ship(spark: SparkSession, reference: str, checkpoint: str | None = None) -> None:
    """Send the executors an application's modules; raises with what an executor lacks.

    On one machine (``local[…]``) nothing travels: its Python workers get the driver's path.

    Args:
        spark: the session of the query; one of Spark Connect is left as it is.
        reference: ``module:attribute`` of the application.
        checkpoint: the query's; None if it is not known here.

    Raises:
        ConfigError: an executor's Python is another version, lacks packages, cannot import the
            application or has another one, or does not see the checkpoint; a line for each.
    """
    if not hasattr(spark, "_jvm"):
        return
    context = spark.sparkContext
    _extend_path(context, reference)
    if is_local(context.master or "local"):
        return
    folder = _folder()
    module = reference.partition(":")[0]
    if files := own_modules(module):
        _add(context, zipped(files, "streamlet-app", folder))
    topology = executor_check.topology_hash(executor_check.application(reference))
    streamlet = executor_check.package_hash("streamlet")
    with _marker(spark, checkpoint) as seen:
        wanted = executor_check.Wanted(reference, streamlet, topology, seen)
        answers = ask(spark, wanted)
        if any("streamlet" in one.found for one in answers):
            _add(context, zipped(package_files("streamlet"), "streamlet", folder))
            answers = ask(spark, wanted)
    if lines := problems(reference, answers):
        raise ConfigError(lines)


def is_local(master: str) -> bool:
    """True if a session's executor is the driver itself."""
    return master.startswith("local") and not master.startswith("local-cluster")


def problems(reference: str, answers: Sequence[Answer]) -> list[str]:
    """A line for each thing that executors lack, with the executors that do."""
    found: dict[str, list[str]] = {}
    for answer in answers:
        for what, text in answer.found.items():
            executors = found.setdefault(" ".join(_line(reference, what, text).split()), [])
            executors += [answer.executor] if answer.executor not in executors else []
    return [f"executor {', '.join(sorted(who))}: {line}" for line, who in found.items()]


def _line(reference: str, what: str, text: Any) -> str:
    match what:
        case "lacks":
            return f"its Python lacks {', '.join(text)}; {_ENVIRONMENT}"
        case "streamlet":
            return (
                "its Python has loaded another streamlet than the driver's before this one came; "
                "start the session again, without spark.python.daemon.module"
            )
        case "application":
            return (
                f"{reference} cannot be imported: {text}; give modules that it needs as --py-files"
            )
        case "topology":
            return (
                f"{reference} has another topology there than on the driver: its Python has loaded "
                "another version of the module; start the session again"
            )
        case "checkpoint":
            return (
                f"the checkpoint {text} is not the driver's folder there; take a URL that all "
                "machines share, as s3a://… or hdfs://…, or a folder mounted on all of them"
            )
        case _:
            return str(text)


def _extend_path(context: SparkContext, reference: str) -> None:
    """Show the driver's own Python workers the folders of the application and of streamlet.

    Spark plans a stateful operator with the help of one. A JVM that another program started
    knows nothing of this process' path.
    """
    modules = {name.partition("/")[0].removesuffix(".py") for name in own_modules(_top(reference))}
    jvm: Any = context._jvm
    known = (jvm.java.lang.System.getenv("PYTHONPATH") or "").split(os.pathsep)
    known += context.environment.get("PYTHONPATH", "").split(os.pathsep)
    wanted = [
        str(place)
        for place in folders_of(sorted(modules | {_top(reference), "streamlet"}))
        if not installed(place) and str(place) not in known
    ]
    if wanted:
        path = [*wanted, context.environment.get("PYTHONPATH", "")]
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))


def _top(reference: str) -> str:
    return reference.partition(":")[0].partition(".")[0]


def _folder() -> Path:
    """A folder that Spark deletes with the session; the driver serves files from where they lie."""
    from pyspark import SparkFiles

    folder = Path(SparkFiles.getRootDirectory()) / "streamlet"
    folder.mkdir(exist_ok=True)
    return folder


def _add(context: SparkContext, path: Path) -> None:
    """Have executors import from a zip; the driver goes on with the modules it has."""
    if path.name in (context._python_includes or ()):
        return
    before = list(sys.path)
    context.addPyFile(str(path))
    sys.path[:] = before


@contextmanager
def _marker(spark: SparkSession, checkpoint: str | None) -> Iterator[str | None]:
    """A file in a checkpoint that is a folder of the driver's, for executors to look for."""
    name = f".streamlet-{uuid4().hex}"
    path = None if checkpoint is None else HadoopFile.of(spark, checkpoint, name).local
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
