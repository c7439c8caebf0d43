"""Standbys and learners that answer: of one commit, with its position, not too far behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.queries.local import LocalStore, ReadOptions
from streamlet.queries.requests import QueryResult
from streamlet.state.query_errors import NotUpToBoundError, StateStoreMigratedError
from streamlet.tasks.served_copies import UNREAD_MS
from streamlet.types import TaskId, TopicPartition
from tests.unit.queries.copies import Copy
from tests.unit.queries.served import Serving, serving

TASK = TaskId(0, 0)
INPUT = TopicPartition("in", 0)


@pytest.fixture
def made() -> Iterator[Serving]:
    app = sl.App("few")
    topics = ["in", "later"]
    app.stream(topics, key=str, value=int).group_by_key().count(store="counts")
    found = serving(app, dict.fromkeys(topics, 1))
    found.served.copies.followed = frozenset([TASK])
    yield found
    found.driver.close()


@pytest.fixture
def copy(made: Serving, tmp_path: Path) -> Iterator[Copy]:
    found = Copy.of(made.app.topology().subtopologies[0], TASK, ManualClock(1_000_000), tmp_path)
    yield found
    found.opened.close()


def store_of(made: Serving, copy: Copy, most_ms: int | None, **how: Any) -> LocalStore:
    options = ReadOptions(timeout_ms=0, max_staleness_ms=most_ms, **how)
    return LocalStore(made.served, made.app.topology(), "counts", None, options, copy.clock)


def ask(made: Serving, copy: Copy, key: str, most_ms: int | None, **how: Any) -> QueryResult[Any]:
    """The answer, once the state updater has had its turn."""
    store = store_of(made, copy, most_ms, **how)
    store.face()
    try:
        return store.ask(0, lambda store: store.get(key))
    except NotUpToBoundError:
        made.served.copies.show_asked({TASK: copy.opened}, copy.clock.now_ms())
        return store.ask(0, lambda store: store.get(key))


def test_a_copy_answers_as_of_the_newest_commit_that_is_proved(made: Serving, copy: Copy) -> None:
    copy.commit(a=1, b=1)
    with pytest.raises(NotUpToBoundError, match="not known"):  # nothing proves the commit yet
        ask(made, copy, "a", 1_000)
    copy.clock.advance(100)
    copy.commit(a=2)
    found = ask(made, copy, "a", 1_000)
    assert (found.result, found.staleness_ms) == (1, 100), "the commit held back is shown"
    assert found.position == sl.Position({INPUT: 10})
    copy.commit(a=3, b=3)
    copy.opened.parts[0].flush()
    copy.clock.advance(500)
    again = ask(made, copy, "a", 1_000)
    assert (again.result, again.staleness_ms) == (1, 600), "a view is not of one commit"
    with pytest.raises(StateStoreMigratedError):
        ask(made, copy, "a", None)
    with pytest.raises(StateStoreMigratedError):
        ask(made, copy, "a", 1_000, newest=True)


def test_a_copy_that_is_too_far_behind_refuses_and_reads_on(made: Serving, copy: Copy) -> None:
    copy.commit(a=1)
    with pytest.raises(NotUpToBoundError):
        ask(made, copy, "a", 0)
    copy.clock.advance(100)
    copy.commit(a=2)
    assert ask(made, copy, "a", 100).result == 1
    copy.clock.advance(1)
    with pytest.raises(NotUpToBoundError, match="101 ms ago"):
        ask(made, copy, "a", 100)  # the log went on, and the copy has read none of it
    copy.commit(a=3)
    found = ask(made, copy, "a", 100)
    assert (found.result, found.staleness_ms) == (2, 0), found


def test_no_copy_is_new_because_the_clock_was_set_back(made: Serving, copy: Copy) -> None:
    for value in (1, 2):
        copy.commit(a=value)
        copy.opened.note_ends()
    copy.clock.advance(3_600_000)
    with pytest.raises(NotUpToBoundError):
        ask(made, copy, "a", 1_000)
    back = attrs.evolve(copy, clock=ManualClock(900_000))
    with pytest.raises(NotUpToBoundError, match="is not known to be"):
        ask(made, back, "a", 1_000)


def test_a_copy_answers_first_when_its_owner_is_gone(made: Serving, copy: Copy) -> None:
    (part,) = copy.opened.parts
    for value in (1, 2):
        copy.commit(a=value)
        part.note_end()
        copy.clock.advance(100)
    copy.clock.advance(800)
    found = ask(made, copy, "a", 1_000)
    assert (found.result, found.staleness_ms) == (1, 1_000), found
    copy.clock.advance(1)
    with pytest.raises(NotUpToBoundError):
        ask(made, copy, "a", 1_000)


def test_a_position_that_is_passed_on_holds_for_copies(made: Serving, copy: Copy) -> None:
    for value in (1, 2):
        copy.commit(a=value)
        with pytest.raises(NotUpToBoundError):
            ask(made, copy, "a", 1_000, at_least=sl.Position({INPUT: 20}))
    copy.commit(a=3)
    found = ask(made, copy, "a", 1_000, at_least=sl.Position({INPUT: 20}))
    assert (found.result, found.position) == (2, sl.Position({INPUT: 20}))


def test_the_next_worker_of_the_process_has_other_copies(made: Serving, copy: Copy) -> None:
    for value in (1, 2):
        copy.commit(a=value)
        copy.opened.note_ends()
    assert ask(made, copy, "a", 1_000).result == 1
    worker = made.served.worker
    assert worker is not None
    made.served.end()
    made.served.begin(worker)
    with pytest.raises(StateStoreMigratedError):
        ask(made, copy, "a", 1_000)
    options = ReadOptions(local=True, max_staleness_ms=1_000)
    store = LocalStore(made.served, made.app.topology(), "counts", None, options, copy.clock)
    assert store.wanted() == []


def test_a_bound_holds_for_a_topic_that_came_since(made: Serving, copy: Copy) -> None:
    for value in (1, 2):
        copy.commit(a=value)
        copy.opened.note_ends()
    bound = {INPUT: 10, TopicPartition("later", 0): 1}
    with pytest.raises(NotUpToBoundError, match="later-0 at 0 of 1"):
        ask(made, copy, "a", 1_000, at_least=sl.Position(bound))
    others = {INPUT: 10, TopicPartition("later", 1): 1, TopicPartition("elsewhere", 0): 1}
    assert ask(made, copy, "a", 1_000, at_least=sl.Position(others)).result == 1


def test_a_copy_that_is_closed_or_ours_by_now_answers_nothing(made: Serving, copy: Copy) -> None:
    copy.commit(a=1)
    with pytest.raises(NotUpToBoundError):
        ask(made, copy, "a", 1_000)
    copy.commit(a=2)
    assert ask(made, copy, "a", 1_000).result == 1
    store = store_of(made, copy, 1_000)
    assert store._samples() == [(0, b"a")]
    copy.opened.close()
    with pytest.raises(NotUpToBoundError, match="not known"):
        store.ask(0, lambda store: store.get("a"))
    assert store._samples() == [], "a copy that is closed is asked where keys lie"
    made.serve(TASK)
    assert ask(made, copy, "a", 1_000).staleness_ms == 0
    assert made.served.copies.get(TASK, "counts") is None
    store = store_of(made, copy, 1_000, local=True)
    assert store.wanted() == [0]
    made.served.remove(TASK)
    assert store.wanted() == [], "it is neither ours nor copied any more"


def test_a_view_that_is_not_read_any_more_is_dropped(made: Serving, copy: Copy) -> None:
    copies = made.served.copies
    for value in (1, 2):
        copy.commit(a=value)
        copy.opened.parts[0].note_end()
    copies.ask(TASK)
    kept = {TASK: copy.opened}
    copies.show_asked(kept, 0)
    for now_ms in (1, UNREAD_MS, 2 * UNREAD_MS):
        copies.show_asked(kept, now_ms)
        assert copies.get(TASK, "counts") is not None, "one that is read is kept"
    copies.show_asked(kept, 3 * UNREAD_MS)
    copies.show_asked(kept, 4 * UNREAD_MS)
    assert copies.get(TASK, "counts") is None, "it holds what the disk had then"
