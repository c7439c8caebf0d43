"""Cycles that have grown old, which closed tasks are, and when they are collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from streamlet.garbage import FULL_MS, GarbageCollection, without_gc


class Closed:
    """A task that is reached from what it reaches."""

    def __init__(self) -> None:
        self.nodes = [self]


def old() -> weakref.ref[Closed]:
    """One that was closed after a while."""
    task = Closed()
    gc.collect(1)
    gc.collect(1)
    return weakref.ref(task)


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    with without_gc():
        yield


def test_a_closed_task_is_collected_when_no_other_member_waits() -> None:
    collection, task = GarbageCollection(), old()
    collection.collect(1_000, busy=False)
    assert task() is not None, "no task was closed, as far as is known"
    collection.closed()
    collection.collect(1_500, busy=True)
    collection.collect(3_000, busy=True)
    assert task() is not None, "it would be a pause while another member waits"
    collection.collect(3_100, busy=False)
    assert task() is None


def test_there_is_no_full_collection_each_time_that_a_task_is_closed() -> None:
    collection = GarbageCollection()
    collection.closed()
    collection.collect(1_000, busy=False)
    task = old()
    collection.closed()
    collection.collect(1_000 + FULL_MS - 1, busy=False)
    assert task() is not None
    collection.collect(1_000 + FULL_MS, busy=False)
    assert task() is None


def test_young_garbage_is_collected_at_each_quiet_commit() -> None:
    collection = GarbageCollection()
    collection.collect(1_000, busy=False)
    task = weakref.ref(Closed())
    collection.collect(1_999, busy=True)
    assert task() is not None
    collection.collect(1_999, busy=False)
    assert task() is None
