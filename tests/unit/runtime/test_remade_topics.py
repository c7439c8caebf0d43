"""Internal topics that a broker made by itself get the partitions and settings of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from streamlet.errors import TopologyError
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog
from streamlet.topology.internal_topics import CHANGELOG_CONFIG, REPARTITION_CONFIG
from streamlet.types import TopicPartition
from tests.unit.runtime.test_catalog import prepared, regrouped, stateful

CHANGELOG = "app-counts-changelog"


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create("in", 4)
    return log


def partitions(log: MemoryLog, topic: str) -> int:
    return log.infos()[topic].partitions


class DeletingAdmin(MemoryAdmin):
    """Topics of a broker that deletes records by age where they have no policy of their own."""

    def topic_settings(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        own = super().topic_settings(names)
        return {name: {"cleanup.policy": "delete", **one} for name, one in own.items()}


def test_a_changelog_that_a_broker_made_gets_its_partitions_and_settings(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """What is in it stays: state on disk is compared with it afterwards."""
    log.create(CHANGELOG, 1)
    log.append(TopicPartition(CHANGELOG, 0), [b"k"], [b"v"])
    prepared(log, stateful())
    assert partitions(log, CHANGELOG) == 4
    assert log.config(CHANGELOG) == dict(CHANGELOG_CONFIG)
    assert log.end(TopicPartition(CHANGELOG, 0)) == 1
    assert "was made by a broker, with 1 partition" in caplog.text
    caplog.clear()
    prepared(log, stateful())
    assert not caplog.text


def test_so_does_a_repartition_topic(log: MemoryLog) -> None:
    prepared(log, regrouped())
    (between,) = (name for name in log.infos() if name.endswith("-repartition"))
    log.delete(between)
    log.create(between, 1)
    prepared(log, regrouped())
    assert partitions(log, between) == 4
    assert log.config(between) == dict(REPARTITION_CONFIG)


def test_with_the_right_number_of_partitions_it_lacks_its_settings_all_the_same(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the broker deletes state by age."""
    log.create(CHANGELOG, 4)
    prepared(log, stateful(), admin=DeletingAdmin(log))
    assert log.config(CHANGELOG)["cleanup.policy"] == "compact"
    assert "was made by a broker, with 4 partitions" in caplog.text


def test_one_that_is_made_again_with_as_many_partitions_gets_its_settings_while_all_run(
    log: MemoryLog,
) -> None:
    """Nothing starts again: its owner has found that it lost records."""
    catalog = prepared(log, stateful(), admin=DeletingAdmin(log))
    assert not catalog.look(0)
    log.delete(CHANGELOG)
    log.create(CHANGELOG, 4)
    assert not catalog.look(1)
    assert log.config(CHANGELOG) == {}
    catalog.doubted = True
    assert not catalog.look(2), "the tasks are the same"
    assert log.config(CHANGELOG) == dict(CHANGELOG_CONFIG)
    assert not catalog.doubted


def test_one_with_settings_of_its_own_was_made_for_another_number_of_tasks(
    log: MemoryLog,
) -> None:
    log.create(CHANGELOG, 1, dict(CHANGELOG_CONFIG))
    with pytest.raises(TopologyError, match="was made for 1: keys would meet"):
        prepared(log, stateful())
    assert partitions(log, CHANGELOG) == 1


def test_one_with_more_partitions_is_named_with_what_keeps_the_state(log: MemoryLog) -> None:
    log.create(CHANGELOG, 6)
    with pytest.raises(TopologyError, match=r"6 partitions in place of 4.*delete it") as refused:
        prepared(log, stateful())
    assert "fills it from the state" in str(refused.value)
    assert "reset" not in str(refused.value)


def test_settings_that_may_not_be_changed_are_named(
    log: MemoryLog, caplog: pytest.LogCaptureFixture
) -> None:
    class Admin(MemoryAdmin):
        def alter_topics(self, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
            return dict.fromkeys(settings, "TOPIC_AUTHORIZATION_FAILED")

    log.create(CHANGELOG, 1)
    prepared(log, stateful(), admin=Admin(log))
    assert partitions(log, CHANGELOG) == 4
    assert "its settings cannot be changed: TOPIC_AUTHORIZATION_FAILED" in caplog.text
