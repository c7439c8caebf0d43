"""Keys of tasks are asked for in one request, and again where there is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import cast

import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.errors import StateError, StreamletError, UnreachableError
from streamlet.processing.edges.held_records import Head, writer_of
from streamlet.processing.edges.writer_keys import LEAST_MS, PAUSE_MS, WriterKey, WriterKeys
from streamlet.tasks.key_questions import KeyQuestions
from streamlet.tasks.targets import CommitAnswer, Targets
from streamlet.types import TaskId

HERE, NEW, GONE = TaskId(0, 0), TaskId(0, 1), TaskId(0, 9)


class Asked:
    """Questions to brokers."""

    def __init__(self) -> None:
        self.questions: list[tuple[Sequence[TaskId], CommitAnswer]] = []

    def commits(self, tasks: Sequence[TaskId]) -> CommitAnswer:
        """A question that is answered later."""
        self.questions.append((sorted(tasks), Future()))
        return self.questions[-1][1]


class World:
    """The keys of a worker, and its questions."""

    def __init__(self) -> None:
        self.clock, self.keys, self.asked = ManualClock(), WriterKeys(), Asked()
        self.questions = KeyQuestions(self.keys, cast(Targets, self.asked), self.clock)

    def judged(self, task: TaskId, since_ms: int = 0) -> bool | None:
        """Whether this task wrote a word."""
        head = Head(writer_of(task), 7 << 32 | 1, 1, 0, False, 0, 0)
        return self.keys.judge(head, (0, 0), since_ms)


def test_all_are_asked_for_at_once_and_each_answer_is_taken() -> None:
    world = World()
    assert [world.judged(task) for task in (HERE, NEW, GONE)] == [None, None, None]
    world.questions.step()
    world.questions.step()
    ((tasks, answer),) = world.asked.questions
    assert tasks == [HERE, NEW, GONE]
    answer.set_result({HERE: CommitMetadata(1, "a", 1, born=7, key=b"key"), NEW: None})
    world.questions.step()
    assert [world.judged(task) for task in (HERE, NEW, GONE)] == [False, None, False]


def test_what_had_no_answer_is_asked_again_after_a_pause() -> None:
    world = World()
    world.judged(HERE)
    world.questions.step()
    world.asked.questions[0][1].set_exception(UnreachableError("away"))
    world.questions.step()
    world.questions.step()
    assert len(world.asked.questions) == 1
    world.clock.advance(PAUSE_MS)
    world.questions.step()
    assert [tasks for tasks, _ in world.asked.questions] == [[HERE], [HERE]]


def test_a_word_asks_at_once_for_what_was_asked_before_it_came() -> None:
    """And once more after a pause where that was too early as well."""
    world = World()
    world.keys.expect([writer_of(HERE), writer_of(NEW)])
    world.questions.step()
    world.asked.questions[0][1].set_result({HERE: None, NEW: None})
    world.questions.step()
    world.keys.expect([writer_of(HERE)])
    asked = []
    for pause_ms in (LEAST_MS, LEAST_MS, PAUSE_MS):
        world.judged(HERE, 1)
        world.clock.advance(pause_ms)
        world.questions.step()
        asked.append(len(world.asked.questions))
        answer = world.asked.questions[-1][1]
        if not answer.done():
            answer.set_result({HERE: None})
        world.questions.step()
    assert asked == [2, 2, 3]


def test_a_task_of_this_worker_is_known_without_a_question() -> None:
    world = World()
    world.keys.claimed(writer_of(HERE), WriterKey(7, b"key"))
    world.keys.expect([writer_of(HERE)])
    assert world.judged(HERE) is False
    world.questions.step()
    assert not world.asked.questions


def test_what_asking_again_does_not_mend_ends_the_worker() -> None:
    world = World()
    world.judged(HERE)
    world.questions.step()
    world.asked.questions[0][1].set_exception(StateError("broken"))
    with pytest.raises(StreamletError, match="broken"):
        world.questions.step()
