"""Where an application begins again, as Kafka's reset tools specify it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streamlet.admin.window import ApplicationInfo
from streamlet.config import Settings
from streamlet.errors import BrokerError, ConfigError, RefusedError
from streamlet.kafka.ports import NewTopic
from streamlet.reset import commands
from streamlet.reset.plan import ResetPlan, ResetResult
from streamlet.reset.reset import Reset
from streamlet.reset.start import StartPosition
from streamlet.tools import reset as tool
from streamlet.tools.main import build
from streamlet.types import TopicPartition
from tests.unit.reset.scene import Scene
from tests.unit.scaling.group import member


def offsets(plan: ResetPlan) -> list[int]:
    return [move.after for move in plan.moves]


def planned(scene: Scene, start: StartPosition) -> list[int]:
    """The scene's topic has 40 records in each of 2 partitions; 40 of the first are committed."""
    return offsets(Reset(scene.window(), start).plan())


@pytest.mark.parametrize(
    ("start", "after"),
    [
        (StartPosition("", offset=7), [7, 7]),
        (StartPosition("", offset=99), [40, 40]),
        (StartPosition("", shift=-5), [35, 0]),  # without a position it is the start
        (StartPosition("", shift=3), [40, 3]),
        (StartPosition("", shift=-99), [0, 0]),
        (StartPosition("", exact={TopicPartition("lines", 1): 4}), [40, 4]),
        (StartPosition.before_now("10ms", 25), [15, 15]),
        (StartPosition.before_now("PT1H", 25), [0, 0]),
    ],
)
def test_an_offset_is_kept_within_the_log(
    scene: Scene, start: StartPosition, after: list[int]
) -> None:
    assert planned(scene, start) == after


@pytest.mark.parametrize("to", ["earliest", "latest"])
def test_only_the_topics_that_are_named_move(scene: Scene, to: str) -> None:
    scene.log.create("others", 1)
    scene.log.append(TopicPartition("others", 0), [b"k"] * 9, [b"v"] * 9)
    scene.coordinator.positions[TopicPartition("others", 0)] = (5, "")
    only = StartPosition(to, topics=("others",))
    end = {"earliest": 0, "latest": 9}[to]
    assert planned(scene, only) == [40, 0, end]


def test_a_topic_or_partition_that_is_not_read_is_refused(scene: Scene) -> None:
    with pytest.raises(ConfigError, match="--topic lime: it is not read\nread are: lines"):
        planned(scene, StartPosition("latest", topics=("lime",)))
    with pytest.raises(ConfigError, match="lines-2 is not read"):
        planned(scene, StartPosition("", exact={TopicPartition("lines", 2): 4}))


def test_a_shift_that_is_broken_off_shifts_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, topics: list[NewTopic]) -> None:
        for tp in (TopicPartition("lines", 0), TopicPartition("lines", 1)):
            scene.coordinator.positions[tp] = (1, "")  # as if the first attempt had set them
        raise BrokerError("gone")

    reset = Reset(scene.window(), StartPosition("", shift=-5))
    with monkeypatch.context() as broken:
        broken.setattr(type(scene.admin), "create_topics", fail)
        with pytest.raises(BrokerError):
            reset.carry_out()
    again = Reset(scene.window(), StartPosition("", shift=-5))
    assert offsets(again.carry_out()) == [35, 0]
    assert scene.view().reset.positions == ()


def test_force_takes_dead_members_out_and_is_refused_by_living_ones(scene: Scene) -> None:
    scene.coordinator.members = (member("h1"), member("h2"))
    start = StartPosition.of("earliest")
    with pytest.raises(RefusedError, match="is running: 2 members"):
        Reset(scene.window(), start).plan()
    scene.coordinator.alive = {"id-h2-0"}
    with pytest.raises(RefusedError, match=r"is running: 1 member .*h2-0"):
        Reset(scene.window(), start, force=True).carry_out()
    scene.coordinator.alive = set()
    plan = Reset(scene.window(), start, force=True).plan()
    assert plan.as_dict(done=False)["members"] == ["h2-0"]
    Reset(scene.window(), start, force=True).carry_out()
    assert scene.coordinator.members == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no line"),
        ("lines,0\n", r"line 1: expected topic,partition,offset"),
        ("lines,0,1\n\nlines,-1,3\n", "line 3: partition and offset are numbers"),
        ("lines,0,1\nlines,0,2\n", "lines-0 is there twice"),
        (f"lines,{1 << 40},2\n", "is not from 0 to"),
        ("lines,0,\u00b2\n", "are numbers"),
    ],
)
def test_a_file_of_positions_is_refused_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "positions.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        StartPosition.from_file(path)


def test_a_file_of_positions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "positions.csv"
    path.write_text("\ufefflines,0,12\r\n lines , 1 , 7\n")
    exact = {TopicPartition("lines", 0): 12, TopicPartition("lines", 1): 7}
    assert StartPosition.from_file(path).exact == exact
    with pytest.raises(ConfigError, match="No such file"):
        StartPosition.from_file(tmp_path / "none.csv")


def start_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, StartPosition | None]:
    got: list[StartPosition] = []

    def carry_out(known: object, start: StartPosition, ask: object, **ways: Any) -> ResetResult:
        got.append(start)
        return ResetResult(ResetPlan("words", start, 1, 0, 1, (), (), ()), done=False)

    monkeypatch.setattr(
        tool, "scaled", lambda common, app: ApplicationInfo("words", Settings.load())
    )
    monkeypatch.setattr(commands, "reset", carry_out)
    result = CliRunner().invoke(build(), ["reset", "words", "--dry-run", *words])
    return result.exit_code, result.stderr, got[0] if got else None


def test_the_command_takes_one_specifier(monkeypatch: pytest.MonkeyPatch) -> None:
    assert start_of(monkeypatch)[2] == StartPosition("earliest")
    _, _, shifted = start_of(monkeypatch, "--shift-by", "-5", "--topic", "a", "--topic", "a")
    assert shifted == StartPosition("-5 records", shift=-5, topics=("a",))
    _, _, at = start_of(monkeypatch, "--to-offset", "4")
    assert at == StartPosition("offset 4", offset=4)
    code, said, _ = start_of(monkeypatch, "--to", "latest", "--shift-by", "5")
    assert code == 2
    assert "--to and --shift-by exclude each other" in said
    code, said, _ = start_of(monkeypatch, "--by-duration", "soon")
    assert code == 2
    assert "--by-duration soon" in said
