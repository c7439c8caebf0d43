"""Metrics, liveness and readiness of a real instance on a real broker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families

import streamlet as sl
from streamlet.config import Settings
from streamlet.hosting.clients import open_control
from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import streamlet as sl

app = sl.App({name!r}, on_error="skip")
numbers = app.stream({name!r}, key=str, value=int)
varies = sl.non_deterministic(lambda key, number: key)  # so that its records wait for commits
numbers.group_by(varies, key=str).count(store="counts")
"""
LAG = "consumer_fetch_manager_records_lag"
BAD = 3
RECORDS = 200


@pytest.fixture
def topic(bootstrap_servers: str) -> str:
    """A topic of four partitions with records, three of which are no numbers."""
    name = f"measured-{uuid4().hex[:8]}"
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(name, 4, 1)])
    sink = KafkaSink(bootstrap_servers)
    keys: list[bytes | None] = [b"k%d" % i for i in range(RECORDS)]
    values = [b"bad" if i < BAD else i.to_bytes(8) for i in range(RECORDS)]
    sink.send(OutgoingRecords(name, keys, values))
    sink.flush(10_000)
    sink.close()
    return name


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def metrics(url: str) -> dict[str, dict[str, float]]:
    """Values by metric and member; those of one member and metric added up."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(get(f"{url}/metrics")[1]):
        for sample in family.samples:
            by_member = found.setdefault(sample.name, {})
            member = sample.labels["member"]
            by_member[member] = by_member.get(member, 0) + sample.value
    return found


def endpoints(servers: str, application: str) -> set[tuple[str, str, int]]:
    """Members, hosts and ports that the application's control topic tells of."""
    with open_control(application, Settings.load({"bootstrap.servers": servers})) as control:
        found = control.read().endpoints.values()
        return {(one.member, one.host, one.port) for one in found}


