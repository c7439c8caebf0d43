"""Every error code of every request has its row, its name and a remedy the machine knows."""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka import KafkaError

from streamlet.coordinator.codes import (
    NAMES,
    TABLE,
    Remedy,
    RequestKind,
    judge,
    name_of,
    remedy_for,
)

KIND = RequestKind

#: What Kafka documents for the responses (javadoc of the response classes, protocol guide).
DOCUMENTED = {
    KIND.FIND: {0, 14, 15, 24, 30, 35, 42},
    KIND.JOIN: {0, -1, 14, 15, 16, 22, 23, 24, 25, 26, 27, 30, 35, 79, 81, 82},
    KIND.SYNC: {0, -1, 14, 15, 16, 22, 23, 25, 27, 30, 82},
    KIND.HEARTBEAT: {0, 14, 15, 16, 22, 25, 27, 30, 82},
    KIND.LEAVE: {0, 14, 15, 16, 25, 30, 82},
    KIND.COMMIT: {0, -1, 3, 7, 12, 14, 15, 16, 22, 24, 25, 27, 28, 29, 30}
    | {48, 49, 69, 82, 100, 113},
    KIND.FETCH: {0, 3, 14, 15, 16, 25, 29, 30, 69, 88, 100, 113},
}


def test_each_documented_code_has_a_row():
    for kind, codes in DOCUMENTED.items():
        assert not codes - {code for of, code in TABLE if of is kind}, kind


def test_each_row_has_a_name_that_is_kafkas():
    """Another client's list of the same names and numbers, where it has them."""
    deviates = {
        -1: "UNKNOWN",
        0: "NO_ERROR",
        3: "UNKNOWN_TOPIC_OR_PART",
        17: "TOPIC_EXCEPTION",
    }
    for _, code in TABLE:
        assert KafkaError(code).name() == deviates.get(code, NAMES[code])
    assert name_of(22) == "ILLEGAL_GENERATION"
    assert name_of(999) == "error code 999"


#: What the machine does about each remedy of each request; nothing else may be in the table.
UNDERSTOOD = {
    KIND.FIND: {Remedy.PROCEED, Remedy.RETRY, Remedy.FATAL},
    KIND.JOIN: {
        Remedy.OTHER_TYPE,
        Remedy.PROCEED,
        Remedy.RETRY,
        Remedy.REFIND,
        Remedy.IDENTIFY,
        Remedy.REJOIN,
        Remedy.RESET,
        Remedy.FATAL,
        Remedy.FENCED,
    },
    KIND.SYNC: {
        Remedy.PROCEED,
        Remedy.RETRY,
        Remedy.REFIND,
        Remedy.REJOIN,
        Remedy.SHRINK,
        Remedy.RESET,
        Remedy.FATAL,
        Remedy.FENCED,
    },
    KIND.HEARTBEAT: {
        Remedy.PROCEED,
        Remedy.RETRY,
        Remedy.REFIND,
        Remedy.REJOIN,
        Remedy.STALE,
        Remedy.RESET,
        Remedy.FATAL,
        Remedy.FENCED,
    },
    KIND.LEAVE: {Remedy.PROCEED, Remedy.RETRY, Remedy.REFIND, Remedy.FATAL},
    KIND.COMMIT: {
        Remedy.PROCEED,
        Remedy.RETRY,
        Remedy.REJOIN,
        Remedy.REFUSED,
        Remedy.UNKNOWN,
        Remedy.STALE,
        Remedy.RESET,
        Remedy.FATAL,
        Remedy.FENCED,
    },
    KIND.FETCH: {
        Remedy.PROCEED,
        Remedy.RETRY,
        Remedy.REFIND,
        Remedy.UNSTABLE,
        Remedy.REFUSED,
        Remedy.FATAL,
    },
}


def test_the_table_asks_for_nothing_the_machine_does_not_do():
    for kind in RequestKind:
        assert {remedy for (of, _), remedy in TABLE.items() if of is kind} <= UNDERSTOOD[kind]


def test_codes_nobody_knows_are_asked_again_but_a_commit_may_have_happened():
    """A newer broker has codes we have not met."""
    for kind in RequestKind:
        wanted = Remedy.UNKNOWN if kind is KIND.COMMIT else Remedy.RETRY
        assert remedy_for(kind, 12_345) is wanted


@pytest.mark.parametrize(
    ("codes", "remedy"),
    [
        ((), Remedy.PROCEED),
        ((0, 0), Remedy.PROCEED),
        ((0, 12), Remedy.REFUSED),
        ((0, 27), Remedy.UNKNOWN),
        ((27, 27), Remedy.REJOIN),
        ((14, 14), Remedy.RETRY),
        ((0, 14), Remedy.UNKNOWN),
        ((3, 22), Remedy.STALE),
        ((22, 25), Remedy.RESET),
        ((25, 82), Remedy.FENCED),
        ((12, 15), Remedy.UNKNOWN),
    ],
)
def test_of_several_partitions_answers_the_worst_counts(codes, remedy):
    for order in itertools.permutations(codes):
        assert judge(KIND.COMMIT, order).remedy is remedy


def test_a_verdict_prints_as_kafka_calls_it():
    assert str(judge(KIND.JOIN, [82])) == "FENCED_INSTANCE_ID"
