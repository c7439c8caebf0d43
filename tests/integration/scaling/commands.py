"""An operator's commands against a cluster of the chaos tests, and what came of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

import attrs
from typer.testing import CliRunner

from streamlet.admin.status_look import StatusLook
from streamlet.config import Settings
from streamlet.errors import NotFoundError
from streamlet.hosting.clients import open_control
from streamlet.tools.main import build
from streamlet.types import TaskId
from tests.integration.chaos.fork_server import ROOT
from tests.integration.chaos.support import SELDOM_S, Cluster, Instance, wait_for
from tests.windows import window

#: What a command says of a task whose learner has not taken over yet. One that has little to read
#: is ready before the first look.
ON_THE_WAY = (": queued", ": learning", ": ready")


@attrs.frozen
class Answer:
    """A command's exit code, its document and what it told people."""

    code: int
    document: dict[str, Any]
    told: str

    @property
    def error(self) -> str:
        """What went wrong."""
        return str(self.document["error"]["message"])


def begin(cluster: Cluster, *words: str, servers: str = "") -> subprocess.Popen[str]:
    """Start ``streamlet WORDS``."""
    where = ["--bootstrap-servers", servers or cluster.servers]
    return subprocess.Popen(
        [sys.executable, "-m", "streamlet", *words, *where],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str], timeout_s: float = 300) -> Answer:
    """How it ended."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    return Answer(process.returncode, json.loads(out or "{}"), err)


def operate(cluster: Cluster, *words: str, servers: str = "") -> Answer:
    """Run ``streamlet WORDS --json`` to its end, in this process."""
    where = ["--bootstrap-servers", servers or cluster.servers]
    result = CliRunner().invoke(build(), [*words, "--json", *where])
    return Answer(result.exit_code, json.loads(result.stdout), result.stderr)


def scale_down(cluster: Cluster, *words: str) -> Answer:
    """Run ``streamlet scale-down``."""
    return operate(cluster, "scale-down", cluster.name, *words)


def await_words(process: subprocess.Popen[str], *words: str) -> None:
    """Wait until a command has told people one of these."""
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if any(word in line for word in words):
            return
    found = answer(process)
    raise AssertionError(f"it never says {words}: {told}{found}")


def look(cluster: Cluster) -> dict[str, Any]:
    """The status document, checked."""
    seen = window(cluster.transport, cluster.admin, cluster.name)
    return StatusLook(seen, check=True).now()


def loads(found: Mapping[str, Any]) -> dict[str, int]:
    """Tasks of each instance, those included that are just coming to it."""
    return {
        one["name"]: sum(
            task["role"] in ("active", "pending")
            for member in one["members"]
            for task in member["tasks"]
        )
        - sum(
            handover["from"] in [member["member"] for member in one["members"]]
            for handover in found["handovers"]
            if handover["stage"] == "ordered"
        )
        for one in found["instances"]
    }


def learners(found: Mapping[str, Any]) -> list[str]:
    """Tasks that somebody learns."""
    return [
        task["task"]
        for one in found["instances"]
        for member in one["members"]
        for task in member["tasks"]
        if task["isLearner"]
    ]


def await_band(cluster: Cluster, instances: Sequence[Instance], timeout_s: float = 300) -> None:
    """Wait until exactly these run all tasks, each in its band, and nobody learns any more.

    All weigh the same and are stateful: the band is that of 20 % around the mean.
    """
    seen: dict[str, Any] = {}
    mean = len(cluster.tasks) / len(instances)
    least, most = min(ceil(mean * 0.8), floor(mean)), max(floor(mean * 1.2), ceil(mean))

    def so() -> bool:
        try:
            found = look(cluster)
        except NotFoundError:  # nobody has joined yet
            return False
        seen.update(found)
        shares = loads(found)
        return (
            shares.keys() == {one.name for one in instances}
            and sum(shares.values()) == len(cluster.tasks)
            and all(least <= share <= most for share in shares.values())
            and not learners(found)
            and not found["violations"]
        )

    wait_for(so, lambda: f"each {least} to {most}: {seen}\n{cluster.logs()}", timeout_s, SELDOM_S)


@attrs.frozen
class Period:
    """Who ran a task, and which active period of it that was."""

    owner: str
    epoch: int


def periods(cluster: Cluster) -> dict[TaskId, Period]:
    """The active period of every task, as its last commit tells."""
    found = cluster.committed()
    commits = {task: cluster.of_task(task, found).metadata for task in cluster.tasks}
    return {
        task: Period(one.by.split("-")[0], one.epoch)
        for task, one in commits.items()
        if one is not None
    }


def await_periods(cluster: Cluster, wanted: set[str]) -> dict[TaskId, Period]:
    """The periods, as soon as these instances run all tasks and have committed what they run.

    An owner that has committed nothing yet is known to the group only.
    """
    seen: dict[TaskId, Period] = {}

    def theirs() -> bool:
        try:
            found = look(cluster)
        except NotFoundError:
            return False
        seen.clear()
        seen.update(periods(cluster))
        owners = {str(task): period.owner for task, period in seen.items()}
        return owners == running(found) and set(owners.values()) == wanted

    wait_for(theirs, lambda: f"{wanted} run all: {seen}\n{cluster.logs()}", pause_s=SELDOM_S)
    return dict(seen)


def running(found: Mapping[str, Any]) -> dict[str, str]:
    """The instance that runs each task, or that it is just being handed to."""
    owners = {
        role: {
            task["task"]: one["name"]
            for one in found["instances"]
            for member in one["members"]
            for task in member["tasks"]
            if task["role"] == role
        }
        for role in ("active", "pending")
    }
    return owners["active"] | owners["pending"]


def assert_moved_once(
    before: Mapping[TaskId, Period], after: Mapping[TaskId, Period], leaving: Sequence[str]
) -> None:
    """What the leavers had began one new period somewhere else; nothing else was touched."""
    for task, period in before.items():
        if period.owner in leaving:
            assert after[task].owner not in leaving, task
            assert after[task].epoch == period.epoch + 1, (task, period, after[task])
        else:
            assert after[task] == period, task


def assert_left_well(leavers: Sequence[Instance], stayers: Sequence[Instance]) -> None:
    """They ended by themselves, with every task handed over to a warm copy."""
    for one in leavers:
        assert one.wait() == 0, one.log()
        assert "lost all tasks" not in one.log(), one.name
    for one in stayers:
        assert "is restored without its copy" not in one.log(), one.name


def marks(cluster: Cluster) -> list[str]:
    """Names of instances that are marked."""
    with open_control(cluster.name, Settings.load({"bootstrap.servers": cluster.servers})) as it:
        return sorted(mark.name for mark in it.read().marks.values())