@contextmanager
def instance(folder: Path, name: str, servers: str, port: int) -> Iterator[subprocess.Popen[str]]:
    """``streamlet run`` with two workers; killed at the end if it still runs."""
    (folder / "measured_of_test.py").write_text(PROGRAM.format(name=name))
    command = [sys.executable, "-m", "streamlet", "run", "measured_of_test:app", "--name", "m"]
    command += ["--processes", "2", "--state-dir", str(folder / f"state-{port}"), "--json"]
    command += ["--metrics-port", str(port), "--metrics-host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--bootstrap-servers", servers, "--log-level", "info"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class Said:
    """What a process writes to standard error, read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.text = ""
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.text += line

    def find(self, pattern: str) -> str:
        """The first group of a pattern, once it was said."""
        wait_for(lambda: bool(re.search(pattern, self.text)), f"{pattern} in:\n{self.text}")
        found = re.search(pattern, self.text)
        assert found is not None
        return found[1]


def check_waits(found: dict[str, dict[str, float]]) -> None:
    """All good records have waited for the commits of their writers, and markers told of some."""
    names = ("held_records", "held_seconds_count", "held_seconds_bucket", "markers_total")
    sums = [sum(found[f"streamlet_stream_task_{name}"].values()) for name in names]
    assert sums[:2] == [0, RECORDS - BAD]
    assert sums[2] >= RECORDS - BAD
    assert sums[3] >= 1


def check_workers_come_and_go(url: str, application: str, folder: Path) -> None:
    """A third worker of the instance joins, and ends, while the others go on."""

    def has(count: int) -> bool:
        states = set(metrics(url)["streamlet_stream_thread_state"])
        return states == {f"m-{n}" for n in range(count)} and get(f"{url}/ready")[0] == 200

    app = sl.App(application, config={"state.dir": str(folder)})
    assert app.add_worker() == 3
    wait_for(lambda: has(3), "three workers")
    assert app.remove_worker() == 2
    wait_for(lambda: has(2), "two workers")


def test_one_port_tells_of_all_workers_of_an_instance(
    bootstrap_servers: str, tmp_path: Path, topic: str
) -> None:
    with instance(tmp_path, topic, bootstrap_servers, 0) as process:
        said = Said(process)
        url = said.find(r"metrics on (http://127\.0\.0\.1:\d+)/metrics")
        wait_for(lambda: get(f"{url}/ready")[0] == 200, "ready")
        assert get(f"{url}/health")[0] == 200

        members = {"m-0", "m-1"}

        def counted() -> list[float | None]:
            found = metrics(url)
            names = ("stream_thread_process_total", "stream_thread_skipped_records_total")
            counts = [found.get(f"streamlet_{name}") for name in (*names, LAG)]
            return [None if one is None else sum(one.values()) for one in counts]

        wanted = [2 * (RECORDS - BAD), BAD, 0]  # before and behind the repartition topic
        wait_for(lambda: counted() == wanted, lambda: f"all records: {counted()}")
        found = metrics(url)
        check_waits(found)
        assert found["streamlet_stream_alive_stream_threads"] == {"": 2}
        assert set(found["streamlet_stream_thread_state"]) == members
        assert sum(found["streamlet_stream_thread_tasks"].values()) >= 4
        assert min(found["streamlet_group_generation"].values()) >= 1
        wait_for(
            lambda: (
                sum(metrics(url)["streamlet_stream_thread_commit_latency_seconds_count"].values())
                >= 2
            ),
            "commits",
        )

        port = int(url.rpartition(":")[2])
        wait_for(
            lambda: (
                endpoints(bootstrap_servers, topic) == {(m, "127.0.0.1", port) for m in members}
            ),
            "the members' endpoints in the control topic",
        )
        with instance(tmp_path, topic, bootstrap_servers, port) as second:
            out, _ = second.communicate(timeout=300)
        assert second.returncode == 2
        message = json.loads(out)["error"]["message"]
        assert f"port {port} on 127.0.0.1 is taken" in message

        os.kill(int(said.find(r"worker 1 started \(pid (\d+)\)")), signal.SIGKILL)

        def failed_once() -> bool:
            failed = metrics(url)["streamlet_stream_failed_stream_threads_total"]
            return failed == {"": 1}

        wait_for(failed_once, "a failure is counted")
        assert get(f"{url}/health")[0] == 200  # it is being started again
        wait_for(lambda: get(f"{url}/ready")[0] == 200, "ready again")
        check_workers_come_and_go(url, topic, tmp_path / "state-0")
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0


def test_a_run_in_this_process_serves_too(
    bootstrap_servers: str, tmp_path: Path, topic: str
) -> None:
    config: dict[str, Any] = {"state.dir": str(tmp_path), "commit.interval.ms": 100}
    app = sl.App(f"{topic}-app", bootstrap_servers=bootstrap_servers, config=config)
    app.stream(topic, key=str, value=bytes).to(topic + "-out")
    KafkaAdmin(bootstrap_servers).create_topics([NewTopic(topic + "-out", 4, 1)])
    found: list[int] = []
    endpoints: list[bool] = []

    def look() -> None:
        wait_for(lambda: app.metrics_url is not None, "an address")
        assert app.metrics_url is not None
        url = app.metrics_url
        wait_for(lambda: get(f"{url}/ready")[0] == 200, "ready")
        found.append(get(f"{url}/health")[0])

        def told() -> list[str]:
            members = [one for instance in app.metadata() for one in instance.members]
            return [f"http://{one.endpoint}" for one in members]

        try:
            wait_for(lambda: told() == [url], lambda: f"{url}: {told()}")
            endpoints.append(True)
        finally:
            app.close()

    looking = threading.Thread(target=look)
    looking.start()
    app.run(timeout=400, name="here", metrics_port=0, metrics_host="127.0.0.1")
    looking.join()
    assert (found, endpoints) == ([200], [True])
    assert app.metrics_url is None
