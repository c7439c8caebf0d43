"""Positions, changelogs and disks that do not belong together, over a log in memory.

Whatever disagrees, an owner that begins holds exactly the fold of its input up to the position that
it begins at, or it does not begin.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import Committed
from streamlet.errors import (
    FINAL_CODES,
    BrokerError,
    ChangelogLostError,
    MissingTopicError,
    PositionsMismatchError,
)
from streamlet.testing.memory_ports import MemoryAdmin
from streamlet.types import TopicPartition
from tests.unit.tasks.owners import CHANGELOG, INPUT, Owner, World, fold
from tests.unit.tasks.test_crashes import live

NOWHERE = Committed(-1, "")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Twelve records; an owner on disk ``a`` counted ten of them, in two commits, and stopped."""
    world = World(tmp_path, random.Random(1))
    world.log.create("words")
    world.log.create("app-counts-changelog")
    world.produce(12)
    owner = Owner(world, host=tmp_path / "a")
    run(owner, 5)
    world.commits.append(world.committed)
    run(owner, 3)
    run(owner, 2)
    owner.die()
    assert world.committed.offset == 10
    return world


def run(owner: Owner, records: int) -> None:
    """Claim, if that was not done, process so many records, and commit them."""
    if not owner.active.claimed:
        commit(owner)
    owner.work(records)
    commit(owner)


def commit(owner: Owner) -> None:
    """One commit that nothing goes wrong with."""
    owner.world.rnd = random.Random(5)  # its first number is above 0.2: nothing is lost on the way
    for _ in owner.steps():
        pass


def begun(owner: Owner) -> int:
    """The position an owner begins at; its state is that of this position."""
    at = owner.active.committed[INPUT]
    assert owner.state() == fold(owner.world.inputs, at)
    return at


def lose_positions(world: World) -> None:
    world.committed = NOWHERE


def set_positions(world: World) -> None:
    world.committed = Committed(4, "")


def set_back(world: World) -> None:
    world.committed = world.commits[0]


def cut_changelog(world: World) -> None:
    world.log.lose_tail(CHANGELOG, world.log.end(CHANGELOG) - 1)


def remake_changelog(world: World) -> None:
    world.log.delete(CHANGELOG.topic)
    world.log.create(CHANGELOG.topic)


def behead_changelog(world: World) -> None:
    world.log.raise_start(CHANGELOG, 2)


SAID = {
    lose_positions: "the committed positions of words-0 are lost, although app-counts-changelog-0",
    set_positions: r"positions \(words-0 at 4\) were committed by another tool",
    set_back: r"\(words-0 at 5\) belong to commit \(1, 1\).*commit \(1, 3\)",
    cut_changelog: r"app-counts-changelog-0 ends at \d+, the commit was made when it ended at \d+",
    remake_changelog: "app-counts-changelog-0 ends at 0, the commit was made when it ended at",
    behead_changelog: "app-counts-changelog-0 begins at 2, its records before that are gone",
}


@pytest.mark.parametrize("disturb", SAID)
def test_an_empty_disk_begins_nothing_that_is_not_certain(
    world: World, disturb: Callable[[World], None]
) -> None:
    disturb(world)
    before = world.committed, len(world.log.records(CHANGELOG))
    with pytest.raises(PositionsMismatchError, match=SAID[disturb]) as refused:
        Owner(world, host=world.root / "b")
    assert refused.value.exit_code == 5
    assert "streamlet reset app" in str(refused.value)
    assert (world.committed, len(world.log.records(CHANGELOG))) == before


@pytest.mark.parametrize(
    ("disturb", "at"),
    [
        (lose_positions, 10),
        (set_positions, 10),
        (set_back, 10),
        (cut_changelog, 8),
        (remake_changelog, None),
        (behead_changelog, None),
    ],
)
def test_an_empty_disk_goes_on_with_what_the_changelog_can_tell(
    world: World, disturb: Callable[[World], None], at: int | None
) -> None:
    disturb(world)
    if at is None:
        with pytest.raises(PositionsMismatchError, match="To continue is not possible"):
            Owner(world, "continue", host=world.root / "b")
        return
    owner = Owner(world, "continue", host=world.root / "b")
    assert begun(owner) == at
    run(owner, 12 - at)
    owner.die()
    assert begun(Owner(world, host=world.root / "c")) == 12, "nothing disagrees any more"


@pytest.mark.parametrize("disturb", [lose_positions, set_positions, set_back])
def test_the_disk_of_the_last_commit_goes_on_there(
    world: World, disturb: Callable[[World], None]
) -> None:
    disturb(world)
    with pytest.raises(PositionsMismatchError, match=r"\(1, 3\)"):
        Owner(world, host=world.root / "a")
    assert begun(Owner(world, "continue", host=world.root / "a")) == 10


@pytest.mark.parametrize("disturb", [cut_changelog, remake_changelog, behead_changelog])
@pytest.mark.parametrize("crash", [False, True])
def test_the_disk_of_the_last_commit_fills_the_changelog_again(
    world: World, disturb: Callable[[World], None], crash: bool
) -> None:
    disturb(world)
    owner = Owner(world, host=world.root / "a")
    assert (begun(owner), owner.given_back) == (10, 0)
    commit(owner)  # its claim
    if crash:  # amid the first flush: the changelog is as long as it was, and lacks keys
        owner.commit_port.begin([owner.active])
        owner.sent.clear()
        owner.die()
        with pytest.raises(PositionsMismatchError, match=r"not yet written|begins at 2"):
            Owner(world, host=world.root / "b")
        owner = Owner(world, host=world.root / "a")
        commit(owner)
    commit(owner)
    owner.die()
    assert begun(Owner(world, host=world.root / "c")) == 10


