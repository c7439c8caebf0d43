"""A checkpoint that lies on no local disk has one holder at a time."""

from __future__ import annotations

import json
from collections.abc import Callable

import attrs
import pytest

from streamlet.errors import StateLockedError
from streamlet.spark.lease import RENEWAL_S, WATCH_S, Lease


@attrs.define
class File:
    """A file in memory; ``atomic``: creating it fails if it is there."""

    content: bytes | None = None
    atomic: bool = True

    def read(self) -> bytes | None:
        return self.content

    def create(self, content: bytes) -> bool:
        if self.atomic and self.content is not None:
            return False
        self.content = content
        return True

    def write(self, content: bytes) -> None:
        self.content = content

    def delete(self) -> None:
        self.content = None


@attrs.define
class Time:
    """Waits, and lets others do something at each second of it."""

    passed: float = 0.0
    others: Callable[[float], object] = lambda _: None

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.others(self.passed)


def taken(file: File, time: Time | None = None, said: list[str] | None = None) -> Lease:
    told = [] if said is None else said
    return Lease(file, "s3a://bucket/q", (time or Time()).wait, told.append)


def test_a_free_checkpoint_is_taken_and_given_back() -> None:
    file = File()
    lease = taken(file)
    assert file.content is not None
    lease.release()
    assert file.content is None


def test_the_second_is_refused_as_soon_as_the_first_renews() -> None:
    file, said = File(), list[str]()
    first = taken(file)

    def renew(passed: float) -> None:
        if passed == RENEWAL_S:
            first.renew()

    time = Time(others=renew)
    with pytest.raises(StateLockedError, match=r"s3a://bucket/q is held by process \d+ on \S+$"):
        taken(file, time, said)
    assert time.passed == RENEWAL_S
    assert len(said) == 1
    first.renew()  # and nothing of the second's is there


def test_the_lease_of_a_killed_holder_is_taken_over_and_it_sees_that() -> None:
    file, time = File(), Time()
    killed = taken(file)
    heir = taken(file, time)
    assert time.passed > WATCH_S > 2 * RENEWAL_S
    with pytest.raises(StateLockedError, match="held by process"):
        killed.renew()
    killed.release()
    heir.renew()  # it is the heir's still


def test_a_holder_that_ends_meanwhile_makes_room() -> None:
    file = File()
    first = taken(file)
    time = Time(others=lambda passed: first.release() if passed == 3 else None)
    taken(file, time).renew()
    assert time.passed < WATCH_S


@attrs.define
class Blind:
    """The same file, for one who looked before the other wrote."""

    file: File
    looked: bool = False

    def read(self) -> bytes | None:
        if self.looked:
            return self.file.read()
        self.looked = True
        return None

    def create(self, content: bytes) -> bool:
        return self.file.create(content)

    def write(self, content: bytes) -> None:
        self.file.write(content)

    def delete(self) -> None:
        self.file.delete()


def test_of_two_that_create_it_the_second_is_refused() -> None:
    file, time = File(), Time()
    first = taken(file)
    with pytest.raises(StateLockedError):
        Lease(Blind(file), "c", time.wait, print)
    assert time.passed == 0
    first.renew()


def test_without_an_atomic_create_the_last_one_that_wrote_has_it() -> None:
    file, second = File(atomic=False), list[Lease]()

    def write_too(_: float) -> None:
        second.append(Lease(Blind(file), "c", Time().wait, print))

    with pytest.raises(StateLockedError):
        taken(file, Time(others=write_too))
    second[0].renew()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", json.dumps({"pid": 1}).encode()])
def test_a_lease_that_says_nothing_is_watched_too(content: bytes) -> None:
    time = Time()
    taken(File(content), time).renew()
    assert time.passed > WATCH_S
