"""``streamlet run`` as a script meets it: one JSON document, what was counted, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.ports import NewTopic, OutgoingRecords

pytestmark = pytest.mark.integration

PROGRAM = """
import streamlet as sl

app = sl.App({name!r}, on_error="skip")
numbers = app.stream({name!r}, key=str, value=int)
numbers.peek(lambda key, number: print("seen", number, file=__import__("sys").stderr, flush=True))
numbers.group_by_key().count(store="counts")
"""


def interrupted_after(process: subprocess.Popen[str], line: str) -> str:
    """What it writes to standard output, once it wrote ``line`` elsewhere and was interrupted."""
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        said = []
        for one in process.stderr:
            said.append(one)
            if one == line:
                break
        else:
            pytest.fail("it ended too early:\n" + "".join(said))
        process.send_signal(signal.SIGINT)
        return process.communicate()[0]
    finally:
        watchdog.cancel()
        process.kill()


FAILING = """
import streamlet as sl

app = sl.App({name!r})
numbers = app.stream({name!r}, key=str, value=int)
numbers.map_values(lambda number: 1 // number, value=int).group_by_key().count(store="counts")
"""


#: A worker without a fork server.
WORKER = "import sys; from streamlet.hosting.process import main; sys.exit(main(int(sys.argv[1])))"


def test_what_a_worker_did_before_it_failed_for_good_is_counted(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    name = f"failing-{uuid4().hex[:8]}"
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(name, 1, 1)])
    sink = KafkaSink(bootstrap_servers)
    sink.send(
        OutgoingRecords(name, [b"k"] * 3, [(1).to_bytes(8), (1).to_bytes(8), (0).to_bytes(8)])
    )
    sink.flush(10_000)
    sink.close()
    (tmp_path / "failing_of_test.py").write_text(FAILING.format(name=name))
    read, write = os.pipe()
    orders = {
        "app": "failing_of_test:app",
        "overrides": [f"bootstrap.servers={bootstrap_servers}", f"state.dir={tmp_path / 'state'}"],
        **{"process_id": "p", "name": "a", "member": 0, "members": 1},
        **{"path": [str(tmp_path)], "log_level": "warning", "log_json": False},
    }
    with (
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(write)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            stdin=subprocess.PIPE,
            pass_fds=(write,),
            text=True,
        ) as worker,
        open(read) as events,
    ):
        os.close(write)
        assert worker.stdin is not None
        print(json.dumps(orders), file=worker.stdin, flush=True)
        *_, ended, failed = [json.loads(line) for line in events]
    assert worker.returncode == 1
    assert (ended["event"], ended["records"]) == ("ended", 3)
    assert (failed["event"], failed["error"]) == ("failed", "ProcessingError")


def test_a_value_that_only_the_client_knows_to_be_wrong_ends_the_run_with_one_line(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    """It is refused before a worker starts."""
    name = f"refused-{uuid4().hex[:8]}"
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(name, 1, 1)])
    (tmp_path / "refused_of_test.py").write_text(PROGRAM.format(name=name))
    command = [sys.executable, "-m", "streamlet", "run", "refused_of_test:app", "--name", "a"]
    more = ["--state-dir", str(tmp_path / "state"), "--set", "producer.linger.ms=abc"]
    ended = subprocess.run(
        [*command, *more, "--bootstrap-servers", bootstrap_servers],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("Kafka's client refuses the settings producer.") == 1


@pytest.mark.parametrize("processes", ["0", "1"])
def test_the_summary_tells_what_was_dropped_and_what_was_skipped(
    bootstrap_servers: str, tmp_path: Path, processes: str
) -> None:
    """A record without a key is dropped by rule, one without sense by the error policy."""
    name = f"counted-{uuid4().hex[:8]}"
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(name, 1, 1)])
    sink = KafkaSink(bootstrap_servers)
    one, last = (1).to_bytes(8), (9).to_bytes(8)
    sink.send(OutgoingRecords(name, [b"k", None, b"k", b"k", b"k"], [one, one, b"bad", None, last]))
    sink.flush(10_000)
    sink.close()
    (tmp_path / "counted_of_test.py").write_text(PROGRAM.format(name=name))
    command = [sys.executable, "-m", "streamlet", "run", "counted_of_test:app", "--json"]
    more = ["--name", "a", "--state-dir", str(tmp_path / "state"), "--processes", processes]
    with subprocess.Popen(
        [*command, *more, "--bootstrap-servers", bootstrap_servers],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out = interrupted_after(process, "seen 9\n")
    assert process.returncode == 0
    assert json.loads(out) == {
        "application": name,
        "name": "a",
        "records": 5,
        "dropped": 2,
        "skipped": 1,
        "drained": False,
        "exit_code": 0,
        "error": None,
    }
