"""Restoring beside changelogs that lost records, and records that a commit does not know."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from streamlet.coordinator.commit_metadata import CommitMetadata, Rebuilt
from streamlet.errors import StateError, TaskCorruptedError
from streamlet.tasks.open_task import OpenTask
from streamlet.types import StateNumber
from tests.unit.tasks.test_changelog_reader import S0, T0, T1, World, number


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def told(job: OpenTask, **more: object) -> OpenTask:
    """The job, with more that its commit tells."""
    job.target = attrs.evolve(job.target, **more)
    return job


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_log_that_lost_records_is_read_on_for_what_is_beyond_the_state(
    world: World, made_anew: bool
) -> None:
    """The local state is exactly the commit; what somebody began to write again does not count."""
    world.flush(1, 1, a=1, b=1)
    world.flush(1, 2, a=2)
    state = world.state()
    world.run(world.job(state, limit=(1, 2)))
    state.close()
    if made_anew:
        world.log.delete(S0.topic)
        world.log.create(S0.topic, 2)
    else:
        world.log.lose_tail(S0, 2)
    world.flush(2, 1, c=7)
    state = world.state()
    world.run(told(world.job(state, (1, 2)), rewrite=frozenset({S0})))
    assert world.entries(state) == {"a": 2, "b": 1}
    state.write_all_again("s")
    columns = state.drain().columns["s"]
    written = dict(zip(columns.keys, columns.values, strict=True))
    assert written == {b"a": number(2), b"b": number(1), b"c": None}
    state.close()


def test_state_from_before_its_changelog_was_written_again_is_not_believed(world: World) -> None:
    world.flush(1, 1, a=1, b=1)
    state = world.state()
    world.run(world.job(state, limit=(1, 1)))
    state.close()
    world.log.lose_tail(S0, 1)
    world.flush(2, 1, a=1, c=3)  # as long as before, and longer, but with other records
    state = world.state()
    metadata = CommitMetadata(2, "a", 1, state=StateNumber(2, 1), rebuilt=Rebuilt(2))
    world.run(told(world.job(state, (2, 1)), metadata=metadata))
    assert world.entries(state) == {"a": 1, "c": 3}
    state.close()


@pytest.mark.parametrize(
    ("flushes", "limit", "claimed", "met"),
    [
        ([(1, 1), (1, 2)], (1, 1), 1, None),  # a crash between flush and commit
        ([(1, 1), (1, 2), (1, 3)], (1, 1), 1, (1, 3)),
        ([(1, 1), (2, 1)], (1, 1), 2, None),
        ([(1, 1), (2, 1)], (1, 1), 1, (2, 1)),  # its claim was accepted before
        ([(1, 1), (2, 2)], (1, 1), 2, (2, 2)),
        ([(1, 1), (1, 3)], (1, 1), 2, None),  # what a decision gave up
        ([(1, 1), (1, 3)], (1, 1), None, None),
    ],
)
def test_records_prove_that_positions_were_set_back(
    world: World,
    flushes: list[tuple[int, int]],
    limit: tuple[int, int],
    claimed: int | None,
    met: tuple[int, int] | None,
) -> None:
    for epoch, flush in flushes:
        world.flush(epoch, flush, a=flush)
    state = world.state()
    metadata = None if claimed is None else CommitMetadata(claimed, "a", 1)
    job = told(world.job(state, limit), metadata=metadata)
    world.run(job)
    assert job.beyond == met
    state.close()


@attrs.define(eq=False)
class Failing(OpenTask):
    """A job whose stores cannot be written."""

    error: StateError = attrs.field(factory=StateError, kw_only=True)

    def finish(self) -> None:
        raise self.error


def test_a_task_that_was_given_up_with_its_state_is_not_handed_over_once_it_is_removed(
    world: World,
) -> None:
    """Another task failed in that step, so that nothing was handed over in it."""
    state, other = world.state(persistent=False), world.state(T1, persistent=False)
    rewritten = attrs.evolve(world.job(state, (1, 1)).target, rewrite=frozenset({S0}))
    world.restorer.add(Failing(T0, state, error=TaskCorruptedError("damaged")).restore(rewritten))
    world.restorer.add(Failing(T1, other).restore(world.job(other, (1, 1)).target))
    with pytest.raises(StateError):
        world.restorer.step(0)
    for task in (T0, T1):
        world.restorer.remove(task)
    assert world.restorer.step(0) == []
