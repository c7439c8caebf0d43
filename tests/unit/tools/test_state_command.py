"""``streamlet state``: what lies on a disk, and deleting what nobody has open."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamlet.state.directory import StateDirectory
from streamlet.state.task_state import TaskState
from streamlet.tools.main import build
from streamlet.types import NO_STATE, TaskId, TopicPartition
from tests.unit.state.support import Spec

HOUR_NS = 3_600 * 10**9


def make(root: Path, application: str, task: TaskId, hours: int) -> Path:
    """A task's folder that nobody has used for some hours, with 7 records of its changelog."""
    tp = TopicPartition(f"{application}-counts-changelog", task.partition)
    with StateDirectory(root, application).lock_task(task) as lock:
        state = TaskState(lock.folder, [Spec("counts")], 1 << 20, {"counts": tp})
        state.stores["counts"].put("word", 7)
        state.positions[tp] = 7
        state.restored(NO_STATE, {})
        state.close()
    folder = root / application / str(task)
    now_ns = time.time_ns()
    for file in (*folder.rglob("*"), folder):
        os.utime(file, ns=(now_ns, now_ns - hours * HOUR_NS))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two applications; tasks used hours ago, so that it does not matter how long tests take."""
    make(tmp_path, "words", TaskId(0, 1), 100)
    make(tmp_path, "words", TaskId(0, 2), 1)
    make(tmp_path, "flights", TaskId(1, 0), 10)
    return tmp_path


def state(root: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run ``streamlet state WORDS --json`` on these folders."""
    found = CliRunner().invoke(build(), ["state", *words, "--json", "--state-dir", str(root)])
    return found.exit_code, json.loads(found.stdout)


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['application']} {row['task']}" for row in rows]


def left(root: Path) -> list[str]:
    return names(state(root, "list")[1]["tasks"])


ALL = ["flights 1_0", "words 0_1", "words 0_2"]


def test_a_folder_is_listed_with_what_is_in_it(root: Path) -> None:
    code, document = state(root, "list", "words")
    assert (code, names(document["tasks"])) == (0, ["words 0_1", "words 0_2"])
    first = document["tasks"][0]
    assert first["stores"] == ["counts"]
    assert first["bytes"] > 0
    topic = "words-counts-changelog"
    assert first["changelogs"] == [{"topic": topic, "partition": 1, "position": 7}]
    assert (first["in_use_by"], first["problem"]) == (None, None)
    used_ms = (time.time_ns() - 100 * HOUR_NS) // 10**6
    assert used_ms - 60_000 < first["dormant_since_ms"] <= used_ms
    assert left(root) == ALL


def test_to_list_does_not_make_it_younger(root: Path) -> None:
    before = state(root, "list")
    assert state(root, "list") == before


def test_who_has_a_folder_is_told_and_keeps_it(root: Path) -> None:
    with StateDirectory(root, "words").lock_task(TaskId(0, 1)):
        code, document = state(root, "list", "words")
        first = document["tasks"][0]
        assert (first["in_use_by"], first["dormant_since_ms"]) == (os.getpid(), None)
        code, document = state(root, "clean", "--all", "--yes")
        assert (code, names(document["kept"])) == (0, ["words 0_1"])
    assert left(root) == ["words 0_1"]


def test_a_damaged_folder_says_so_and_can_be_cleaned(root: Path) -> None:
    (root / "words" / "0_1" / "db" / "CURRENT").unlink()
    code, document = state(root, "list", "words")
    assert code == 0
    assert "0_1" in document["tasks"][0]["problem"]
    state(root, "clean", "--all", "--yes")
    assert left(root) == []


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        ((), ALL),
        (("--older-than", "5h"), ["flights 1_0", "words 0_1"]),
        (("--older-than", "9d"), []),
        (("--all",), ALL),
        (("words", "--all"), ["words 0_1", "words 0_2"]),
        (("--set", "state.cleanup.delay.ms=50h"), ["words 0_1"]),
    ],
)
def test_what_was_dormant_long_enough_goes(
    root: Path, words: tuple[str, ...], gone: list[str]
) -> None:
    code, document = state(root, "clean", *words, "--dry-run")
    assert (code, names(document["deleted"]), document["done"]) == (0, gone, False)
    assert left(root) == ALL
    code, document = state(root, "clean", *words, "--yes")
    assert (code, names(document["deleted"]), document["done"]) == (0, gone, True)
    assert left(root) == [one for one in ALL if one not in gone]


def test_it_asks_first(root: Path) -> None:
    code, document = state(root, "clean")
    assert (code, "give --yes" in document["error"]["message"]) == (5, True)
    assert left(root) == ALL


def test_what_cannot_be_is_said(root: Path, tmp_path: Path) -> None:
    for name, said in (
        ("nope", "no state of nope"),
        ("..", "there is no application '..'"),
        ("words/", "there is no application 'words/'"),
    ):
        code, document = state(root, "list", name)
        assert (code, said in document["error"]["message"]) == (3, True)
    assert state(root, "clean", "--all", "--older-than", "1h")[0] == 2
    assert state(root, "clean", "--older-than", "soon")[0] == 2
    assert state(tmp_path / "nothing", "list") == (
        0,
        {"state_dir": str(tmp_path / "nothing"), "tasks": []},
    )


def test_people_see_a_table(root: Path) -> None:
    found = CliRunner().invoke(build(), ["state", "list", "words", "--state-dir", str(root)])
    header, first, second = found.stdout.splitlines()
    assert header.split() == ["APPLICATION", "TASK", "STORES", "SIZE", "POSITION", "USE"]
    assert first.split()[:3] == ["words", "0_1", "counts"]
    assert "dormant for 100." in first
    assert "dormant for 1." in second
