"""``streamlet run --engine spark`` as a script meets it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.chaos.support import wait_for
from tests.integration.spark import words

pytestmark = [pytest.mark.spark, pytest.mark.integration]

ROOT = Path(__file__).resolve().parents[3]
LINES = ["the quick fox", "the lazy dog; the fox"] * 50


@pytest.mark.timeout(300)
def test_ctrl_c_twice_ends_now_and_the_next_run_goes_on_without_a_gap(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """The batch under way would never end; what it had done counts for nothing."""
    pytest.importorskip("pyspark")
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    gate = tmp_path / "gate"
    command = [sys.executable, "-m", "streamlet", "run", "tests.integration.spark.gated:app"]
    command += ["--engine", "spark", "--checkpoint", str(tmp_path / "checkpoint")]
    command += ["--bootstrap-servers", bootstrap_servers, "--trigger", "available-now"]
    environment = os.environ | {"GATE": str(gate)}
    try:
        with running(command, environment) as (process, said):
            waits = gate.with_suffix(".waiting")
            wait_for(lambda: waits.exists() or process.poll() is not None, "a batch waits", 120)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
            wait_for(
                lambda: "Ctrl-C again stops now" in "".join(said) or process.poll() is not None,
                "Ctrl-C is answered",
                120,
            )
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(60) == 130, "".join(said)
        assert words.batches(tmp_path / "checkpoint") == 0
        gate.touch()
        with running(command, environment) as (process, said):
            assert process.wait(120) == 0, "".join(said)
        words.check_exact(words.consume(bootstrap_servers), LINES)
    finally:
        words.delete_topics(bootstrap_servers)


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A command in a process group of its own, and what it says as it comes."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said: list[str] = []
    assert process.stderr is not None
    listening = threading.Thread(target=said.extend, args=(process.stderr,))
    listening.start()
    try:
        yield process, said
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        listening.join(30)
        process.stderr.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_start_of_spark_and_its_jvm(tmp_path: Path, number: int) -> None:
    """Every process that Spark starts inherits the output: at its end all of them have ended."""
    pytest.importorskip("pyspark")
    command = [sys.executable, "-m", "streamlet", "run", "examples.wordcount:app"]
    command += ["--engine", "spark", "--checkpoint", str(tmp_path / "checkpoint")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    os.killpg(process.pid, number)
    out, said = process.communicate()
    assert (process.returncode, first) == (0, "starting Spark on local[*]\n"), said
    assert (out, said) == ("wordcount stopped: 0 records in 0 batches\n", "")


def test_sigterm_finishes_the_batch_and_the_answer_is_one_document(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    command = [sys.executable, "-m", "streamlet", "run", "examples.wordcount:app"]
    command += ["--engine", "spark", "--json", "--checkpoint", str(tmp_path / "checkpoint")]
    command += ["--bootstrap-servers", bootstrap_servers]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    said: list[str] = []
    try:
        assert process.stderr is not None
        for one in process.stderr:
            said.append(one)
            if one.startswith("batch "):
                os.killpg(process.pid, signal.SIGTERM)  # as a supervisor does: to all of them
                break
        out, rest = process.communicate()
    finally:
        watchdog.cancel()
        process.kill()
        words_left = words.consume(bootstrap_servers)
        words.delete_topics(bootstrap_servers)
    assert process.returncode == 0, "".join(said) + rest
    answer = json.loads(out)
    assert answer["engine"] == "spark"
    assert (answer["records"], answer["lag"], answer["error"]) == (len(LINES), 0, None)
    words.check_exact(words_left, LINES)
    ours = ("starting Spark", "query runs", "batch ", "stopping", "fetch", "getting", "wordcount: ")
    lines = [one for one in [*said, *rest.splitlines()] if not one.startswith(ours)]
    assert lines == []  # nothing of Spark's own
