"""Changelogs of window stores that are purged behind the retention: state stays exact."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

import streamlet as sl
from streamlet.coordinator.commit_metadata import CommitMetadata
from streamlet.coordinator.messages import Committed
from streamlet.dsl.windowing.windows import Windows
from streamlet.errors import ChangelogLostError, PositionsMismatchError
from streamlet.tasks.commit_delivery import STARTS_MS
from tests.unit.tasks.compared import PurgingOwner, hosts_of
from tests.unit.tasks.expiring import Copy, WindowWorld
from tests.unit.tasks.owners import CHANGELOG

KINDS: dict[str, tuple[Windows, str]] = {
    "tumbling": (sl.tumbling("20 ms"), "updates"),
    "hopping": (sl.hopping("20 ms", "5 ms", grace="10 ms"), "updates"),
    "sliding": (sl.sliding("10 ms", grace="20 ms"), "updates"),
    "session": (sl.session("8 ms", grace="30 ms"), "updates"),
    "final sessions": (sl.session("8 ms", grace="30 ms"), "final"),
    "final windows": (sl.tumbling("20 ms", grace="10 ms"), "final"),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_whoever_reads_a_purged_changelog_has_exactly_the_committed_state(
    kind: str, seed: int, tmp_path: Path
) -> None:
    """Owners that crash on old and new disks, copies that lag, zombies that write and purge."""
    rnd, seen = random.Random(seed), Counter[str]()
    windows, emit = KINDS[kind]
    world = WindowWorld(root=tmp_path, rnd=rnd, windows=windows, emit=emit)
    host = hosts_of(world, rnd)
    copy: Copy | None = None
    for _ in range(20):
        world.produce(rnd.randint(3, 15))
        disk = host()
        if copy is None:
            copy = Copy(world, disk)
            copy.read()
            disk = disk.with_name("another")
        owner = PurgingOwner(world, host=disk if copy is None else world.root / "owner")
        owner.check()
        owner.run()
        if copy is not None and rnd.random() < 0.4:
            copy.read()
        owner.die()
        world.disturb()
        if copy is not None and rnd.random() < 0.5:
            seen["promoted"] += copy.promote()
            copy.close()
            copy = None
    if copy is not None:
        copy.close()
    fresh = PurgingOwner(world, host=tmp_path / "fresh")
    fresh.check()
    fresh.die()
    assert world.purges > 0
    assert seen["promoted"] > 0
    assert world.log.start(CHANGELOG) > 0


def test_a_session_that_closes_next_is_there_on_any_host(tmp_path: Path) -> None:
    """It has expired, with its whole row, by the latest end that was put; its result is unsent."""
    gap, grace = 8, 30
    sessions = sl.session(f"{gap} ms", grace=f"{grace} ms")
    world = WindowWorld(root=tmp_path, rnd=random.Random(1), windows=sessions, emit="final")
    end = 30 * sessions.bucket_ms - 1
    for time in (end, end + gap + grace):
        world.produce_at("a", time)
    owner = PurgingOwner(world, host=tmp_path / "a")
    list(owner.steps())  # a claim
    owner.work(2)
    list(owner.steps())
    owner.die()
    _, _, unsent = world.expected()
    assert [window.end for window in unsent] == [end, end + gap + grace]
    for host in "ab":
        other = PurgingOwner(world, host=tmp_path / host)
        other.check()
        other.die()


@pytest.fixture
def world(tmp_path: Path) -> WindowWorld:
    """A changelog that was purged up to where the last commit says; host ``a`` is as of that."""
    world = WindowWorld(root=tmp_path, rnd=random.Random(5), windows=sl.tumbling("20 ms"))
    owner = PurgingOwner(world, host=tmp_path / "a")
    for _ in range(12):
        world.produce(6)
        owner.work(6)
        list(owner.steps())
    owner.active.opened.close()
    start = world.whole_from()[CHANGELOG]
    world.log.raise_start(CHANGELOG, start)
    assert 0 < start < world.log.end(CHANGELOG)
    return world


def begun(world: WindowWorld, host: str, policy: str = "fail") -> PurgingOwner:
    owner = PurgingOwner(world, policy, world.root / host)
    owner.check()
    return owner


def test_the_log_is_as_long_as_its_windows_are_kept(world: WindowWorld) -> None:
    owner = begun(world, "a")
    longest = 0
    for _ in range(30):
        world.produce(6)
        owner.work(6)
        list(owner.steps())
        world.log.raise_start(CHANGELOG, world.whole_from()[CHANGELOG])
        longest = max(longest, len(world.log.records(CHANGELOG)))
    assert world.log.end(CHANGELOG) > 100
    assert longest < 50
    owner.die()


def test_the_owner_does_not_take_what_it_cut_off_for_lost(world: WindowWorld) -> None:
    """And what more is missing it does."""
    owner = begun(world, "a")
    list(owner.steps())
    world.produce(6)
    owner.work(6)
    owner.clock.advance(STARTS_MS)
    list(owner.steps())
    world.log.raise_start(CHANGELOG, world.whole_from()[CHANGELOG] + 1)
    world.produce(6)
    owner.work(6)
    owner.clock.advance(STARTS_MS)
    with pytest.raises(ChangelogLostError, match="its records before that are gone"):
        list(owner.steps())
    owner.active.opened.close()


def test_more_missing_than_the_commit_says_is_a_loss(world: WindowWorld) -> None:
    world.log.raise_start(CHANGELOG, world.whole_from()[CHANGELOG] + 1)
    with pytest.raises(PositionsMismatchError, match="its records before that are gone"):
        PurgingOwner(world, host=world.root / "b")
    begun(world, "a").die()  # its state is that of the commit: it fills the changelog again


def test_a_version_that_never_cuts_off_reads_on_and_keeps_the_start(world: WindowWorld) -> None:
    """Its commits tell what those before them told: readers of any version go by that."""
    metadata = CommitMetadata.read(world.committed.metadata)
    assert metadata is not None
    assert metadata.rebuilt is not None
    assert (metadata.rebuilt.epoch, metadata.rebuilding) == (0, False)
    owner = begun(world, "b")
    assert list(owner.steps())[-1] == "written"  # a claim, which cuts nothing off
    assert world.whole_from() == metadata.rebuilt.starts
    owner.die()


@pytest.mark.parametrize("host", ["a", "b"])
def test_lost_positions_are_found_in_a_changelog_that_was_cut_off(
    world: WindowWorld, host: str
) -> None:
    """The newest commit entry tells from where on the changelog holds its state."""
    before, world.committed = world.committed, Committed(-1, "")
    with pytest.raises(PositionsMismatchError, match="are lost"):
        PurgingOwner(world, host=world.root / host)
    owner = PurgingOwner(world, "continue", world.root / host)
    world.committed = before
    owner.check()
    list(owner.steps())
    world.produce(6)
    owner.work(6)
    owner.clock.advance(STARTS_MS)
    list(owner.steps())
    owner.die()
    begun(world, "c").die()


def test_lost_positions_are_not_found_where_more_was_cut_off(world: WindowWorld) -> None:
    world.log.raise_start(CHANGELOG, world.whole_from()[CHANGELOG] + 1)
    world.committed = Committed(-1, "")
    with pytest.raises(PositionsMismatchError, match="To continue is not possible"):
        PurgingOwner(world, "continue", world.root / "b")


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("lost", [False, True])
def test_a_copy_that_is_late_goes_on_where_the_owner_cut_the_changelog_off(
    world: WindowWorld, caplog: pytest.LogCaptureFixture, reading: bool, lost: bool
) -> None:
    """Where records are gone of which no commit says so it starts over."""
    copy = Copy(world, world.root / "copy")
    copy.read()
    at = world.log.end(CHANGELOG)
    if not reading:
        assert copy.promote()
        copy.close()
    owner = begun(world, "a")
    for _ in range(30):
        world.produce(6)
        owner.work(6)
        list(owner.steps())
    start = world.whole_from()[CHANGELOG] + lost
    assert at < start
    world.log.raise_start(CHANGELOG, start)
    if not reading:
        copy = Copy(world, world.root / "copy")
    copy.read()
    copy.read()
    assert ("starts over" in caplog.text) == lost
    if not lost:
        assert copy.promote()
    copy.close()
    owner.die()


def test_a_changelog_that_is_filled_again_begins_a_new_index(world: WindowWorld) -> None:
    """The offsets noted of the old one mean other records now."""
    world.log.lose_tail(CHANGELOG, world.log.start(CHANGELOG) + 1)
    owner = begun(world, "a")
    assert owner.active.state.time_indexes.known == {}
    list(owner.steps())
    for n in range(8):
        list(owner.steps())
        world.log.raise_start(CHANGELOG, world.whole_from()[CHANGELOG])
        begun(world, f"fresh-{n}").active.opened.close()
        world.produce(6)
        owner.work(6)
    owner.die()
