"""The process that forks Spark's Python workers, without a JVM."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from streamlet.spark.cluster.daemon import Tracebacks, keep_quiet

Daemon = subprocess.Popen[bytes]


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Started as Spark starts it where workers are reached by Unix sockets."""
    pytest.importorskip("pyspark")
    monkeypatch.chdir(tmp_path)
    environment = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": ".",  # the path of a socket must be short
        "SPARK_REUSE_WORKER": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlet.spark.cluster.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    )
    yield process
    process.kill()
    process.communicate()


def socket_of(daemon: Daemon) -> str:
    """Where it is asked for workers: its first output, behind the length of the path."""
    assert daemon.stdout is not None
    size = int.from_bytes(daemon.stdout.read(4), "big")
    return daemon.stdout.read(size).decode()


def ask_for_worker(path: str) -> socket.socket:
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(path)
    return asked


def test_a_worker_that_finds_the_jvm_gone_prints_nothing(daemon: Daemon) -> None:
    path = socket_of(daemon)
    ask_for_worker(path).close()  # gone before the worker's pid can be told
    with ask_for_worker(path) as second:  # accepted behind the first
        assert int.from_bytes(second.recv(4), "big") > 0
    _, errors = daemon.communicate(timeout=300)  # ends as its input does
    assert errors == b""


def test_pysparks_own_daemon_keeps_quiet_where_spark_has_hung_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main = ModuleType("__main__")
    vars(main).update(manager=None, traceback=traceback)
    monkeypatch.setitem(sys.modules, "__main__", main)
    keep_quiet()
    for error, printed in ((BrokenPipeError("hung up"), False), (EOFError("input"), True)):
        try:
            raise error
        except (OSError, EOFError) as caught:
            vars(main)["print"](f"an answer failed: {caught}", file=sys.stderr)
            vars(main)["traceback"].print_exc()
        said = capsys.readouterr().err
        assert ("an answer failed" in said, "Traceback" in said) == (printed, printed)


@pytest.mark.parametrize(("error", "code"), [("EOFError", 0), ("ValueError", 1)])
def test_the_drivers_process_of_the_source_ends_where_spark_has_hung_up(
    error: str, code: int
) -> None:
    """Where something else failed it goes on, so that Spark is told."""
    pytest.importorskip("pyspark")
    program = f"""
from streamlet.spark.kafka.python_kafka import KafkaReader
try:
    raise {error}("from Spark")
finally:
    KafkaReader.__new__(KafkaReader).stop()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, "from Spark" in ended.stderr) == (code, code == 1), ended.stderr


def test_what_else_fails_in_a_worker_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise EOFError("the input has ended")
    except EOFError:
        Tracebacks.print_exc()
    assert "EOFError: the input has ended" in capsys.readouterr().err
