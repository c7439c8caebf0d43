"""What a task knows of its inputs when it begins."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import streamlet as sl
from streamlet.clock import ManualClock
from streamlet.config import Settings
from streamlet.coordinator.commit_metadata import InputNote
from streamlet.coordinator.messages import Committed
from streamlet.errors import TimedOutError
from streamlet.kafka.waiting_partitions import LONG_MS
from streamlet.state.entries import CommitEntry
from streamlet.tasks.mismatch import Mismatch, at_the_end, begun_anew, continued, judge
from streamlet.tasks.start import InputRange
from streamlet.tasks.target import Target
from streamlet.testing.memory_log import MemoryLog
from streamlet.testing.memory_ports import MemoryAdmin
from streamlet.types import NO_STATE, StateNumber, TaskId, TopicPartition
from tests.unit.tasks.logs import targets_over

IN = TopicPartition("in", 0)
NOTE = InputNote(3, {1: 9})
NOW_MS = 1_800_000_000_999


def target(offset: int) -> Target:
    return Target({IN: offset}, {}, 1, NO_STATE, notes={IN: NOTE} if offset >= 0 else {})


def note(found: Target, start: int) -> InputNote:
    return found.notes_at_start({IN: start}, NOW_MS)[IN]


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_position_in_a_topic_that_was_made_again_is_none(reset: str) -> None:
    """Under any policy the new one begins at its first record."""
    other, known = TopicPartition("other", 0), attrs.evolve(NOTE, topic_id="before")
    ranges = {tp: InputRange(0, 9, reset) for tp in (IN, other)}
    found = Target(
        {IN: 5, other: 5}, ranges=ranges, notes={IN: known, other: known}, topic_ids=None
    )
    assert found.in_new_topics() is found, "ids were not read"
    same = attrs.evolve(found, topic_ids={"in": "before"})
    assert same.in_new_topics() is same
    moved = attrs.evolve(found, topic_ids={"in": "now", "other": "before"}).in_new_topics()
    assert (moved.offsets, moved.positions()) == ({IN: -1, other: 5}, {IN: 0, other: 5})
    notes = moved.notes_at_start({IN: 0, other: 5}, NOW_MS)
    assert notes[IN] == InputNote(1_800_000_000, open=True, topic_id="now")
    assert notes[other] == known
    between = moved.notes_at_start({IN: 0, other: 5}, NOW_MS, between=("in",))
    assert between[IN].topic_id == "", "of topics that streamlet makes no id is noted"
    unknown = attrs.evolve(found, notes={IN: NOTE}, topic_ids={"in": "now"})
    assert unknown.in_new_topics() is unknown, "an earlier version noted no id"


@pytest.mark.parametrize("later", [False, True])
def test_positions_are_lost_unless_their_topics_were_made_again(later: bool) -> None:
    """A topic that came while the application ran may lose them as any other."""
    state: Any = SimpleNamespace(
        **{"stores": {"s": None}, "plain": frozenset(), "positions": {}, "topic_ids": {}},
        state=StateNumber(1, 1),
        reach=StateNumber(1, 1),
    )
    lost = InputRange(0, 9, "earliest", later=later)
    made_again = attrs.evolve(lost, remade=True)
    other = TopicPartition("other", 0)
    for ranges in ({IN: lost}, {IN: made_again, other: lost}):
        found = judge(TaskId(0, 0), Target(dict.fromkeys(ranges, -1), ranges=ranges), state)
        assert isinstance(found, Mismatch)
        assert "are lost, although the local state is of commit (1, 1)" in found.reason
    good = Target({IN: -1}, ranges={IN: made_again})
    assert judge(TaskId(0, 0), good, state) == good


def test_the_position_of_the_commit_goes_on_with_its_note() -> None:
    assert note(target(5), 5) == NOTE


def test_a_log_that_was_never_read_begins_with_its_first_record() -> None:
    assert note(target(-1), 0) == InputNote()


def test_a_log_whose_beginning_is_gone_may_begin_with_any_record() -> None:
    assert note(target(-1), 7) == InputNote(open=True)


def test_a_position_that_retention_overtook_goes_on_behind_the_gap() -> None:
    assert note(target(5), 8) == NOTE.skipped()


def test_a_position_of_another_tool_begins_an_incarnation() -> None:
    found = attrs.evolve(target(5), unmarked=frozenset({IN}))
    assert note(found, 5) == InputNote(1_800_000_000, open=True)


def test_an_input_that_is_new_is_no_position_of_another_tool() -> None:
    found = attrs.evolve(target(-1), unmarked=frozenset({IN}))
    assert note(found, 0) == InputNote()


def test_incarnations_grow_though_the_clock_goes_back() -> None:
    known = {IN: InputNote(1_900_000_000)}
    found = attrs.evolve(target(5), unmarked=frozenset({IN}), notes=known)
    assert note(found, 0) == InputNote(1_900_000_001, open=True)


def test_what_a_policy_decided_begins_an_incarnation() -> None:
    assert note(begun_anew(target(5)), 0) == InputNote(1_800_000_000, open=True)
    ended = attrs.evolve(target(5), ranges={IN: InputRange(0, 3, "earliest")})
    assert note(at_the_end(ended), 3) == InputNote(1_800_000_000, open=True)
    chosen = continued(target(5), CommitEntry(StateNumber(1, 1), {IN: 4}, {}), None)
    assert chosen is not None
    assert note(chosen, 4) == InputNote(1_800_000_000, open=True)


def test_what_goes_on_where_the_commit_is_keeps_its_note() -> None:
    chosen = continued(target(5), CommitEntry(StateNumber(1, 1), {IN: 5}, {}), None)
    assert chosen is not None
    assert note(chosen, 5) == NOTE


def test_a_target_that_was_placed_still_knows_what_was_committed() -> None:
    ranges = {IN: InputRange(8, 20, "earliest")}
    overtaken = attrs.evolve(target(5), ranges=ranges).placed()
    assert overtaken.positions() == {IN: 8}
    assert note(overtaken, 8) == NOTE.skipped()
    first = attrs.evolve(target(-1), ranges={IN: InputRange(0, 20, "earliest")})
    assert note(attrs.evolve(first, unmarked=frozenset({IN})).placed(), 0) == InputNote()


class NoPositions:
    """A group that has committed nothing yet."""

    def fetch_committed(
        self, partitions: Sequence[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, Committed]:
        return {tp: Committed(-1, "") for tp in partitions}


def test_a_wait_for_an_open_transaction_is_told_after_ten_seconds() -> None:
    """Its positions are asked for anew from then on, which says what it waits for."""
    app, waited = sl.App("app"), []

    class Unstable(NoPositions):
        def fetch_committed(
            self, partitions: Sequence[TopicPartition], timeout_ms: int
        ) -> dict[TopicPartition, Committed]:
            waited.append(timeout_ms)
            raise TimedOutError("words-0: a transaction that has their positions is open")

    app.stream("words", key=str, value=str).group_by_key().count(store="counts")
    log = MemoryLog()
    log.create("words", 1)
    found = targets_over(log, app.topology(), Unstable(), ManualClock())
    with pytest.raises(TimedOutError, match="words-0"):
        found.read([TaskId(0, 0)]).result()
    found.close()
    assert waited == [LONG_MS]


def test_brokers_are_asked_once_where_all_partitions_of_tasks_begin_and_end() -> None:
    """Each question is a request to every leader, and the tasks wait for the answers."""
    asked: list[tuple[str, int]] = []

    class Asked(MemoryAdmin):
        def start_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            asked.append(("start", len(partitions)))
            return super().start_offsets(partitions)

        def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            asked.append(("end", len(partitions)))
            return super().end_offsets(partitions)

        def readable_ends(
            self, partitions: Sequence[TopicPartition], *, read_committed: bool | None = None
        ) -> dict[TopicPartition, int]:
            asked.append(("stable", len(partitions)))
            return {tp: self._log.end(tp) for tp in partitions}

    app = sl.App("app")
    app.stream("words", key=str, value=str).group_by_key().count(store="counts")
    log = MemoryLog()
    log.create("words", 2)
    log.create("app-counts-changelog", 2)
    log.gap(TopicPartition("app-counts-changelog", 1), 3)
    settings = Settings.load({"processing.guarantee": "exactly_once"})
    found = targets_over(
        *(log, app.topology(), NoPositions(), ManualClock()), admin=Asked(log), settings=settings
    )
    try:
        assert len(found.read([TaskId(0, 0), TaskId(0, 1)]).result()) == 2
    finally:
        found.close()
    assert asked == [("start", 4), ("end", 4), ("stable", 4)]


@pytest.mark.parametrize(
    ("guarantee", "records", "end"),
    [("exactly_once", 0, 0), ("exactly_once", 1, 4), ("at_least_once", 0, 0)],
)
def test_a_first_transaction_that_was_aborted_is_no_lost_commit(
    guarantee: str, records: int, end: int
) -> None:
    """It leaves offsets in the changelog and no position: positions seemed lost, for ever."""
    app = sl.App("app")
    app.stream("words", key=str, value=str).group_by_key().count(store="counts")
    log, changelog = MemoryLog(), TopicPartition("app-counts-changelog", 0)
    for topic in ("words", changelog.topic):
        log.create(topic, 1)
    log.gap(changelog, 3)
    log.append(changelog, [b"k"] * records, [b"v"] * records)
    settings = Settings.load({"processing.guarantee": guarantee})
    found = targets_over(log, app.topology(), NoPositions(), ManualClock(), settings=settings)
    task = TaskId(0, 0)
    try:
        assert found.read([task]).result()[task].ends == {changelog: end}
    finally:
        found.close()
