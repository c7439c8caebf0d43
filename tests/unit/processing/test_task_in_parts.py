"""A task whose operators give large outputs in parts, with other work between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs

from streamlet.batch import Batch, OperatorFailed
from streamlet.coordinator.events import CommitOutcome
from streamlet.processing.policy import ErrorPolicy
from streamlet.processing.task import Task
from streamlet.topology.nodes import ProcessorNode
from tests.unit.processing.test_task import IN, each, graph, raw, sink, task, values
from tests.unit.tasks.owners import Owner, World


@attrs.frozen
class Spelled:
    """Sends the letters of each value, each as a part of its own; "?" fails."""

    def process_in_parts(self, batch: Batch) -> Iterator[Batch]:
        for at, word in enumerate(batch.values):
            one = batch.slice(at, at + 1)
            for letter in word:
                if letter == "?":
                    raise OperatorFailed(at, one.slice(0, 0)) from ValueError(word)
                yield one.with_values([letter])


def spelling(in_parts: bool = True, policy: ErrorPolicy | None = None) -> Task:
    """Spells words, and writes the letters to a topic and doubled to another one."""
    spelled = ProcessorNode("spelled", ("source",), lambda context: Spelled())
    doubled = each("doubled", ("spelled",), lambda letter: 2 * letter)
    return task(
        graph(spelled, doubled, sink("spelled"), sink("doubled", topic="twice")),
        policy,
        in_parts=in_parts,
    )


def test_a_call_returns_one_part_and_the_position_moves_with_the_last() -> None:
    running = spelling()
    seen = [values(running.process(raw("ab", "c")))]
    while running.under_way:
        assert running.positions == {IN: 0}
        seen.append(values(running.resume(0)))
    assert seen == [[b"a"], [b"b"], [b"c"]]
    assert running.positions == {IN: 2}


def test_without_parts_a_call_returns_everything() -> None:
    running = spelling(in_parts=False)
    outputs = running.process(raw("ab", "c"))
    assert values(outputs) == [b"a", b"b", b"c"]
    assert values(outputs, "twice") == [b"aa", b"bb", b"cc"]
    assert not running.under_way


def test_what_comes_amid_a_batch_waits_for_its_end() -> None:
    running = spelling()
    seen = values(running.process(raw("abc", "d")))
    seen += values(running.process(raw("ef", first=2)))
    running.skip_to(IN, 10)
    seen += values(running.process(raw("g", first=10)))
    assert (seen, running.buffered()) == ([b"a", b"b", b"c"], {IN: 2})
    assert (running.received, running.positions) == ({IN: 11}, {IN: 0})
    while running.waits(0):
        seen += values(running.resume(0))
    assert seen == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    assert (running.positions, running.buffered()) == ({IN: 11}, {IN: 0})


def test_a_task_settles_behind_the_batch_it_has_begun() -> None:
    """What has come since is not begun: a commit then says that it was not processed."""
    running = spelling()
    running.process(raw("abc"))
    running.process(raw("de", first=1))
    assert values(running.settle()) == [b"c"]
    assert (running.positions, running.received) == ({IN: 1}, {IN: 2})
    assert values(running.settle()) == []
    assert values(running.resume(0)) == [b"d"]


def test_a_record_that_fails_between_two_parts_meets_the_policy() -> None:
    running = spelling(policy=ErrorPolicy.of("skip"))
    seen = values(running.process(raw("a?b", "c")))
    while running.waits(0):
        seen += values(running.resume(0))
    assert (seen, running.counters.skipped) == ([b"a", b"c"], 1)
    assert running.positions == {IN: 2}


def test_a_task_amid_a_batch_has_no_share_in_a_commit_unless_it_has_stopped(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, Random(1))
    world.log.create("words")
    world.log.create("app-counts-changelog")
    world.produce(5)
    owner = Owner(world)
    active, settled = owner.active, list[str]()
    owner.commit_port.settle = lambda active: settled.append(str(active.task))
    list(owner.steps())  # the claim
    owner.work(5)
    begun = _Amid(active.processor)
    active.processor = begun  # type: ignore[assignment]
    owner.commit_port.begin([active])
    assert not owner.sent
    begun.under_way = False
    owner.commit_port.begin([active])
    token, offsets = owner.sent.pop()
    owner.commit_port.done(token, CommitOutcome.ACCEPTED, 0)
    assert next(iter(offsets.values()))[0] == 5
    assert settled == [str(active.task)]


class _Amid:
    """A task that has a batch under way."""

    def __init__(self, task: Task | None) -> None:
        assert task is not None
        self.under_way, self.calls, self.calling = True, None, False
        self.positions, self.edges = task.positions, task.edges
        self.epoch = task.epoch
