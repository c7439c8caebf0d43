"""Edges that wait for their commit: exact with all their rules, whatever functions do."""

from __future__ import annotations

import os

import attrs
import pytest

from streamlet.processing.edges import held_run, undecided
from tests.simulation.held.code import CodeHistory, LossyCodeHistory, OrderedHistory
from tests.simulation.held.cycle import CycleCodeHistory, CycleHistory
from tests.simulation.held.edge import EdgeHistory, OrderedEdgeHistory
from tests.simulation.held.guarantees import GuaranteeHistory
from tests.simulation.held.history import History, LossyHistory
from tests.simulation.held.reader import Reader
from tests.simulation.held.rules import Rules, Word
from tests.simulation.held.switch import RULES, FollowingHistory, SwitchHistory
from tests.simulation.held.writer import BOUND
from tests.simulation.histories import faults_of

pytestmark = pytest.mark.simulation

HISTORIES = int(os.environ.get("EDGE_HISTORIES", "1000"))
SEED = int(os.environ.get("EDGE_SEED", "1"))
#: What only makes readers wait for longer, and what needs a rare meeting; each has a test below.
_ALONE = {"skipped", "numbers"}
#: What is missed where tasks write to each other.
_IN_CYCLES = {"empty"}


def test_with_all_rules_what_was_committed_is_applied_once() -> None:
    faults = faults_of(History, range(SEED, SEED + HISTORIES))
    print(dict(faults))
    assert HISTORIES < 10 or min(faults.values()) >= HISTORIES // 20, faults


def test_where_topics_lose_records_the_others_are_applied_once() -> None:
    faults_of(LossyHistory, range(SEED, SEED + HISTORIES // 4), 4)


@pytest.mark.parametrize("kind", [CodeHistory, OrderedHistory, LossyCodeHistory])
def test_the_code_applies_once_what_was_committed(
    kind: type[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefixes, markers and notes; the second kind of reader keeps the order of its topic."""
    monkeypatch.setattr(undecided, "MOST_RECORDS", BOUND - 1)
    faults_of(kind, range(SEED, SEED + HISTORIES // 10), 10)


def test_tasks_that_write_to_each_other_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    faults_of(CycleHistory, range(SEED, SEED + HISTORIES // 20), 20)
    monkeypatch.setattr(undecided, "MOST_RECORDS", BOUND - 1)
    faults_of(CycleCodeHistory, range(SEED, SEED + HISTORIES // 50), 50)


@pytest.mark.parametrize("kind", [SwitchHistory, FollowingHistory])
def test_changes_of_form_neither_lose_nor_double(
    kind: type[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills, hand-overs and former owners at each step, while tasks go over to another form.

    In the second kind records of two edges in a row wait, of the second because of the first.
    """
    monkeypatch.setattr(undecided, "MOST_RECORDS", BOUND - 1)
    faults_of(kind, range(SEED, SEED + HISTORIES // 50), 50)


def test_tasks_move_between_members_of_both_guarantees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Periods that commit by transactions, and others, on both sides of repartition topics."""
    monkeypatch.setattr(undecided, "MOST_RECORDS", BOUND - 1)
    faults_of(GuaranteeHistory, range(SEED, SEED + HISTORIES // 50), 50)


@pytest.mark.parametrize("kind", [EdgeHistory, OrderedEdgeHistory])
def test_a_reader_that_begins_anew_processes_each_record_once(
    kind: type[EdgeHistory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of one commit are in several runs, as large commits are."""
    monkeypatch.setattr(held_run, "MANY", 2)
    faults = faults_of(kind, range(SEED, SEED + HISTORIES // 2), 2)
    assert HISTORIES < 10 or min(faults.values()) >= HISTORIES // 10, faults


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_a_change_of_form_loses_or_doubles(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of these histories that goes wrong is found soon."""
    monkeypatch.setattr(undecided, "MOST_RECORDS", BOUND - 1)
    assert any(SwitchHistory(seed, rule).run() for seed in range(SEED, SEED + 1000))


@pytest.mark.parametrize("rule", sorted(attrs.fields_dict(Rules).keys() - _ALONE))
def test_without_a_rule_records_are_lost_or_doubled_or_wait_for_ever(rule: str) -> None:
    """The first of these histories that goes wrong is found soon."""
    rules, kind = Rules(**{rule: False}), CycleHistory if rule in _IN_CYCLES else History
    assert any(kind(seed, rules).run() for seed in range(SEED, SEED + 1000))


def read(reader: Reader, *words: Word) -> list[object]:
    """The values that a reader applies of these words."""
    for word in words:
        reader.take(word)
    return [word.value for word in iter(reader.process, None)]


def test_a_period_that_committed_ends_earlier_ones() -> None:
    """A reader without notes begins behind a base, and meets a zombie first."""
    words = (
        Word(0, (1, 1), 4, 3, 9, "zombie"),
        Word(0, (1, 2), 3, 2, 5, "new"),
        Word(0, (1, 2), 4, 3, 6, "newer"),
    )
    reader = Reader(Rules(), 10)
    assert read(reader, *words) == ["new"]
    assert reader.position == 12
    reader = Reader(Rules(skipped=False), 10)
    assert read(reader, *words) == []


def test_what_is_decided_at_once_is_marked_by_its_commit() -> None:
    """A copied head has the record of an earlier commit behind one of a later commit."""
    log = (
        Word(1, (1, 1), 1, 0, 1, "of another writer, which waits"),
        Word(0, (1, 1), 2, 0, 2, "second"),
        Word(0, (1, 1), 1, 0, 1, "copied"),
        Word(0, (1, 1), 3, 2, 3, "third"),
    )
    assert read_twice(Rules(), log) == ["copied", "second"]
    assert read_twice(Rules(numbers=False), log) == ["second", "copied", "second"]


def read_twice(rules: Rules, log: tuple[Word, ...]) -> list[object]:
    """The values applied of a log that is read once more from the commit behind it."""
    reader = Reader(rules)
    once = read(reader, *log)
    return once + read(Reader(rules, reader.position, reader.notes), *log[reader.position :])