def test_a_disk_from_before_a_changelog_was_filled_again_is_not_believed(world: World) -> None:
    shutil.copytree(world.root / "a", world.root / "old")
    cut_changelog(world)
    owner = Owner(world, host=world.root / "a")
    commit(owner)
    run(owner, 2)
    owner.die()
    assert begun(Owner(world, host=world.root / "old")) == 12


@pytest.mark.parametrize(
    ("disturb", "host"),
    [*((disturb, "b") for disturb in SAID), (lose_positions, "a"), (set_back, "a")],
)
def test_a_reset_begins_anew_and_nothing_old_comes_back(
    world: World, disturb: Callable[[World], None], host: str
) -> None:
    disturb(world)
    shutil.copytree(world.root / "a", world.root / "old")
    owner = Owner(world, "reset", host=world.root / host)
    assert (begun(owner), owner.state()) == (0, {})
    commit(owner)  # its claim
    owner.die()
    owner = Owner(world, host=world.root / "old")  # no commit of state yet
    assert (begun(owner), owner.state()) == (0, {})
    run(owner, 6)
    owner.die()
    assert begun(Owner(world, host=world.root / "c")) == 6


def test_an_input_that_lost_its_end_is_not_begun_again(world: World) -> None:
    state = fold(world.inputs, 10)
    world.log.lose_tail(INPUT, 7)
    with pytest.raises(PositionsMismatchError, match="words-0 ends at 7, but position 10 is"):
        Owner(world, host=world.root / "a")
    owner = Owner(world, "continue", host=world.root / "a")
    assert (owner.active.committed, owner.state()) == ({INPUT: 7}, state)
    owner.die()
    owner = Owner(world, "reset", host=world.root / "b")
    assert (begun(owner), owner.state()) == (0, {})


def test_an_owner_whose_changelog_loses_records_drops_its_tasks_and_fills_it_again(
    world: World,
) -> None:
    owner = Owner(world, host=world.root / "a")
    commit(owner)
    remake_changelog(world)
    owner.work(1)
    with pytest.raises(ChangelogLostError, match="app-counts-changelog-0 ends at 1, although"):
        owner.commit_port.begin([owner.active])
    owner.die()
    owner = Owner(world, host=world.root / "a")
    assert begun(owner) == 10
    commit(owner)
    commit(owner)
    owner.die()
    assert begun(Owner(world, host=world.root / "b")) == 10


def test_a_changelog_that_is_gone_ends_no_instance_for_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that is started again makes it anew."""
    owner = Owner(world, host=world.root / "a")
    commit(owner)
    owner.work(1)

    def gone(self: MemoryAdmin, partitions: Sequence[TopicPartition]) -> None:
        raise MissingTopicError("no such topic", [CHANGELOG.topic])

    monkeypatch.setattr(MemoryAdmin, "end_offsets", gone)
    with pytest.raises(BrokerError, match="no such topic") as failed:
        owner.commit_port.begin([owner.active])
    assert failed.value.exit_code not in FINAL_CODES
    owner.die()


def test_a_reset_of_the_whole_application_is_no_disagreement(world: World) -> None:
    text = CommitMetadata(7, "streamlet reset", -1).to_text()
    remake_changelog(world)
    world.committed = Committed(0, text)
    assert begun(Owner(world, host=world.root / "b")) == 0


DISTURBANCES = [
    lambda world: None,
    lose_positions,
    lambda world: setattr(world, "committed", Committed(world.rnd.randint(0, 9), "")),
    lambda world: setattr(world, "committed", world.rnd.choice(world.commits)),
    lambda world: world.log.lose_tail(
        CHANGELOG,
        world.rnd.randint(world.log.start(CHANGELOG), world.log.end(CHANGELOG)),
    ),
    remake_changelog,
]


def some_host(world: World) -> Path:
    """A disk that is new, or was used, or is a copy of one from before."""
    path = world.host()
    old = path.with_name(f"{path.name}-old")
    if path.exists() and not old.exists():
        shutil.copytree(path, old)
    elif old.exists() and world.rnd.random() < 0.3:
        shutil.rmtree(path)
        old.rename(path)
    return path


@pytest.mark.parametrize("seed", range(24))
def test_no_history_leads_to_a_state_that_is_not_of_its_position(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    world = World(tmp_path, rnd)
    world.commits = [NOWHERE]
    world.log.create("words")
    world.log.create("app-counts-changelog")
    stopped = decided = 0
    for _ in range(12):
        world.produce(rnd.randint(3, 12))
        rnd.choice(DISTURBANCES)(world)
        if not world.log.end(CHANGELOG) and CommitMetadata.read(world.committed.metadata) is None:
            lose_positions(world)  # else they could be those of another kind of consumer
        host = some_host(world)
        for policy in ("fail", "continue", "reset"):
            try:
                owner = Owner(world, policy, host=host)
            except PositionsMismatchError:
                stopped += 1
                continue
            decided += policy != "fail"
            break
        begun(owner)
        live(owner, rnd)
        owner.die()
        world.commits.append(world.committed)
    assert stopped
    assert decided
