"""Starts Spark's JVM, and leaves out of what it says to people what says nothing.

PySpark's own start hands it our standard error as it is, with several lines for each query from a
Python worker, and warnings of Java's about flags that Spark sets itself.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from streamlet.errors import ConfigError, StreamletError

_NOISE = re.compile(
    rb"(Starting )?Streaming TransformWithState"
    rb"|WARNING: Using incubator modules: jdk\.incubator\.vector"
    rb"|WARNING: package sun\.security\.action not in java\.base"
    rb"|\s*$"
)


#: Settings that a JVM, or what starts it, reads once.
_OF_THE_JVM = (
    "spark.driver.memory",
    "spark.driver.extra",
    "spark.driver.default",
    "spark.jars.",
    "spark.submit.",
)

_ERROR = re.compile(r"(Caused by: |: )?[\w.]+(Error|Exception): ")


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM that the next session uses; nothing if there is one.

    Raises:
        StreamletError: it ended at once; what it said stands above.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway
    with SparkContext._lock:
        if SparkContext._gateway is not None:
            return
        conf = SparkConf(loadDefaults=False).setAll(sorted(settings.items()))
        reader, writer = os.pipe()
        threading.Thread(target=_pass_on, args=(reader,), daemon=True, name="spark-stderr").start()
        try:
            gateway = launch(conf, {"stderr": writer})
        except PySparkRuntimeError as error:
            raise StreamletError(
                f"Spark's JVM did not start on {os.environ.get('JAVA_HOME')}: {error}"
            ) from error
        finally:
            os.close(writer)
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


def running_settings(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of the session of this process, else those of ``spark-submit``, if it has any.

    Args:
        given: settings that are asked for now.

    Raises:
        ConfigError: some of them come too late; the message names each.
    """
    from pyspark import SparkConf, SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        found = dict(context.getConf().getAll())
        place = "the Spark session of this process: stop it first, or set them where it is made"
        late = [key for key in _late(given, found) if not key.startswith("spark.sql.")]
    elif SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        found = dict(SparkConf().getAll())
        place = "Spark's JVM, which runs already: give them to spark-submit"
        late = [key for key in _late(given, found) if key.startswith(_OF_THE_JVM)]
    else:
        return {}
    if late:
        raise ConfigError([f"{', '.join(late)}: too late for {place}"])
    return found


def _late(given: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return sorted(key for key, value in given.items() if found.get(key) != value)


@contextmanager
def short_errors() -> Iterator[None]:
    """Make errors of Spark's, with their traces of two languages, one line of ours.

    The JVM has their text: it must be there at the end of the block.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise StreamletError(f"Spark failed: {error_line(str(error))}") from error


def error_line(message: str) -> str:
    """The line of a trace that says most: the last that names an error, else the first."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)]
    return named[-1] if named else lines[0] if lines else "no reason given"


def is_noise(line: bytes) -> bool:
    """True if the line is noise."""
    return _NOISE.match(line) is not None


def _pass_on(reader: int) -> None:
    """Until the JVM and all that it started have ended."""
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if not is_noise(line):
                # Whatever stands there now: a test runner or a notebook may have replaced it.
                print(line.decode(errors="replace"), end="", file=sys.stderr, flush=True)
