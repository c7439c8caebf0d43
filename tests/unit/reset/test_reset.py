"""A reset is all or nothing, refused while anybody runs, and can be finished by a second one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import attrs
import pytest

import streamlet as sl
from streamlet.bounded import INT32_MAX
from streamlet.control.values import Mark, ResetEpoch
from streamlet.control.view import ControlView
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import (
    BrokerError,
    ConfigError,
    DeletionDisabledError,
    MissingTopicError,
    NotFoundError,
    RefusedError,
    TimedOutError,
)
from streamlet.hosting.adoption import discard_before_reset
from streamlet.kafka.ports import NewTopic
from streamlet.reset.plan import ResetPlan, ResetResult
from streamlet.reset.start import StartPosition
from streamlet.state.directory import FolderLock, StateDirectory
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import CHANGELOG_CONFIG, TIME_CONFIG
from streamlet.types import NO_STATE, TaskId, TopicPartition
from tests.unit.reset.scene import (
    BETWEEN,
    COUNTS,
    FOREIGN,
    Scene,
    fill_changelog,
)
from tests.unit.reset.scene import (
    TEXT as TEXT,
)
from tests.unit.reset.scene import (
    Coordinator as Coordinator,
)
from tests.unit.scaling.group import member


def offsets(plan: ResetPlan) -> list[int]:
    return [move.after for move in plan.moves]


def test_the_highest_number_of_a_reset_keeps_no_later_one_from_being_read(scene: Scene) -> None:
    scene.write(ResetEpoch(INT32_MAX, 5))
    scene.reset().carry_out()
    assert scene.view().reset == ResetEpoch(1, 1_000)


def test_everything_is_as_if_it_had_never_run(scene: Scene) -> None:
    scene.write(Mark("process-h1", 1, name="h1"))
    before = scene.admin.topic_ids([COUNTS, BETWEEN, FOREIGN])
    plan = scene.reset().carry_out()
    after = scene.admin.topic_ids([COUNTS, BETWEEN, FOREIGN])
    assert [before[name] == after[name] for name in (COUNTS, BETWEEN, FOREIGN)] == [0, 0, 1]
    assert scene.log.end(TopicPartition(COUNTS, 0)) == 0
    assert scene.log.config(COUNTS)["max.message.bytes"] == "5000000"
    assert plan.epoch == 1
    assert scene.view() == ControlView(reset=ResetEpoch(1, 1_000))
    assert {tp: offset for tp, (offset, _) in scene.coordinator.positions.items()} == {
        TopicPartition(topic, partition): 0 for topic in ("lines", BETWEEN) for partition in (0, 1)
    }


def test_the_text_beside_positions_knows_no_state_but_carries_the_epoch_on(scene: Scene) -> None:
    scene.reset("latest").carry_out()
    for offset, text in scene.coordinator.positions.values():
        found = CommitMetadata.from_text(text)
        assert found is not None
        assert (found.epoch, found.state, found.ends, found.release_to) == (7, NO_STATE, {}, None)
        assert offset in (40, 0)


def test_positions_go_to_the_start_the_end_or_a_time(scene: Scene) -> None:
    scene.log.raise_start(TopicPartition("lines", 1), 10)
    assert offsets(scene.reset("earliest").plan()) == [0, 10]
    assert offsets(scene.reset("latest").plan()) == [40, 40]
    assert offsets(scene.reset("1970-01-01T00:00:00.025").plan()) == [25, 25]
    assert offsets(scene.reset("2199-01-01").plan()) == [40, 40]
    assert [move.before for move in scene.reset().plan().moves] == [40, -1]


def test_a_plan_changes_nothing(scene: Scene) -> None:
    before = dict(scene.coordinator.positions), scene.log.infos(), scene.view()
    found = scene.reset("latest").plan().as_dict(done=False)
    assert (scene.coordinator.positions, scene.log.infos(), scene.view()) == before
    assert found["topics"] == [
        {"name": BETWEEN, "partitions": 2, "made_anew": True},
        {"name": COUNTS, "partitions": 2, "made_anew": True},
    ]
    assert found["positions"][1] == {"topic": "lines", "partition": 1, "from": None, "to": 40}


def test_nothing_is_done_while_somebody_runs(scene: Scene) -> None:
    scene.coordinator.members = (member("h1", "0_0"),)
    ids = scene.admin.topic_ids([COUNTS, BETWEEN])
    for step in (scene.reset().plan, scene.reset().carry_out):
        with pytest.raises(RefusedError, match=r"1 member in its group \(h1-0\). Nothing was"):
            step()
    assert scene.admin.topic_ids([COUNTS, BETWEEN]) == ids
    assert scene.view() == ControlView()


def test_static_members_that_are_down_are_named_with_the_way_out(scene: Scene) -> None:
    scene.coordinator.members = (attrs.evolve(member("h1", "0_0"), instance_id="one-0"),)
    with pytest.raises(RefusedError, match="members remove words --instance-id one-0"):
        scene.reset().plan()


def test_somebody_who_joins_meanwhile_leaves_it_unfinished(scene: Scene) -> None:
    scene.coordinator.codes = [25]
    with pytest.raises(RefusedError, match="joined while it was reset"):
        scene.reset().carry_out()
    assert scene.view().reset.pending is not None
    scene.reset().carry_out()
    assert scene.view().reset == ResetEpoch(1, 1_000)


def test_a_coordinator_that_moves_is_asked_again(scene: Scene) -> None:
    scene.coordinator.codes = [16, 14, 3]
    scene.reset("latest").carry_out()
    assert scene.coordinator.positions[TopicPartition("lines", 1)][0] == 40


def test_positions_that_go_with_a_deleted_topic_are_set_again(scene: Scene) -> None:
    """The coordinator may learn late that a topic was deleted, and that there is a new one."""
    scene.coordinator.positions.clear()
    scene.coordinator.positions[TopicPartition("lines", 0)] = (7, "")
    scene.coordinator.forgets = 2
    scene.reset().carry_out()
    assert len(scene.coordinator.positions) == 4
    assert {offset for offset, _ in scene.coordinator.positions.values()} == {0}


def test_what_the_coordinator_refuses_is_named(scene: Scene) -> None:
    scene.coordinator.codes = [30]
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        scene.reset().carry_out()


class NoDeletion(MemoryAdmin):
    """Of brokers that let nobody delete topics."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Refuse."""
        raise DeletionDisabledError(f"topic {names[0]} cannot be deleted")


