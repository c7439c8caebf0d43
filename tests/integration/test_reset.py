"""An application that ran, was reset and runs again, on a real broker."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pytest
from typer.testing import CliRunner

import streamlet as sl
from streamlet.admin.metadata import InstanceMetadata
from streamlet.config import Settings
from streamlet.control.topic import control_topic_name
from streamlet.control.values import ResetEpoch
from streamlet.errors import RefusedError
from streamlet.hosting.clients import open_control
from streamlet.hosting.run import OutputValue
from streamlet.kafka.client import KafkaAdmin, KafkaSink
from streamlet.kafka.ports import NewTopic, OutgoingRecords
from streamlet.state.directory import INSTANCE_LOCK, fields_of
from streamlet.tools.main import build
from tests.integration.chaos.support import wait_for
from tests.terminals import CTRL_C, Terminal

pytestmark = pytest.mark.integration

LINES = ["to be or not to be", "that is the question", "to be is to do", "to do is to be"]
WORDS = " ".join(LINES).split()


@attrs.define
class Scene:
    """A word count with topics and a state folder of its own."""

    name: str
    servers: str
    state: Path
    admin: KafkaAdmin
    app: sl.App = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        config = {
            "state.dir": str(self.state),
            "session.timeout.ms": 6000,
            "commit.interval.ms": 200,
        }
        self.app = sl.App(self.name, bootstrap_servers=self.servers, config=config)
        lines = self.app.stream(f"{self.name}-lines", key=bytes, value=str)
        words = lines.flat_map_values(str.split).group_by(lambda _, word: word)
        words.count(store="counts").to_stream().to(f"{self.name}-out")

    def write(self, lines: Sequence[str]) -> None:
        """More input."""
        sink = KafkaSink(self.servers)
        sink.send(
            OutgoingRecords(
                f"{self.name}-lines", [None] * len(lines), [line.encode() for line in lines]
            )
        )
        sink.flush(15_000)
        sink.close()

    def counted(self, words: int) -> list[OutputValue]:
        """Run until so many words are counted."""
        return self.app.run(count=words, timeout=300)

    def ids(self) -> dict[str, str]:
        """Internal topics with their ids."""
        names = [name for name in self.admin.topics() if name.startswith(f"{self.name}-")]
        ours = [name for name in names if name.endswith(("-changelog", "-repartition"))]
        return self.admin.topic_ids(ours)

    def command(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run ``streamlet reset NAME --json``; its exit code and document."""
        line = ["reset", self.name, *words, "--json", "--bootstrap-servers", self.servers]
        found = CliRunner().invoke(build(), line)
        return found.exit_code, json.loads(found.stdout)


@pytest.fixture
def scene(bootstrap_servers: str, tmp_path: Path) -> Iterator[Scene]:
    name = f"reset-{uuid4().hex[:8]}"
    admin = KafkaAdmin(bootstrap_servers)
    admin.create_topics([NewTopic(f"{name}-lines", 2, 1), NewTopic(f"{name}-out", 2, 1)])
    yield Scene(name, bootstrap_servers, tmp_path / "state", admin)
    admin.delete_topics([one for one in admin.topics() if one.startswith(name)])
    admin.close()


def last(results: Sequence[OutputValue]) -> dict[str, int]:
    """The last count of each word."""
    return {result.key: result.value for result in results}


def test_counts_begin_anew_and_old_state_is_discarded(scene: Scene) -> None:
    scene.write(LINES)
    assert last(scene.counted(len(WORDS))) == Counter(WORDS)
    before = scene.ids()

    code, plan = scene.command("--dry-run")
    assert (code, plan["done"], scene.ids()) == (0, False, before)
    assert sum(move["from"] or 0 for move in plan["positions"]) == len(LINES)
    code, refused = scene.command()
    assert (code, "give --yes" in refused["error"]["message"], scene.ids()) == (5, True, before)

    for keys, code in (("n\n", 5), (CTRL_C, 130)):
        with closing(
            Terminal(["reset", scene.name, "--bootstrap-servers", scene.servers])
        ) as terminal:
            terminal.await_text("go on? [y/N]:")
            terminal.type(keys)
            assert terminal.end() == code, terminal.text
            assert "nothing was changed" in terminal.text
    assert scene.ids() == before

    code, document = scene.command("--yes")
    assert (code, document["done"]) == (0, True), document
    assert {topic["name"] for topic in document["topics"]} == before.keys()
    after = scene.ids()
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    folders = list((scene.state / scene.name).glob("1_*"))
    assert folders, "there is old state on the disk"

    results = scene.counted(len(WORDS))
    assert last(results) == Counter(WORDS)
    assert len(results) == len(WORDS), "each word is counted from 1 on, once"
    noted = fields_of(scene.state / scene.name / INSTANCE_LOCK)["reset"]
    assert str(noted).startswith("1@"), "the instance knows which reset its state stems from"

    scene.app.reset("latest")
    scene.write(["be new", "new"])
    assert [(one.key, one.value) for one in scene.counted(3) if one.key == "new"] == [
        ("new", 1),
        ("new", 2),
    ]


def test_a_running_application_is_not_reset(scene: Scene) -> None:
    scene.write(LINES)
    run = threading.Thread(target=scene.app.run, kwargs={"name": "one"})
    run.start()
    try:

        def runs() -> bool:
            found: tuple[InstanceMetadata, ...] = scene.app.metadata()
            return any(member.active_tasks for one in found for member in one.members)

        wait_for(runs, "somebody runs tasks")
        before = scene.ids()
        code, document = scene.command("--yes")
        assert (code, "one-0" in document["error"]["message"]) == (5, True), document
        with pytest.raises(RefusedError):
            scene.app.reset(dry_run=True)
        assert scene.ids() == before
    finally:
        scene.app.close()
        run.join()
    assert control_topic_name(scene.name) in scene.admin.topics()
    code, document = scene.command("--yes", "--to", "2026-01-31T12:00:00+01:00")
    assert (code, document["to"]) == (0, "2026-01-31T11:00:00.000+00:00")


def test_one_that_was_broken_off_is_finished_by_the_next(scene: Scene) -> None:
    """Of the first only the entry is left, and that the topics are gone."""
    scene.write(LINES)
    assert last(scene.counted(len(WORDS))) == Counter(WORDS)
    settings = Settings.load({"bootstrap.servers": scene.servers})
    names = list(scene.ids())
    pending = tuple(scene.admin.definitions(names).values())
    assert {topic.partitions for topic in pending} == {2}
    with open_control(scene.name, settings) as control:
        control.write(ResetEpoch(1, 0, pending, (f"{scene.name}-lines",)))
        control.flush()
    scene.admin.delete_topics(names)
    with pytest.raises(RefusedError, match="give streamlet reset"):
        scene.counted(1)
    code, document = scene.command("--yes")
    assert (code, document["epoch"]) == (0, 1), document
    assert last(scene.counted(len(WORDS))) == Counter(WORDS)
    assert {topic for topic in scene.admin.definitions(names).values()} == set(pending)
