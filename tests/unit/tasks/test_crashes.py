"""Owners of one task that crash between any two steps, over a log in memory.

Whatever happens, the state that an owner begins with equals the fold of the input up to the
committed offset.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from streamlet.clock import ManualClock
from streamlet.coordinator.events import CommitDone, CommitOutcome
from streamlet.coordinator.messages import Committed
from streamlet.errors import (
    DeliveryError,
    ProcessingError,
    TaskMigratedError,
    UnreachableError,
)
from streamlet.state.changelog import encode_column
from streamlet.tasks.active import ActiveTask
from streamlet.tasks.commit import MOVES, CommitPhase
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.commit_share import Settled
from streamlet.tasks.task_record import TaskStage, Unit, UnitStage
from streamlet.testing.memory_ports import MemoryAdmin, MemoryLog, MemorySink, MemorySource
from streamlet.types import StateNumber, TaskId, TopicPartition
from tests.unit.tasks.owners import CHANGELOG, INPUT, TASK, Owner, World, fold


def live(owner: Owner, rnd: random.Random) -> None:
    """Commit some times, then die at a random step of the next commit."""
    for _ in range(rnd.randint(0, 3)):
        owner.work(rnd.randint(1, 6))
        for _ in owner.steps():
            owner.active.check_invariants()
    owner.work(rnd.randint(1, 6))
    if owner.active.claimed and owner.active.changed and rnd.random() < 0.3:
        owner.sink.fail("broken")
        with pytest.raises(DeliveryError):
            owner.commit_port.begin([owner.active])
        return
    for _, _ in zip(owner.steps(), range(rnd.randint(0, 5)), strict=False):
        owner.work(rnd.randint(0, 2))


@pytest.mark.parametrize("seed", range(40))
def test_each_owner_begins_with_exactly_the_committed_state(seed: int, tmp_path: Path) -> None:
    """Twelve owners in a row, on old and new disks, each dying somewhere else."""
    rnd = random.Random(seed)
    world = World(tmp_path, rnd)
    world.log.create("words")
    world.log.create("app-counts-changelog")
    for _ in range(12):
        world.produce(rnd.randint(3, 12))
        if rnd.random() < 0.15:
            shutil.rmtree(tmp_path, ignore_errors=True)
        owner = Owner(world)
        offset = max(0, world.committed.offset)
        assert owner.state() == fold(world.inputs, offset), f"seed {seed}, at offset {offset}"
        live(owner, rnd)
        owner.die()


@pytest.mark.parametrize("outages", [0, 2])
def test_what_a_stranger_wrote_below_our_first_record_does_not_count_later(
    tmp_path: Path, outages: int
) -> None:
    """A zombie's flush arrives between our restore and our first flush, with keys we never touch.

    Its records lie below ours and bear the number after the last commit. Once we have committed,
    a later owner would take them for part of that, if we had not written their keys again. Also
    when the broker is away at the moment in which we want to read what they are.
    """
    world = World(tmp_path, random.Random(1))
    world.log.create("words")
    world.log.create("app-counts-changelog")
    for key in "aabb":
        world.inputs.append((key, "x"))
        world.log.append(INPUT, [key.encode()], [b"x"])
    zombie = Owner(world)
    zombie.work(3)  # a, a, b
    list(zombie.steps())
    list(zombie.steps())
    zombie.work(1)
    zombie.commit_port.begin([zombie.active])  # its flush; its commit never arrives
    late = world.log.records(CHANGELOG)[-1:]
    world.log.lose_tail(CHANGELOG, late[0].offset)
    zombie.die()
    world.inputs[3:] = [("a", "x")]  # what follows has no b in it
    world.log.lose_tail(INPUT, 3)
    world.log.append(INPUT, [b"a"], [b"x"])
    owner = Owner(world)
    list(owner.steps())
    world.log.append(CHANGELOG, [b"b"], [late[0].value])
    owner.work(1)
    owner.unreadable = outages
    for _ in range(outages):
        with pytest.raises(UnreachableError):
            owner.commit_port.begin([owner.active])
        assert not owner.sent
    list(owner.steps())
    assert world.committed.offset == 4
    owner.die()
    shutil.rmtree(tmp_path)
    assert Owner(world).state() == {"a": 3, "b": 1}


def test_an_owner_leaves_its_epoch_in_a_changelog_that_it_has_nothing_to_write_to(
    tmp_path: Path,
) -> None:
    """Its commit counts although no store changed; what a zombie writes afterwards must not."""
    world = World(tmp_path, random.Random(1))
    world.log.create("words")
    world.log.create("app-counts-changelog")
    owner = Owner(world)
    list(owner.steps())
    world.inputs.append(("a", "drop"))
    world.log.append(INPUT, [b""], [b"x"])  # an empty key is a key; null values are left out
    world.log.append(INPUT, [b"a"], [None])
    owner.source.assign({INPUT: 1})
    owner.work(5)
    list(owner.steps())
    owner.die()
    number, _ = encode_column(StateNumber(0, 9), [b"x" * 16])
    world.log.append(CHANGELOG, [b"z"], [number[0]])
    shutil.rmtree(tmp_path)
    assert "z" not in Owner(world).state()


def test_whoever_meets_a_later_epoch_is_the_stranger() -> None:
    log = MemoryLog()
    log.create("c")
    values, _ = encode_column(StateNumber(3, 1), [b"x"])
    log.append(TopicPartition("c", 0), [b"a"], values)
    delivery = ChangelogDelivery(
        *(MemorySink(log), MemoryAdmin(log), ManualClock()),
        open_source=lambda: MemorySource(log, headers=True),
        read_timeout_ms=10,
    )
    with pytest.raises(TaskMigratedError, match="epoch 3, ours is 2"):
        delivery._foreign_keys(TopicPartition("c", 0), 0, 1, 2)


@pytest.mark.parametrize(
    ("key", "value"), [("a", b"\xff"), ("b", b"text"), ("", b""), ("a", None), (None, b"")]
)
def test_a_record_of_another_program_in_a_changelog_is_written_over(
    key: str | None, value: bytes | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While its owner runs and while nobody does; a compacted log keeps a key's last record."""
    world = World(tmp_path, random.Random(1))
    world.log.create("words")
    world.log.create("app-counts-changelog")
    world.inputs += [("a", "x")] * 3
    world.log.append(INPUT, [b"a"] * 3, [b"x"] * 3)
    raw = None if key is None else key.encode()
    owner = Owner(world)
    for _ in range(2):
        owner.work(1)
        list(owner.steps())
        world.log.append(CHANGELOG, [raw], [value])
    owner.work(1)
    list(owner.steps())
    found = world.log.records(CHANGELOG)
    assert f"{CHANGELOG}: the record at offset " in caplog.text
    assert caplog.text.count("is not streamlet's") == 2
    last = {row.key: (row.value, row.headers) for row in found}
    assert raw is None or last[raw] != (value, ())
    world.log.append(CHANGELOG, [raw], [value])
    owner.die()
    shutil.rmtree(tmp_path)
    later = Owner(world)
    assert later.state() == {"a": 3}
    list(later.steps())
    last = {row.key: (row.value, row.headers) for row in world.log.records(CHANGELOG)}
    assert raw is None or last[raw] != (value, ())
    later.die()