class Dies(MemoryAdmin):
    """Of a machine that fails between deleting and creating."""

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Fail."""
        raise KeyboardInterrupt


def test_where_nothing_can_be_deleted_nothing_was_changed(scene: Scene) -> None:
    before = dict(scene.coordinator.positions)
    scene.admin = NoDeletion(scene.log)
    with pytest.raises(DeletionDisabledError):
        scene.reset().carry_out()
    assert (scene.coordinator.positions, scene.view()) == (before, ControlView())
    scene.write(ResetEpoch(4, 5))
    with pytest.raises(DeletionDisabledError):
        scene.reset().carry_out()
    assert scene.view().reset == ResetEpoch(4, 5)


def test_a_second_reset_finishes_one_that_was_broken_off(scene: Scene) -> None:
    """The topics are gone, and with them what told that there are any, and how they were set."""
    scene.admin = Dies(scene.log)
    with pytest.raises(KeyboardInterrupt):
        scene.reset().carry_out()
    assert COUNTS not in scene.log.infos()
    scene.coordinator.positions.clear()
    scene.admin = MemoryAdmin(scene.log)
    plan = scene.reset("latest").plan()
    assert (plan.unfinished, plan.epoch, plan.sources) == (True, 1, ("lines",))
    scene.reset("latest").carry_out()
    assert scene.log.config(COUNTS)["max.message.bytes"] == "5000000"
    assert scene.log.infos()[BETWEEN].partitions == 2
    assert scene.coordinator.positions[TopicPartition("lines", 0)][0] == 40
    assert scene.view().reset == ResetEpoch(1, 1_000)


class DeletesSome(MemoryAdmin):
    """Of brokers that refuse in the middle."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete the first."""
        super().delete_topics(names[:1])
        raise BrokerError("no right to delete the second")


def test_what_was_deleted_by_half_stays_noted(scene: Scene) -> None:
    scene.admin = DeletesSome(scene.log)
    with pytest.raises(BrokerError, match="the second"):
        scene.reset().carry_out()
    assert scene.view().reset.pending is not None
    scene.admin = MemoryAdmin(scene.log)
    scene.reset().carry_out()
    assert {COUNTS, BETWEEN} < scene.log.infos().keys()


class Lags(MemoryAdmin):
    """Of brokers of which one has forgotten the topics, and the one asked to create has not."""

    def __init__(self, log: MemoryLog) -> None:
        """Nothing was asked yet."""
        super().__init__(log)
        self.creates: int | None = None

    def delete_topics(self, names: Sequence[str]) -> None:
        """Not yet."""
        self.creates = 0

    def topic_ids(self, names: Sequence[str]) -> dict[str, str]:
        """Of the broker that has forgotten them."""
        return {} if self.creates == 0 else super().topic_ids(names)

    def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """They exist, at first."""
        assert self.creates is not None
        self.creates += 1
        if self.creates == 2:
            super().delete_topics([topic.name for topic in topics])
        super().create_topics(topics)


def test_a_topic_is_made_again_only_when_it_has_another_id(scene: Scene) -> None:
    before = scene.admin.topic_ids([COUNTS, BETWEEN])
    scene.admin = Lags(scene.log)
    scene.reset().carry_out()
    after = scene.admin.topic_ids([COUNTS, BETWEEN])
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())


