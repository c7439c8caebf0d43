"""A transaction covers all that was sent; what does not end by a commit counts for nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from streamlet.coordinator import events as ev
from streamlet.coordinator.events import CommitOutcome
from streamlet.errors import UndeliveredError
from streamlet.processing.edges.held_writer import HeldWriter
from streamlet.tasks.commit_delivery import ChangelogDelivery
from streamlet.tasks.task_record import Unit, UnitStage
from streamlet.tasks.transactional_commit import TransactionalCommit
from streamlet.testing.memory_ports import MemoryAdmin
from streamlet.types import TopicPartition
from tests.unit.tasks.owners import INPUT, TASK, Owner, World, fold


class Transactions:
    """The transactions of a producer, by themselves."""

    def __init__(self) -> None:
        self.begun = False
        self.sealed: list[Mapping[TopicPartition, tuple[int, str]]] = []

    def seal(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        self.begun = True
        self.sealed.append(offsets)


class ExactOwner(Owner):
    """An owner that commits by transactions."""

    def __init__(self, world: World, host: Path | None = None) -> None:
        super().__init__(world, host=host)
        self.wanted: list[ev.WorkerRequest] = []
        self.transactions = Transactions()
        delivery = ChangelogDelivery(
            *(self.sink, MemoryAdmin(world.log), self.clock),
            open_source=self._open_source,
            transactional=True,
        )
        parts: tuple[Any, ...] = (self, delivery, self.clock)
        transactions: Any = self.transactions
        self.settled: list[bool] = []
        self.exact = TransactionalCommit(
            *parts,
            sink=transactions,
            tasks=lambda: [self.active],
            settled=self.settled.append,
        )

    def want(self, request: ev.WorkerRequest) -> None:
        self.wanted.append(request)

    def write(self, most: int) -> None:
        """Process some input whose outputs are sent."""
        self.work(most)
        self.active.wrote = self.transactions.begun = True

    def end(self, outcome: CommitOutcome, code: int = 0) -> None:
        """Answer the commit that was sent."""
        token, offsets = self.sent.pop()
        if outcome is CommitOutcome.ACCEPTED:
            self._arrive(offsets)
            self.transactions.begun = False
        self.exact.done(token, outcome, code)


@pytest.fixture
def owner(tmp_path: Path) -> ExactOwner:
    world = World(tmp_path, random.Random(1))
    world.log.create("words", 1)
    world.log.create("app-counts-changelog", 1)
    world.produce(40)
    return ExactOwner(world)


def test_the_first_transaction_claims_and_nothing_is_processed_until_it_is_answered(
    owner: ExactOwner,
) -> None:
    owner.write(10)
    assert not owner.exact.sealed
    owner.exact.begin([])
    assert (owner.exact.sealed, owner.holds) == (True, [ev.COMMIT_TOKEN])
    assert owner.transactions.sealed == [owner.sent[0][1]]
    owner.end(CommitOutcome.ACCEPTED)
    assert owner.wanted == [ev.CommitSoon(), ev.UnblockJoin(ev.COMMIT_TOKEN)]
    assert (owner.exact.sealed, owner.active.claimed, owner.active.number) == (False, True, 1)
    assert owner.settled == [True]
    owner.exact.finish()
    assert owner.active.state.state == owner.active.contained
    assert owner.state() == fold(owner.world.inputs, 10)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (CommitOutcome.UNKNOWN, -1),
        (CommitOutcome.SWITCHED, 22),
        (CommitOutcome.LOST, 25),
        (CommitOutcome.GATED, 27),
    ],
)
def test_what_does_not_end_by_a_known_commit_is_given_up(
    owner: ExactOwner, outcome: CommitOutcome, code: int
) -> None:
    owner.write(10)
    owner.exact.begin([])
    owner.end(outcome, code)
    assert owner.exact.sealed
    with pytest.raises(UndeliveredError):
        owner.exact.begin([])
    owner.exact.forget_queued()
    assert (owner.exact.under_way, owner.settled) == (False, [False])


def test_a_commit_that_never_left_is_sent_again(owner: ExactOwner) -> None:
    owner.write(10)
    owner.exact.begin([])
    owner.end(CommitOutcome.GATED)
    assert owner.exact.sealed
    owner.exact.begin([])
    assert owner.holds == [ev.COMMIT_TOKEN, None]
    owner.end(CommitOutcome.ACCEPTED)
    assert not owner.exact.sealed


def test_a_task_that_is_closed_amid_a_transaction_takes_all_back(owner: ExactOwner) -> None:
    owner.write(10)
    owner.exact.forget(owner.active)
    with pytest.raises(UndeliveredError, match="0_0 is closed"):
        owner.exact.begin([])


def test_a_task_that_sent_more_before_its_share_is_written_takes_that_back(
    owner: ExactOwner,
) -> None:
    """A store that refuses a share has its task closed a round after the commit."""
    owner.write(10)
    owner.exact.begin([])
    owner.end(CommitOutcome.ACCEPTED)
    owner.write(5)
    owner.exact.forget(owner.active)
    assert owner.active.state.state == owner.active.contained, "what was accepted is written"
    with pytest.raises(UndeliveredError, match="0_0 is closed"):
        owner.exact.begin([])


def test_a_task_that_has_sent_nothing_is_closed_by_itself(owner: ExactOwner) -> None:
    owner.exact.forget(owner.active)
    assert not owner.exact.under_way


def test_what_no_task_is_known_to_have_sent_is_committed_too(owner: ExactOwner) -> None:
    """Else it would be open, and hold up readers, until its time-out."""
    owner.write(10)
    owner.exact.begin([])
    owner.end(CommitOutcome.ACCEPTED)
    owner.exact.finish()
    owner.exact.begin([])
    assert not owner.exact.under_way
    owner.transactions.begun = True
    owner.exact.begin([])
    assert owner.exact.sent


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_what_an_owner_without_transactions_wrote_behind_its_last_commit_does_not_count(
    tmp_path: Path, late: bool, claims: bool
) -> None:
    """Whether it comes before its successor begins, or between that and its first record.

    ``claims``: there is an owner between the two that claims by a transaction, and does no more.
    """
    world = World(tmp_path, random.Random(1))
    world.log.create("words", 1)
    world.log.create("app-counts-changelog", 1)
    world.produce(40)
    world.inputs.append(("z", "x"))
    world.log.append(INPUT, [b"z"], [b"x"])
    first = Owner(world)
    first.work(20)
    list(first.steps())  # the claim
    list(first.steps())
    first.work(21)
    if not late:
        first.commit_port.begin([first.active])  # its flush, with z; its commit never arrives
    if claims:
        between = ExactOwner(world, tmp_path / "between")
        told(between, silent=True)
        between.exact.begin([])
        between.end(CommitOutcome.ACCEPTED)
        between.die()
    owner = ExactOwner(world, tmp_path / "exact")
    if late:
        first.commit_port.begin([first.active])
    first.die()
    owner.write(5)
    owner.exact.begin([])
    owner.end(CommitOutcome.ACCEPTED)
    owner.die()
    reader = Owner(world, host=tmp_path / "new")
    assert reader.active.fenced
    assert reader.state() == fold(world.inputs, 25)


def told(owner: ExactOwner, *, silent: bool) -> Any:
    """Give the task a writer, as of a period behind one whose records waited for commits."""
    writer = Mock(spec=HeldWriter, silent=silent, born=1, key=b"", wants_commit=False)
    owner.active.held = writer
    return writer


def test_a_period_that_tells_of_the_one_before_begins_with_a_commit_of_its_positions(
    owner: ExactOwner,
) -> None:
    told(owner, silent=True)
    owner.exact.begin([])
    assert [offset for offset, _ in owner.sent[0][1].values()] == [0]
    owner.end(CommitOutcome.ACCEPTED)
    assert (owner.active.claimed, owner.active.number) == (True, 0)


def test_what_was_written_before_the_claim_is_committed_with_its_positions(
    owner: ExactOwner,
) -> None:
    """Members of the group may not read what waits, so nothing is told before it."""
    told(owner, silent=False)
    owner.write(10)
    owner.exact.begin([])
    assert [offset for offset, _ in owner.sent[0][1].values()] == [10]
    owner.end(CommitOutcome.ACCEPTED)
    assert (owner.active.claimed, owner.active.number) == (True, 1)


def test_what_was_written_before_the_claim_is_given_up_once_it_would_have_to_wait(
    owner: ExactOwner,
) -> None:
    told(owner, silent=True)
    owner.write(10)
    with pytest.raises(UndeliveredError, match="0_0 wrote before its claim"):
        owner.exact.begin([])


def test_a_period_that_is_to_tell_of_itself_later_counts_its_commits_on(
    owner: ExactOwner,
) -> None:
    writer = told(owner, silent=False)
    owner.write(10)
    owner.exact.begin([])
    owner.end(CommitOutcome.ACCEPTED)
    owner.exact.finish()
    writer.silent = True  # all members can read what waits, from now on
    owner.write(10)
    owner.exact.begin([])
    owner.end(CommitOutcome.ACCEPTED)
    assert (owner.active.number, owner.active.committed) == (2, {INPUT: 20})


def test_the_last_commit_of_a_unit_has_all_that_the_worker_sent(owner: ExactOwner) -> None:
    owner.write(10)
    unit = Unit(7, 1, (), stage=UnitStage.STOPPED)
    assert not owner.exact.begin_claims(unit, [])
    owner.exact.begin_last(unit, [])
    assert owner.holds == [7]
    assert [offset for offset, _ in owner.sent[0][1].values()] == [10]
    owner.end(CommitOutcome.ACCEPTED)
    assert owner.wanted == []
    assert owner.active.number == 1
    assert owner.active.task == TASK