def stopped_before_its_claim(tmp_path: Path) -> Owner:
    """An owner that has processed four records and was never allowed to commit."""
    world = World(tmp_path, random.Random(1))
    world.log.create("words")
    world.log.create("app-counts-changelog")
    world.produce(4)
    owner = Owner(world)
    owner.work(4)
    return owner


def stopped_unit(token: int = -1, marks: Mapping[TaskId, str] | None = None) -> Unit:
    """A unit of the task, which has stopped."""
    return Unit(token, 1, (TASK,), marks or {}, stage=UnitStage.STOPPED)


def answer(owner: Owner, outcome: CommitOutcome) -> Settled:
    """Let the coordinator answer the commit that was sent last."""
    token, offsets = owner.sent.pop()
    if outcome is CommitOutcome.ACCEPTED:
        owner.world.committed = Committed(*offsets[INPUT])
    settled = owner.commit_port.done(token, outcome, 0)
    assert settled is not None
    return settled


def test_what_was_processed_before_the_claim_is_committed_when_the_task_is_given_up(
    tmp_path: Path,
) -> None:
    owner = stopped_before_its_claim(tmp_path)
    unit = stopped_unit()
    assert owner.commit_port.begin_claims(unit, [owner.active])
    settled = answer(owner, CommitOutcome.ACCEPTED)
    assert (settled.unit, settled.of_unit) == (unit, None)
    assert not owner.commit_port.under_way, "a claim has nothing to write"
    assert not owner.commit_port.begin_claims(unit, [owner.active])
    owner.commit_port.begin_last(unit, [owner.active])
    settled = answer(owner, CommitOutcome.ACCEPTED)
    assert (settled.unit, settled.of_unit) == (unit, CommitDone(-1, CommitOutcome.ACCEPTED))
    assert owner.holds == [-1, -1]
    assert owner.world.committed.offset == 4


def test_a_commit_that_a_join_turned_away_goes_before_the_last_one_that_the_join_waits_for(
    tmp_path: Path,
) -> None:
    owner = stopped_before_its_claim(tmp_path)
    owner.commit_port.begin([owner.active])
    assert answer(owner, CommitOutcome.GATED).unit is None
    owner.gated = True
    owner.commit_port.begin([owner.active])
    assert not owner.sent, "nobody waits for it"
    owner.commit_port.begin([owner.active], unit=stopped_unit())
    settled = answer(owner, CommitOutcome.ACCEPTED)
    assert (settled.unit, settled.of_unit) == (stopped_unit(), None)
    assert owner.active.claimed
    assert owner.holds == [None, -1]


