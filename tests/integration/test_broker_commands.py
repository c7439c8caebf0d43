"""``streamlet broker`` and ``streamlet topics`` as a person or a script runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration

PATIENCE_S = 300


class Shell:
    """Runs commands of one user, whose folders are all in a temporary one."""

    def __init__(self, home: Path) -> None:
        self.env = {
            **os.environ,
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_DATA_HOME": str(home / "data"),
            "TMPDIR": str(home),
        }

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "streamlet", *words, "--json"]

    def run(self, *words: str, exit_code: int = 0) -> Any:
        done = subprocess.run(
            self.command(*words),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    subprocess.run(shell.command("broker", "stop"), env=shell.env, capture_output=True, check=False)


def test_several_brokers_are_found_again_one_by_one_and_take_their_data_along(
    shell: Shell,
) -> None:
    started = shell.run("broker", "start", "--port", "0", "--brokers", "3", "--ephemeral")
    assert started["bootstrap_servers"].count(",") == 2
    assert [one["ready"] for one in started["brokers"]] == [True] * 3
    assert all(Path(one["data_dir"]).is_dir() for one in started["brokers"])
    first, *others = sorted(started["brokers"], key=lambda one: int(one["port"]))
    shell.run("broker", "stop", "--port", str(first["port"]))
    assert shell.run("broker", "status")["brokers"] == others
    assert len(shell.run("broker", "stop")["stopped"]) == 2
    assert not any(Path(one["data_dir"]).exists() for one in started["brokers"])


def test_a_broker_in_the_background_is_found_again_and_keeps_its_topics(shell: Shell) -> None:
    started = shell.run("broker", "start", "--port", "0")
    assert started["ready"]
    port = str(started["port"])
    assert shell.run("broker", "status")["brokers"] == [started]
    for_people = subprocess.run(
        shell.command("broker", "status")[:-1],
        env=shell.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert for_people.stdout.split()[-1] == started["data_dir"]
    servers = ("--bootstrap-servers", started["bootstrap_servers"])
    shell.run("topics", "create", "kept", "--partitions", "3", *servers)
    again = shell.run("broker", "start", "--port", port)
    assert again["pid"] == started["pid"]

    stopped = shell.run("broker", "stop", "--port", port)["stopped"]
    assert [record["pid"] for record in stopped] == [started["pid"]]
    shell.run("broker", "status", exit_code=3)
    shell.run("broker", "stop", exit_code=3)

    shell.run("broker", "start", "--port", port, "--data-dir", started["data_dir"])
    topics = shell.run("topics", "list", *servers)["topics"]
    assert topics == [{"name": "kept", "partitions": 3, "internal": False}]


def kafka_of(pid: int) -> list[psutil.Process]:
    """The broker that a process has started."""
    children = psutil.Process(pid).children()
    return [one for one in children if "kafka.Kafka" in one.cmdline()]


def test_a_start_that_is_ended_leaves_no_broker_behind(shell: Shell) -> None:
    words = shell.command("broker", "start", "--port", "0", "--ephemeral")
    with subprocess.Popen(words, env=shell.env, stdout=subprocess.DEVNULL) as command:
        try:
            (java,) = wait_for(lambda: kafka_of(command.pid), "its Java was not started")
            command.send_signal(signal.SIGTERM)
            assert command.wait(PATIENCE_S) == 130
        finally:
            command.kill()
    lives = java.is_running()
    if lives:
        java.kill()
    assert not lives
    assert not list(Path(shell.env["TMPDIR"]).glob("streamlet-broker-*"))
    shell.run("broker", "status", exit_code=3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broker_in_the_foreground_ends_well_when_asked_once(
    shell: Shell, number: signal.Signals
) -> None:
    with foreground(shell) as (process, started):
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
    shell.run("broker", "status", exit_code=3)
    assert not Path(started["data_dir"]).exists()


def test_a_broker_in_the_foreground_says_that_it_ended_by_itself(shell: Shell) -> None:
    with foreground(shell) as (process, started):
        os.kill(started["pid"], signal.SIGKILL)
        assert process.wait(PATIENCE_S) == 1


def test_topics_are_made_once_and_refused_with_other_partitions(
    shell: Shell, bootstrap_servers: str
) -> None:
    shell.env["STREAMLET_BOOTSTRAP_SERVERS"] = bootstrap_servers
    create = ("topics", "create", "made", "--partitions", "2", "-c", "cleanup.policy=compact")
    made = {"name": "made", "partitions": 2}
    assert shell.run(*create) == {"topics": [{**made, "created": True}]}
    assert shell.run(*create) == {"topics": [{**made, "created": False}]}
    twice = shell.run("topics", "create", "twice", "twice")
    assert twice == {"topics": [{"name": "twice", "partitions": 1, "created": True}]}
    refused = shell.run("topics", "create", "made", "--partitions", "3", exit_code=5)
    assert "with 2 partitions, not 3" in refused["error"]["message"]
    wrong = shell.run("topics", "create", "other", "-c", "no.such=1", exit_code=1)
    assert "no.such" in wrong["error"]["message"]


class foreground:
    """A broker in the foreground that serves; killed with its command at the end if need be."""

    def __init__(self, shell: Shell) -> None:
        words = shell.command("broker", "start", "--port", "0", "--ephemeral", "--foreground")
        self.process = subprocess.Popen(words, env=shell.env, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> tuple[subprocess.Popen[str], Any]:
        assert self.process.stdout is not None
        return self.process, json.loads(self.process.stdout.readline())

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