class Keeps(MemoryAdmin):
    """Of brokers that take their time to delete; meanwhile somebody has had enough."""

    stopped: threading.Event

    def delete_topics(self, names: Sequence[str]) -> None:
        """Do nothing yet."""
        self.stopped.set()


def test_a_deletion_is_waited_for(scene: Scene) -> None:
    """Stopped meanwhile, it stays noted: the brokers are still to delete what they show."""
    scene.admin = keeps = Keeps(scene.log)
    keeps.stopped = scene.stopped
    with pytest.raises(TimedOutError, match="stopped while it waited for topics"):
        scene.reset().carry_out()
    assert COUNTS in scene.log.infos()
    assert scene.view().reset.pending is not None


def topology() -> Topology:
    app = sl.App("words")
    lines = app.stream("lines", key=str, value=str)
    lines.group_by(lambda key, value: value).count(store="counts")
    return app.topology()


def test_a_topology_says_which_topics_are_made_again_and_how(scene: Scene) -> None:
    """The input was given more partitions; what the topology does not have goes for good."""
    scene.topology = topology()
    scene.log.delete("lines")
    scene.log.create("lines", 3)
    scene.log.create("words-STORE-0000000001-changelog", 2, dict(CHANGELOG_CONFIG))
    fill_changelog(scene.log, TopicPartition("words-STORE-0000000001-changelog", 1), 3)
    plan = scene.reset().plan()
    made = {topic.name: topic for topic in plan.recreated}
    (between,) = scene.topology.repartition_topics
    assert made.keys() == {COUNTS, between}
    assert made[COUNTS].partitions == 3
    assert dict(made[COUNTS].config) == {
        **dict(TIME_CONFIG),
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": "3600000",
        "max.message.bytes": "5000000",
    }
    assert set(plan.removed) == {"words-STORE-0000000001-changelog", BETWEEN} - {between}
    scene.reset().carry_out()
    assert "words-STORE-0000000001-changelog" not in scene.log.infos()
    assert scene.view().reset.epoch == 1


def test_what_is_not_there_is_said(scene: Scene) -> None:
    scene.log.delete("lines")
    scene.topology = topology()
    with pytest.raises(MissingTopicError, match=r"topics that do not exist: lines.* READ on topic"):
        scene.reset().plan()
    scene.topology = None
    scene.coordinator.positions.clear()
    with pytest.raises(ConfigError, match="give module:attribute"):
        scene.reset().plan()
    scene.log.delete("words-streamlet-control")
    with pytest.raises(NotFoundError, match="no application 'words'"):
        scene.reset().plan()


def test_times_are_utc_unless_they_say_otherwise() -> None:
    noon = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
    assert StartPosition.of("2026-01-31T12:00:00").at_ms == noon
    assert StartPosition.of("2026-01-31T13:00:00+01:00").at_ms == noon
    assert StartPosition.of("2026-01-31T12:00Z").at_ms == noon
    assert StartPosition.of(datetime(2026, 1, 31, 12)).at_ms == noon  # noqa: DTZ001 - it is the point
    east = timezone(timedelta(hours=5))
    assert StartPosition.of(datetime(2026, 1, 31, 17, tzinfo=east)).at_ms == noon
    for text in ("soon", "", "2026-13-01", "1969-12-31"):
        with pytest.raises(ConfigError, match="--to"):
            StartPosition.of(text)


@pytest.fixture
def folder(tmp_path: Path) -> tuple[StateDirectory, FolderLock]:
    """A state folder with one task."""
    directory = StateDirectory(tmp_path, "words")
    _, lock = directory.lock_instance()
    directory.lock_task(TaskId(0, 1)).release()
    return directory, lock


def test_state_from_before_a_reset_is_discarded_once(
    folder: tuple[StateDirectory, FolderLock],
) -> None:
    directory, lock = folder
    discard_before_reset(directory, lock, ResetEpoch(0))
    assert [one.task for one in directory.tasks()] == [TaskId(0, 1)]
    discard_before_reset(directory, lock, ResetEpoch(1, 500))
    assert directory.tasks() == []
    directory.lock_task(TaskId(0, 2)).release()
    discard_before_reset(directory, lock, ResetEpoch(1, 500))
    assert len(directory.tasks()) == 1
    discard_before_reset(directory, lock, ResetEpoch(1, 900))  # the control topic was created again
    assert directory.tasks() == []


def test_no_instance_starts_amid_a_reset(folder: tuple[StateDirectory, FolderLock]) -> None:
    with pytest.raises(RefusedError, match="streamlet reset words again"):
        discard_before_reset(*folder, ResetEpoch(1, 0, pending=()))
    assert len(folder[0].tasks()) == 1


def test_a_result_is_shown_as_the_document_that_the_command_prints() -> None:
    result = ResetResult(ResetPlan("words", StartPosition("earliest"), 1, 0, 1, (), (), ()), True)
    assert repr(result) == f"ResetResult({result.as_dict()})"
    assert "'done': True" in repr(result)
