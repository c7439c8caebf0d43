"""A reset touches topics that the topology has, and those that prove whose they are."""

from __future__ import annotations

import pytest

import streamlet as sl
from streamlet.control.values import ResetEpoch
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import TopologyError
from streamlet.kafka.ports import NewTopic
from streamlet.reset.plan import ResetPlan
from streamlet.state.changelog import encode_column
from streamlet.topology.graph import Topology
from streamlet.topology.internal_topics import CHANGELOG_CONFIG, REPARTITION_CONFIG
from streamlet.topology.names import may_be_of
from streamlet.types import StateNumber, TopicPartition
from tests.unit.reset.scene import (
    BETWEEN,
    COUNTS,
    FOREIGN,
    TEXT,
    Scene,
    fill_changelog,
    fill_repartition,
)

USERS, CLICKS = "words-users-changelog", "words-clicks-repartition"


def topology() -> Topology:
    app = sl.App("words")
    lines = app.stream("lines", key=str, value=str)
    lines.group_by(lambda k, v: v).count(store="counts").to_stream().to("words-sums-changelog")
    app.table(USERS, key=str, value=str, store="users").to_stream().to("out")
    app.global_table("words-rates-changelog", key=str, value=str)
    return app.topology()


def touched(plan: ResetPlan) -> set[str]:
    return {topic.name for topic in plan.recreated} | set(plan.removed)


def create(scene: Scene, *topics: str) -> None:
    for topic in topics:
        scene.log.create(topic, 1)
        scene.log.append(TopicPartition(topic, 0), [b"k"] * 50, [b"v"] * 50)


@pytest.mark.parametrize("known", [True, False])
def test_topics_of_the_users_that_are_called_like_internal_ones_stay(
    scene: Scene, known: bool
) -> None:
    scene.topology = topology() if known else None
    users = [USERS, CLICKS, "words-sums-changelog", "words-rates-changelog", "words-old-changelog"]
    create(scene, *users)
    scene.log.create("out", 1)
    scene.coordinator.positions[TopicPartition(USERS, 0)] = (50, TEXT)
    scene.coordinator.positions[TopicPartition(CLICKS, 0)] = (50, TEXT)
    ids = scene.admin.topic_ids(users)
    plan = scene.reset().carry_out()
    assert scene.admin.topic_ids(users) == ids
    assert {COUNTS, BETWEEN} <= touched(plan)
    assert USERS in plan.sources
    uncertain = {CLICKS, "words-old-changelog"}
    assert set(plan.left) == (uncertain if known else set(users))
    assert plan.as_dict(done=True)["left"] == sorted(plan.left)


def test_a_topic_that_only_commit_metadata_names_is_not_touched(scene: Scene) -> None:
    create(scene, "payments", USERS)
    ends = {TopicPartition(name, 0): 1 for name in ("payments", USERS, FOREIGN)}
    text = CommitMetadata(99, "x", 1, ends, StateNumber(1, 1)).to_text()
    scene.coordinator.positions[TopicPartition("lines", 1)] = (0, text)
    ids = scene.admin.topic_ids(["payments", USERS, FOREIGN])
    plan = scene.reset().carry_out()
    assert scene.admin.topic_ids(["payments", USERS, FOREIGN]) == ids
    assert (touched(plan), plan.left) == ({COUNTS, BETWEEN}, (USERS,))


@pytest.mark.parametrize("known", [True, False])
def test_a_topic_that_only_the_control_topic_names_is_not_touched(
    scene: Scene, known: bool
) -> None:
    """The entry of an unfinished reset can be written by anybody who may write that topic."""
    create(scene, "payments", USERS)
    names = ["payments", USERS, FOREIGN, "new-one"]
    ids = scene.admin.topic_ids(names)
    scene.write(ResetEpoch(1, 0, tuple(NewTopic(name, 1, 1) for name in names)))
    if known:
        scene.topology = topology()
        for topic in ("out", "words-sums-changelog", "words-rates-changelog"):
            scene.log.create(topic, 1)
    plan = scene.reset().carry_out()
    assert scene.admin.topic_ids(names) == ids
    assert COUNTS in touched(plan)
    assert {"payments", FOREIGN} <= set(plan.left)


def test_records_of_an_unfinished_backfill_prove_what_the_control_topic_names(scene: Scene) -> None:
    """They bear numbers and no commit entry."""
    name = "words-sums-changelog"
    scene.log.create(name, 1, dict(CHANGELOG_CONFIG))
    values, _ = encode_column(StateNumber(8, 1), [b"row"] * 3)
    scene.log.append(TopicPartition(name, 0), [b"a", b"b", b"c"], values)
    assert scene.reset().plan().left == (name,)
    scene.write(ResetEpoch(1, 0, (NewTopic(name, 1, 1),)))
    assert name in touched(scene.reset().plan())


def test_an_entry_tells_whose_changelog_it_is_where_no_longer_id_fits(scene: Scene) -> None:
    scene.coordinator.groups = ("words", "words-eu", "words-day")
    names = ("counts-day", "x-n", "day-counts", "copy")
    daily, theirs, doubtful, copied = (f"words-{name}-changelog" for name in names)
    for topic in (daily, theirs, doubtful, copied):
        scene.log.create(topic, 1, dict(CHANGELOG_CONFIG))
    fill_changelog(scene.log, TopicPartition(daily, 0), 5)
    fill_changelog(scene.log, TopicPartition(theirs, 0), 5, application="words-x")
    fill_changelog(scene.log, TopicPartition(doubtful, 0), 5)
    for record in scene.log.records(TopicPartition(daily, 0)):
        row = [record.key], [record.value], None, [record.headers]
        scene.log.append(TopicPartition(copied, 0), *row)
    plan = scene.reset().plan()
    assert touched(plan) == {BETWEEN, COUNTS, daily}
    assert plan.left == (copied, doubtful, theirs), "words-day may have the one, words-x the other"


