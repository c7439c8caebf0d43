"""``streamlet run --engine spark`` as a script meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.spark import words

pytestmark = [pytest.mark.spark, pytest.mark.integration]

ROOT = Path(__file__).resolve().parents[3]
LINES = ["the quick fox", "the lazy dog; the fox"] * 50


def test_ctrl_c_finishes_the_batch_and_the_answer_is_one_document(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    words.create_topics(bootstrap_servers)
    words.produce(bootstrap_servers, LINES)
    command = [sys.executable, "-m", "streamlet", "run", "examples.wordcount:app"]
    command += ["--engine", "spark", "--json", "--checkpoint", str(tmp_path / "checkpoint")]
    command += ["--bootstrap-servers", bootstrap_servers]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    said: list[str] = []
    try:
        assert process.stderr is not None
        for one in process.stderr:
            said.append(one)
            if one.startswith("batch "):
                process.send_signal(signal.SIGINT)
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
    ours = ("starting Spark", "query runs", "batch ", "stopping", "fetch", "getting")
    lines = [one for one in [*said, *rest.splitlines()] if not one.startswith(ours)]
    assert lines == []  # nothing of Spark's own
