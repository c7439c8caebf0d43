"""Starts Spark's JVM, and leaves out of what it says to people what says nothing.

PySpark's own start hands it our standard error as it is, with several lines for each query from a
Python worker, warnings of Java's about flags that Spark sets itself, and traces of workers that
were idle when it ended.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from streamlet.errors import ConfigError, SparkFailedError, StreamletError
from streamlet.signals import deferred
from streamlet.spark.error_notes import noted
from streamlet.visible import visible

_NOISE = re.compile(
    rb"(Starting )?Streaming TransformWithState"
    rb"|WARNING: Using incubator modules: jdk\.incubator\.vector"
    rb"|WARNING: package sun\.security\.action not in java\.base"
    rb"|\s*$"
)
_TRACE: Final = b"Traceback (most recent call last)"
_HUNG_UP = re.compile(rb"(BrokenPipe|ConnectionReset)Error: ")

#: Settings that a JVM, or what starts it, reads once.
_OF_THE_JVM = (
    "spark.driver.memory",
    "spark.driver.extra",
    "spark.driver.default",
    "spark.jars.",
    "spark.submit.",
)

#: How long a JVM may take to end before it is killed, seconds: Spark waits for its own hooks.
_END_S: Final = 20.0

#: The JVMs that this process has started, also those that do not answer yet.
_JVMS: list[subprocess.Popen[bytes]] = []

#: How a line of Spark's log begins; see ``log4j2.properties``.
_LOGGED = re.compile(rb"spark [A-Z]+ [^ ]+: ")
#: The ends of lines in an event of the log.
_ENDS_OF_LINES = re.compile(rb"(?:\\r|\\n)+")

_ERROR = re.compile(r"(Caused by: |: )?[\w.]+(Error|Exception): ")


class _Jvm(subprocess.Popen[bytes]):
    """A process that is known from its first moment: PySpark tells of it when it answers.

    Signals that come while it is made are handled when it is known.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        with deferred():
            super().__init__(*given, **more)
            _JVMS.append(self)


def start_jvm(settings: Mapping[str, str], *, verbose: bool) -> None:
    """Start the JVM that the next session uses; nothing if there is one.

    It has a process group of its own: what a terminal or a supervisor sends to ours, as Ctrl-C or
    SIGTERM, would end it before the query. It ends with this process, whatever ends that.

    Args:
        settings: of Spark.
        verbose: print errors of Spark's with their traces.

    Raises:
        StreamletError: it ended at once; what it said stands above.
    """
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkRuntimeError

    module: Any = java_gateway
    with SparkContext._lock:
        if SparkContext._gateway is not None:
            return
        conf = SparkConf(loadDefaults=False).setAll(sorted(settings.items()))
        reader, writer = os.pipe()
        thread = threading.Thread(target=_pass_on, args=(reader, verbose), daemon=True)
        thread.name = "spark-stderr"
        thread.start()
        popen, module.Popen = module.Popen, _Jvm
        try:
            gateway = module.launch_gateway(conf, {"stderr": writer, "start_new_session": True})
        except PySparkRuntimeError as error:
            raise StreamletError(
                f"Spark's JVM did not start on {os.environ.get('JAVA_HOME')}: {error}"
            ) from error
        finally:
            module.Popen = popen
            os.close(writer)
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm


def ask_jvms_to_end() -> None:
    """Send SIGTERM to the JVMs that this process started, and to what they started.

    Spark leaves its cluster then. No call of Java's is of use any more.
    """
    _signal_jvms(signal.SIGTERM)


def await_jvms_end() -> None:
    """Wait for the end of the JVMs that were asked to, and forget them; kill those that stay."""
    from pyspark import SparkContext

    try:
        for process in _JVMS:
            process.wait(_END_S)
    except subprocess.TimeoutExpired:
        _signal_jvms(signal.SIGKILL)
        for process in _JVMS:
            process.wait()
    _JVMS.clear()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def _signal_jvms(number: signal.Signals) -> None:
    for process in _JVMS:
        if process.poll() is None:
            os.killpg(process.pid, number)


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
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise SparkFailedError(f"Spark failed: {error_line(str(error))}", by_chance=True) from error


def error_line(message: str) -> str:
    """The line of a trace that says most: of our error, else the last of one, else the first."""
    note = noted(message)
    if note is not None and note[0] is not None:
        return f"streamlet.errors.{note[0]}: {' '.join(note[1].split())}"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)]
    return named[-1] if named else lines[0] if lines else "no reason given"


def shown_events(lines: Iterable[bytes], *, verbose: bool) -> Iterator[bytes]:
    """The lines of a JVM, with the events of Spark's log among them as people are to see them.

    An event is its message with the line of its trace that names the error, and events of one error
    are shown once: a record that fails is logged by its task, by the executor and by every task
    that is stopped for it, each with the traces of two languages.

    Args:
        lines: of standard error.
        verbose: show all lines of all events.
    """
    shown: set[str] = set()
    for line in lines:
        if not _LOGGED.match(line):
            yield line
            continue
        text = _ENDS_OF_LINES.sub(b"\n", line).rstrip() + b"\n"
        message, _, trace = text.partition(b"\n")
        if verbose or not trace:
            yield text if verbose else message + b"\n"
            continue
        error = error_line(trace.decode(errors="replace"))
        if error not in shown:
            shown.add(error)
            yield message + b": " + error.encode() + b"\n"


def telling(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The informative lines of a JVM's output, each as soon as it is recognised."""
    trace: list[bytes] = []
    for line in lines:
        if line.startswith(_TRACE):
            yield from trace
            trace = [line]
        elif trace:
            trace.append(line)
            if not line.startswith(b" "):  # its last one
                yield from () if _has_hung_up(trace) else trace
                trace = []
        elif not _NOISE.match(line):
            yield line
    yield from trace


def _has_hung_up(trace: Sequence[bytes]) -> bool:
    """True if a worker of Spark's own daemon found the JVM gone, as idle ones do when it ends.

    ``cluster.daemon`` keeps workers quiet where code of ours has run in them; in these none has.
    """
    frames = [line for line in trace if line.startswith(b"  File ")]
    daemons = all(b"/pyspark/daemon.py" in line for line in frames)
    return bool(frames) and daemons and _HUNG_UP.match(trace[-1]) is not None


def _pass_on(reader: int, verbose: bool) -> None:
    """Until the JVM and all that it started have ended."""
    with os.fdopen(reader, "rb") as lines:
        for line in shown_events(telling(lines), verbose=verbose):
            # Whatever stands there now: a test runner or a notebook may have replaced it.
            text = visible(line.decode(errors="replace"))
            print(text, end="", file=sys.stderr, flush=True)
