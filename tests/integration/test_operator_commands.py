"""What operators do with applications that they did not write, on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

import attrs
import pytest
from typer.testing import CliRunner

import streamlet as sl
from streamlet.control.topic import control_topic_name
from streamlet.errors import PositionsMismatchError
from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.tools.main import build
from tests.integration.chaos.support import wait_for

pytestmark = pytest.mark.integration

#: Replays, and is killed once its records are delivered and before it notes that.
KILLED = """
import os, sys
from streamlet.kafka.client import KafkaSink
flush = KafkaSink.flush
def flushed(self, timeout_ms):
    flush(self, timeout_ms)
    os.kill(os.getpid(), 9)
KafkaSink.flush = flushed
from streamlet.tools.main import main
sys.argv[1:] = ["dead-letters", "replay", *sys.argv[1:], "--yes"]
main()
"""


@attrs.define
class Scene:
    """An application that divides by its input, and writes what it cannot to dead letters."""

    name: str
    servers: str
    state: Path
    app: sl.App

    def write(self, *values: str) -> None:
        sink = KafkaSink(self.servers)
        raw = [value.encode() for value in values]
        sink.send(OutgoingRecords(f"{self.name}-in", raw, raw))
        sink.flush(15_000)
        sink.close()

    def command(self, *words: str) -> tuple[int, dict[str, Any]]:
        line = [*words, "--json", "--bootstrap-servers", self.servers]
        found = CliRunner().invoke(build(), line)
        return found.exit_code, json.loads(found.stdout)

    def read(self, topic: str) -> list[str]:
        """The values of a topic."""
        line = ["topics", "read", f"{self.name}-{topic}", "--bootstrap-servers", self.servers]
        found = CliRunner().invoke(build(), line)
        assert found.exit_code == 0, found.output
        return sorted(text.partition("\t")[2] for text in found.stdout.splitlines())


@pytest.fixture
def scene(bootstrap_servers: str, tmp_path: Path) -> Iterator[Scene]:
    name = f"operated-{uuid4().hex[:8]}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(f"{name}-{one}", 2, 1) for one in ("in", "out", "dead")])
    config = {"state.dir": str(tmp_path), "session.timeout.ms": 6000, "commit.interval.ms": 100}
    dead = ("dead_letter", f"{name}-dead")
    app = sl.App(name, bootstrap_servers=bootstrap_servers, config=config, on_error=dead)
    numbers = app.stream(f"{name}-in", key=str, value=str).map_values(int)
    numbers.group_by_key().count(store="counts").to_stream().map_values(str).to(f"{name}-out")
    yield Scene(name, bootstrap_servers, tmp_path, app)
    admin.delete_topics([one for one in admin.topics() if one.startswith(name)])
    admin.close()


def test_an_application_is_looked_at_paused_and_deleted(scene: Scene) -> None:
    name = scene.name
    scene.write("1", "2")
    runs = threading.Thread(target=lambda: scene.app.run(timeout=300))
    runs.start()
    wait_for(lambda: scene.read("out") == ["1", "1"], "the first counts")
    code, listed = scene.command("list")
    (row,) = (one for one in listed["applications"] if one["application"] == name)
    assert (code, row["state"], row["members"], row["paused"]) == (0, "Stable", 1, False)
    wait_for(lambda: scene.command("describe", name)[0] == 0, "the leader has noted it")
    described = scene.command("describe", name)[1]
    assert described.pop("noted")["member"].endswith("-0")
    assert described["subtopologies"][0]["stores"][0]["name"] == "counts"

    code, paused = scene.command("pause", name, "--subtopology", "counts")
    assert (code, paused["paused"][0]["subtopology"], paused["changed"]) == (0, 0, True)
    wait_for(lambda: all(t["paused"] for t in tasks(scene)), "its tasks stand still")
    scene.write("1", "2")
    assert (scene.read("out"), len(tasks(scene))) == (["1", "1"], 2)
    assert scene.command("delete", name, "--yes")[0] == 5  # it is running
    assert scene.command("resume", name)[1]["paused"] == []
    wait_for(lambda: scene.read("out") == ["1", "1", "2", "2"], "it goes on")
    scene.app.close()
    runs.join()

    code, gone = scene.command("delete", name, "--yes")
    own = [f"{name}-counts-changelog", control_topic_name(name)]
    assert (code, gone["topics"], gone["left"], gone["done"]) == (0, own, [], True)
    assert scene.command("describe", name)[0] == 3
    with pytest.raises(PositionsMismatchError, match=r"committed positions .* are lost"):
        scene.app.run(timeout=300)  # over the state of before on its disk
    rmtree(scene.state / name)
    results = scene.app.run(count=4, timeout=300)
    assert sorted(one.value for one in results) == ["1", "1", "2", "2"]


def tasks(scene: Scene) -> list[dict[str, Any]]:
    """The active tasks that the application's only member reports."""
    document = scene.command("status", scene.name)[1]
    (instance,) = document["instances"]
    return [one for one in instance["members"][0]["tasks"] if one["role"] == "active"]


def test_dead_letters_come_back_once_though_the_replay_is_killed(scene: Scene) -> None:
    dead = f"{scene.name}-dead"
    scene.write("x", "y", "1")
    runs = threading.Thread(target=lambda: scene.app.run(timeout=300))
    runs.start()
    wait_for(lambda: len(scene.read("dead")) == 2, "both letters")
    scene.app.close()
    runs.join()
    code, listed = scene.command("dead-letters", "list", dead)
    (group,) = listed["groups"]
    assert (code, group["error"], group["letters"]) == (0, "ValueError", 2)
    before = scene.read("in")
    words = [sys.executable, "-c", KILLED, dead, "--bootstrap-servers", scene.servers]
    assert subprocess.run(words, capture_output=True, timeout=400).returncode == -9
    assert scene.read("in") == sorted([*before, "x", "y"])
    code, refused = scene.command("dead-letters", "replay", dead, "--yes")
    assert code == 5, refused  # the one that was killed is in the group yet
    wait_for(
        lambda: scene.command("dead-letters", "replay", dead, "--yes")[0] == 0, "its session ends"
    )
    assert scene.read("in") == sorted([*before, "x", "y"])
    assert scene.command("dead-letters", "list", dead)[1]["groups"] == []
    assert {one["state"] for one in shown(scene)} == {"handled"}


def shown(scene: Scene) -> list[dict[str, Any]]:
    """All letters."""
    words = ("dead-letters", "show", f"{scene.name}-dead", "--handled")
    found: list[dict[str, Any]] = scene.command(*words)[1]["letters"]
    return found