# -- forged records: others may write to a topic, and not change its settings ----------------------


@pytest.mark.parametrize("noted", [False, True])
def test_forged_records_make_no_topic_of_the_users_ours(scene: Scene, noted: bool) -> None:
    scene.log.create(USERS, 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "60000"})
    scene.log.create(CLICKS, 1, {"cleanup.policy": "delete", "retention.ms": "-1"})
    for topic in (USERS, CLICKS):
        scene.log.append(TopicPartition(topic, 0), [b"k"] * 50, [b"v"] * 50)
        scene.coordinator.positions[TopicPartition(topic, 0)] = (50, TEXT)
    fill_changelog(scene.log, TopicPartition(USERS, 0), 2_000)
    fill_repartition(scene.log, TopicPartition(CLICKS, 0), 2_000)
    if noted:
        scene.write(ResetEpoch(1, 0, (NewTopic(USERS, 1, 1), NewTopic(CLICKS, 1, 1))))
    ids = scene.admin.topic_ids([USERS, CLICKS])
    plan = scene.reset().carry_out()
    assert scene.admin.topic_ids([USERS, CLICKS]) == ids
    assert (touched(plan), set(plan.left)) == ({BETWEEN, COUNTS}, {USERS, CLICKS})


def test_forged_entries_make_no_topic_of_another_application_ours(scene: Scene) -> None:
    scene.log.delete(FOREIGN)
    scene.log.create(FOREIGN, 1, dict(CHANGELOG_CONFIG))
    fill_changelog(scene.log, TopicPartition(FOREIGN, 0), 2_000)
    plan = scene.reset().plan()
    assert (touched(plan), plan.left) == ({BETWEEN, COUNTS}, (FOREIGN,))


def test_a_forged_entry_does_not_hide_a_changelog_from_a_reset(scene: Scene) -> None:
    at = TopicPartition(COUNTS, 0)
    fill_changelog(scene.log, at, 3, application="payments")
    assert COUNTS in touched(scene.reset().plan())
    name = "words-counts-day-changelog"
    scene.log.create(name, 1, dict(CHANGELOG_CONFIG))
    fill_changelog(scene.log, TopicPartition(name, 0), 3)
    fill_changelog(scene.log, TopicPartition(name, 0), 3, application="words-counts")
    assert scene.reset().plan().left == (name,), "either may have it"


def test_an_entry_is_found_below_records_without_one(scene: Scene) -> None:
    at = TopicPartition(COUNTS, 0)
    values, _ = encode_column(StateNumber(7, 5), [b"row"] * 900)
    scene.log.append(at, [b"k"] * 900, values)
    scene.log.delete(BETWEEN)
    assert touched(scene.reset().plan()) == {COUNTS}


def test_a_repartition_topic_without_prefixes_proves_itself_by_its_settings(scene: Scene) -> None:
    plain, other = "words-plain-repartition", "words-other-repartition"
    for name, config in ((plain, dict(REPARTITION_CONFIG)), (other, {"retention.ms": "-1"})):
        scene.log.create(name, 1, config)
        scene.log.append(TopicPartition(name, 0), [b"k"], [b"v"])
        scene.coordinator.positions[TopicPartition(name, 0)] = (1, TEXT)
    plan = scene.reset().plan()
    assert (plain in touched(plan), other in touched(plan)) == (True, False)
    assert (plan.left, plan.sources) == ((other,), ("lines", other))
    del scene.coordinator.positions[TopicPartition(plain, 0)]
    assert plain in scene.reset().plan().left, "the group does not read it"


def test_another_application_keeps_its_repartition_topic(scene: Scene) -> None:
    name = "words-eu-sums-repartition"
    scene.log.create(name, 1, dict(REPARTITION_CONFIG))
    fill_repartition(scene.log, TopicPartition(name, 0), 3)
    assert name not in touched(scene.reset().plan())
    scene.coordinator.groups = ("words",)
    scene.log.delete("words-eu-streamlet-control")
    assert name in touched(scene.reset().plan())


def test_a_made_up_name_that_nothing_was_written_to_goes(scene: Scene) -> None:
    """Left there, it would keep a topology in which the store moved from starting."""
    scene.topology = topology()
    for topic in ("out", USERS, "words-sums-changelog", "words-rates-changelog"):
        scene.log.create(topic, 1)
    gone = "words-KSTREAM-AGGREGATE-STATE-STORE-0000000001-changelog"
    scene.log.create(gone, 1)
    scene.log.create("words-given-changelog", 1)
    plan = scene.reset().plan()
    assert gone in plan.removed
    assert "words-given-changelog" in plan.left


def test_names_that_may_be_internal_ones() -> None:
    assert may_be_of(COUNTS, "words")
    assert may_be_of(FOREIGN, "words")
    for name in ("words--changelog", "words-changelog", "counts-changelog", "words-output"):
        assert not may_be_of(name, "words")


def test_a_store_whose_changelog_would_be_a_topic_of_the_users_is_refused() -> None:
    for how in ("table", "global_table", "to"):
        app = sl.App("words")
        lines = app.stream("lines", key=str, value=str)
        lines.group_by_key().count(store="users")
        if how == "to":
            lines.to(USERS)
        else:
            getattr(app, how)(USERS, key=str, value=str)
        with pytest.raises(TopologyError, match=rf"'{USERS}' is .*give the store another name"):
            app.topology()