def test_a_worker_that_stops_commits_before_a_join_that_waits_for_its_unit(tmp_path: Path) -> None:
    """Else each would wait for the other until the unit's time is up."""
    owner = stopped_before_its_claim(tmp_path)
    owner.gated = True
    owner.commit_port.begin([owner.active])
    assert not owner.commit_port.under_way
    owner.commit_port.begin([owner.active], unit=stopped_unit())
    assert owner.holds == [-1]
    assert answer(owner, CommitOutcome.GATED).unit == stopped_unit(), "the time is up"
    owner.commit_port.begin([owner.active])
    assert not owner.sent
    owner.gated = False
    owner.commit_port.begin([owner.active])
    assert owner.holds == [-1, None]


def test_what_was_prepared_before_a_record_failed_in_a_last_commit_is_committed(
    tmp_path: Path,
) -> None:
    """The failure stops the worker, and whoever stops commits what is left."""
    owner = stopped_before_its_claim(tmp_path)
    list(owner.steps())  # the claim
    fails = cast(Any, object())

    def settle(active: ActiveTask) -> None:
        if active is fails:
            raise ProcessingError("no", "words", 0, 0, "map")

    owner.commit_port.settle = settle
    owner.active.move_to(TaskStage.STOPPED)
    unit = stopped_unit(7, {TASK: "two"})
    with pytest.raises(ProcessingError):
        owner.commit_port.begin_last(unit, [owner.active, fails])
    owner.commit_port.begin([owner.active])
    settled = answer(owner, CommitOutcome.ACCEPTED)
    assert (settled.unit, settled.of_unit) == (unit, CommitDone(7, CommitOutcome.ACCEPTED))
    assert owner.world.committed.offset == 4


@pytest.mark.parametrize("closed", [False, True])
def test_what_was_accepted_is_written_before_anything_else_happens_to_the_task(
    tmp_path: Path, closed: bool
) -> None:
    """Writing is done between batches, so it may be outstanding when the task is given up."""
    owner = stopped_before_its_claim(tmp_path)
    owner.commit_port.begin([owner.active])
    answer(owner, CommitOutcome.ACCEPTED)
    owner.commit_port.begin([owner.active])
    answer(owner, CommitOutcome.ACCEPTED)
    assert owner.active.contained > owner.active.state.state
    assert owner.commit_port.under_way
    if closed:
        owner.commit_port.forget(owner.active)
    else:
        owner.commit_port.begin([owner.active])
        assert not owner.sent, "one thing after the other"
    assert owner.active.contained == owner.active.state.state
    assert not owner.commit_port.under_way


def claimed(tmp_path: Path) -> Owner:
    """An owner whose claim was accepted, with a commit of four records on its way."""
    owner = stopped_before_its_claim(tmp_path)
    owner.commit_port.begin([owner.active])
    answer(owner, CommitOutcome.ACCEPTED)
    owner.commit_port.begin([owner.active])
    assert owner.commit_port.sent
    return owner


@pytest.mark.parametrize("outcome", [CommitOutcome.ACCEPTED, CommitOutcome.UNKNOWN])
def test_the_answer_to_a_commit_of_a_closed_task_is_of_no_other_commit(
    tmp_path: Path, outcome: CommitOutcome
) -> None:
    """The next commit waits for it, and is sent itself, though nothing is left of the first."""
    owner, other = claimed(tmp_path / "a"), stopped_before_its_claim(tmp_path / "b")
    owner.commit_port.forget(owner.active)
    assert (owner.commit_port.under_way, owner.commit_port.sent) == (True, True)
    owner.commit_port.begin([other.active])
    assert answer(owner, outcome).parts == ()
    assert not other.active.claimed, "nobody was asked"
    assert not owner.commit_port.under_way
    owner.commit_port.begin([other.active])
    assert len(answer(owner, CommitOutcome.ACCEPTED).parts) == 1
    assert other.active.claimed


def test_a_unit_that_nothing_is_left_of_binds_no_other_commit(tmp_path: Path) -> None:
    owner = claimed(tmp_path)
    answer(owner, CommitOutcome.GATED)
    owner.gated = True
    owner.commit_port.begin([owner.active], unit=stopped_unit())
    assert owner.holds[-1] == -1
    answer(owner, CommitOutcome.UNKNOWN)
    owner.commit_port.forget(owner.active)
    owner.commit_port.begin([owner.active])
    assert not owner.sent, "a join is under way"


def test_what_is_dropped_amid_a_write_is_written_all_the_same(tmp_path: Path) -> None:
    owner = claimed(tmp_path)
    answer(owner, CommitOutcome.ACCEPTED)
    owner.commit_port.abort()
    assert owner.active.contained > owner.active.state.state
    owner.commit_port.finish()
    assert owner.active.contained == owner.active.state.state


def test_a_commit_is_not_sent_before_it_is_delivered() -> None:
    """No way leads around delivery and the coordinator to the local stores."""
    assert CommitPhase.SENT not in MOVES[CommitPhase.PREPARING] | MOVES[CommitPhase.PREPARED]
    before = {phase: {one for one in MOVES if phase in MOVES[one]} for phase in MOVES}
    assert before[CommitPhase.ACCEPTED] == {CommitPhase.SENT}
    assert before[CommitPhase.SENT] == {CommitPhase.DELIVERED}
