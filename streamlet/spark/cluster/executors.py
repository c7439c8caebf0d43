"""Asks the Python of each executor what it lacks, by one job of tiny tasks.

Spark's scheduler deals tasks out over all executors that are idle, so as many tasks as there are
cores reach each of them. Its own records say which executor a task ran on, also where Python did
not even start.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import attrs

from streamlet.logs import get_logger
from streamlet.spark.cluster import executor_check

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = get_logger(__name__)

#: Jobs until each executor has answered; one that comes later is not waited for.
_ROUNDS = 3
#: Until the user is told that the cluster gives no executor, seconds.
_PATIENCE_S = 20.0
_MOST_TASKS = 100_000
_SCHEDULER = "org.apache.spark.scheduler.TaskSetManager"

_VERSION = re.compile(r"different version: (\S+) than that in driver: (\d+\.\d+)")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')


@attrs.frozen
class Answer:
    """The findings of ``executor_check.look`` on one executor; ``failed`` if it could not run."""

    executor: str
    found: Mapping[str, Any]


def ask(spark: SparkSession, wanted: executor_check.Wanted) -> list[Answer]:
    """The answers of all executors that are there.

    It waits until the cluster gives the session an executor.
    """
    context = spark.sparkContext
    answers: list[Answer] = []
    for _ in range(_ROUNDS):
        answers += _round(context, wanted)
        asked = {answer.executor for answer in answers}
        if _executors(context).keys() <= asked or any(answer.found for answer in answers):
            break
    return answers


def _round(context: SparkContext, wanted: executor_check.Wanted) -> list[Answer]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    tag = f"streamlet-{uuid4().hex}"
    count = max(context.defaultParallelism, sum(_executors(context).values()))
    found: dict[int, Mapping[str, Any]] = {}
    failure: str | None = None
    with _tagged(context, tag), _quiet(context), _by_value(), _impatient(context):
        tasks = context.parallelize(range(count), count)
        try:
            found = dict(tasks.mapPartitions(executor_check.answering(wanted)).collect())
        except (Py4JJavaError, PySparkException) as error:
            failure = str(error)
    answers = []
    for task, executor, message in _tasks(context, tag):
        why = None if message is None else reason(message)
        if task in found:
            answers.append(Answer(executor, found[task]))
        elif why is not None:
            answers.append(Answer(executor, {"failed": why}))
    if failure is not None and not any(answer.found for answer in answers):
        first = next((line.strip() for line in failure.splitlines() if line.strip()), "no reason")
        answers.append(Answer("check", {"failed": first}))
    return answers


def reason(message: str) -> str | None:
    """The reason that no Python of ours runs on an executor, in a line; None for any other."""
    if found := _VERSION.search(message):
        there, here = found.groups()
        return (
            f"its Python is {there} and the driver's {here}; the two must be the same, so name "
            f"one by PYSPARK_PYTHON that is, for example PYSPARK_PYTHON=python{here}"
        )
    if found := _NO_PYTHON.search(message):
        return (
            f"it has no Python {found[1]}; name one by PYSPARK_PYTHON that it has, or bring one "
            "along: --archives env.tar.gz#env and PYSPARK_PYTHON=./env/bin/python"
        )
    return None


def _executors(context: SparkContext) -> dict[str, int]:
    """The cores of each executor that is alive."""
    spark: Any = context._jsc.sc()
    return {
        _named(one.id(), one.hostPort()): int(one.totalCores())
        for one in _listed(context, spark.statusStore().executorList(True))
        if one.id() != "driver"
    }


def _tasks(context: SparkContext, tag: str) -> Iterator[tuple[int, str, str | None]]:
    """Id and executor of each attempt at a task of the job, and its error if it failed."""
    spark: Any = context._jsc.sc()
    spark.listenerBus().waitUntilEmpty()
    tracker, store = spark.statusTracker(), spark.statusStore()
    for job in tracker.getJobIdsForTag(tag):
        for stage in tracker.getJobInfo(job).get().stageIds():
            for one in _listed(context, store.taskList(stage, 0, _MOST_TASKS)):
                failed = one.status() == "FAILED" and one.errorMessage().isDefined()
                message = one.errorMessage().get() if failed else None
                yield one.taskId(), _named(one.executorId(), one.host()), message


def _listed(context: SparkContext, sequence: Any) -> Any:
    """A sequence of Scala's as one that Python goes through."""
    jvm: Any = context._jvm
    return jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence)


def _named(executor: str, address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{executor} on {host if port.isdigit() else address}"


@contextmanager
def _tagged(context: SparkContext, tag: str) -> Iterator[None]:
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)


@contextmanager
def _quiet(context: SparkContext) -> Iterator[None]:
    """Keep Spark's traces of a task that fails out of the log: the reason is told in a line."""
    jvm: Any = context._jvm
    log4j = jvm.org.apache.logging.log4j
    before = log4j.LogManager.getLogger(_SCHEDULER).getLevel()
    log4j.core.config.Configurator.setLevel(_SCHEDULER, log4j.Level.OFF)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(_SCHEDULER, before)


@contextmanager
def _by_value() -> Iterator[None]:
    """Let functions of the check travel as code, since executors may not have its module."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    cloudpickle.register_pickle_by_value(executor_check)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(executor_check)


@contextmanager
def _impatient(context: SparkContext) -> Iterator[None]:
    """Warn once if the cluster gives no executor for a while."""

    def warn() -> None:
        if not _executors(context):
            log.warning(
                "%s has given no executor yet: it may lack free cores or memory, or its machines "
                "cannot reach the driver (spark.driver.host); waiting for one",
                context.master,
            )

    timer = threading.Timer(_PATIENCE_S, warn)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
