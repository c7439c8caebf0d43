"""Which changelogs are whose, from what commits say."""

from __future__ import annotations

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.scaling.cluster import changelog_partitions, changelogs_by_subtopology, task_sizes
from streamlet.types import TaskId, TopicPartition


def commit(by: str, *changelogs: str, partition: int = 0) -> CommitMetadata:
    return CommitMetadata(1, by, 5, {TopicPartition(topic, partition): 9 for topic in changelogs})


def test_a_subtopology_has_the_changelogs_that_its_members_commit() -> None:
    running = {TaskId(0, 0): "a", TaskId(0, 1): "b", TaskId(1, 0): "b", TaskId(1, 1): "a"}
    commits = {
        TopicPartition("in", 0): commit("a", "counts"),
        TopicPartition("in", 1): commit("b", "counts", partition=1),
        TopicPartition("between", 0): commit("b", "groups", "sums"),
        TopicPartition("between", 1): commit("a", "groups", "sums", partition=1),
    }
    assert changelogs_by_subtopology(commits, running, []) == {
        0: frozenset({"counts"}),
        1: frozenset({"groups", "sums"}),
    }


def test_two_inputs_of_a_subtopology_name_the_same_changelogs() -> None:
    commits = {
        TopicPartition("left", 0): commit("a", "joined"),
        TopicPartition("right", 0): commit("a", "joined"),
    }
    assert changelogs_by_subtopology(commits, {TaskId(3, 0): "a"}, []) == {3: frozenset({"joined"})}


def test_one_that_moved_since_its_commit_does_not_mislead() -> None:
    running = {TaskId(0, p): "a" for p in range(3)} | {TaskId(1, p): "b" for p in range(3)}
    commits = {TopicPartition("in", p): commit("a", "one", partition=p) for p in range(3)}
    commits |= {TopicPartition("mid", p): commit("b", "two", partition=p) for p in range(3)}
    commits[TopicPartition("in", 2)] = commit("b", "one", partition=2)
    found = changelogs_by_subtopology(commits, running, [])
    assert found == {0: frozenset({"one"}), 1: frozenset({"two"})}


def test_where_several_fit_alike_topics_between_subtopologies_come_later() -> None:
    commits = {
        TopicPartition("app-a-repartition", 0): commit("a", "another"),
        TopicPartition("in", 0): commit("a", "one"),
    }
    assert changelogs_by_subtopology(commits, {TaskId(0, 0): "a", TaskId(1, 0): "a"}, []) == {
        0: frozenset({"one"}),
        1: frozenset({"another"}),
    }


def test_stateless_inputs_have_none() -> None:
    commits = {TopicPartition("in", 0): commit("a")}
    assert changelogs_by_subtopology(commits, {TaskId(0, 0): "a"}, []) == {}


def test_changelogs_that_commits_name_by_number_are_those_of_that_number_that_there_are() -> None:
    text = commit("a", "app-one-changelog", "app-two-changelog").to_text(compact=True)
    metadata = CommitMetadata.from_text(text)
    assert metadata is not None
    commits = {TopicPartition("in", 0): metadata}
    there = ["app-two-changelog", "app-one-changelog", "app-left-over-changelog"]
    found = changelogs_by_subtopology(commits, {TaskId(0, 0): "a"}, there)
    assert found == {0: frozenset({"app-one-changelog", "app-two-changelog"})}


def test_the_size_of_a_task_is_that_of_its_changelog_partitions() -> None:
    tasks = [TaskId(0, 1), TaskId(1, 1)]
    partitions = changelog_partitions({0: ["two", "one"]}, tasks)
    assert partitions == {
        TaskId(0, 1): [TopicPartition("one", 1), TopicPartition("two", 1)],
    }
    sizes = {TopicPartition("one", 1): 5, TopicPartition("one", 0): 100}
    assert task_sizes(partitions, sizes) == {TaskId(0, 1): 5}
