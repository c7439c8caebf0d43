"""The meaning of each error code of each group request for a member, in one table.

Kafka documents the codes with the responses (``JoinGroupResponse`` and kin) and in its protocol
guide. ``COMMIT`` differs from the others: only codes that the coordinator gives before it writes
anything are definite; those that it also gives when replication fails after the write (15, 16, 7,
-1) leave the outcome unknown.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs


class RequestKind(enum.StrEnum):
    """The requests of a classic group, and the look-up of its coordinator."""

    FIND = "FindCoordinator"
    JOIN = "JoinGroup"
    SYNC = "SyncGroup"
    HEARTBEAT = "Heartbeat"
    LEAVE = "LeaveGroup"
    COMMIT = "OffsetCommit"
    FETCH = "OffsetFetch"


class Remedy(enum.StrEnum):
    """The remedies after an answer, from mild to severe."""

    PROCEED = "proceed"  # no error
    RETRY = "retry"  # nothing happened: back off, ask again
    REFIND = "refind"  # not the coordinator: look it up, ask again
    IDENTIFY = "identify"  # join again with the member id just given
    REJOIN = "rejoin"  # join again under the same member id, claims stay
    SHRINK = "shrink"  # the group's state is too large to store: less bytes, then rejoin
    UNSTABLE = "unstable"  # a transaction is open on these positions: ask again soon
    REFUSED = "refused"  # definite, and repeating cannot help
    UNKNOWN = "unknown"  # may have happened or not (M6)
    STALE = "stale"  # the generation is not the group's: expected switch, or tasks lost (M1)
    RESET = "reset"  # the member id is gone, and with it every claim (M1)
    OTHER_TYPE = "other type"  # try as the other type, if there is one that would do
    FATAL = "fatal"  # membership cannot go on
    FENCED = "fenced"  # another process has our static id


#: Kafka's names of the codes these requests are answered with.
NAMES: dict[int, str] = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "NONE",
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    7: "REQUEST_TIMED_OUT",
    12: "OFFSET_METADATA_TOO_LARGE",
    13: "NETWORK_EXCEPTION",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION",
    22: "ILLEGAL_GENERATION",
    23: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    26: "INVALID_SESSION_TIMEOUT",
    27: "REBALANCE_IN_PROGRESS",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    34: "ILLEGAL_SASL_STATE",
    35: "UNSUPPORTED_VERSION",
    42: "INVALID_REQUEST",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    58: "SASL_AUTHENTICATION_FAILED",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    72: "LISTENER_NOT_FOUND",
    79: "MEMBER_ID_REQUIRED",
    81: "GROUP_MAX_SIZE_REACHED",
    82: "FENCED_INSTANCE_ID",
    88: "UNSTABLE_OFFSET_COMMIT",
    89: "THROTTLING_QUOTA_EXCEEDED",
    100: "UNKNOWN_TOPIC_ID",
    110: "FENCED_MEMBER_EPOCH",
    111: "UNRELEASED_INSTANCE_ID",
    113: "STALE_MEMBER_EPOCH",
}

#: A topic or its id is not known.
NO_TOPIC = frozenset({3, 100})
#: The text beside a position is longer than the broker takes.
TEXT_TOO_LONG = 12

#: What the codes mean that each of the answers may bear.
_EVERYWHERE: dict[Remedy, tuple[int, ...]] = {
    Remedy.PROCEED: (0,),
    Remedy.RETRY: (-1, 7, 14, 89),
    Remedy.REFIND: (13, 15, 16),
    Remedy.FATAL: (24, 30, 31, 34, 35, 42, 58),
}

#: What they mean to one request, where that is something else, and the codes that only it may get.
_OWN: dict[RequestKind, dict[Remedy, tuple[int, ...]]] = {
    # 15, 16: __consumer_offsets is just being made, or its leader elected.
    RequestKind.FIND: {Remedy.RETRY: (13, 15, 16, 72)},
    RequestKind.JOIN: {
        Remedy.RETRY: (27, 111),  # 111: a static predecessor's place is about to be free
        Remedy.IDENTIFY: (79,),
        Remedy.REJOIN: (22,),
        Remedy.RESET: (25,),
        Remedy.OTHER_TYPE: (23,),  # the group's type is another, or no protocol is common to all
        Remedy.FATAL: (26, 81),
        Remedy.FENCED: (82,),
    },
    RequestKind.SYNC: {
        Remedy.REJOIN: (22, 27),
        Remedy.SHRINK: (-1,),
        Remedy.RESET: (25,),
        Remedy.FATAL: (23,),
        Remedy.FENCED: (82,),
    },
    RequestKind.HEARTBEAT: {
        Remedy.REJOIN: (27,),
        Remedy.STALE: (22,),
        Remedy.RESET: (25, 69),
        Remedy.FENCED: (82,),
    },
    RequestKind.LEAVE: {Remedy.PROCEED: (25, 69, 82)},
    RequestKind.COMMIT: {
        Remedy.REJOIN: (27,),
        Remedy.PROCEED: (3, 100),  # of a topic that was deleted: there is nothing to be kept
        Remedy.REFUSED: (12, 17, 28, 29),
        Remedy.UNKNOWN: (-1, 7, 13, 15, 16, 48, 49),
        Remedy.STALE: (22,),
        Remedy.RESET: (25, 69, 110, 113),
        Remedy.FENCED: (82,),
    },
    RequestKind.FETCH: {Remedy.UNSTABLE: (88,), Remedy.REFUSED: (3, 17, 25, 29, 69, 100, 113)},
}

#: Every documented code of every request.
TABLE: dict[tuple[RequestKind, int], Remedy] = {
    (kind, code): remedy
    for kind in RequestKind
    for remedies in (_EVERYWHERE, _OWN[kind])
    for remedy, codes in remedies.items()
    for code in codes
}

#: Of several partitions' answers the worst counts; remedies are declared from mild to bad.
_BADNESS = {remedy: badness for badness, remedy in enumerate(Remedy)}


@attrs.frozen
class Verdict:
    """A remedy and the code it comes from."""

    remedy: Remedy
    code: int

    def __str__(self) -> str:
        return name_of(self.code)


def name_of(code: int) -> str:
    """Kafka's name of an error code, or the number where we have none."""
    return NAMES.get(code, f"error code {code}")


def remedy_for(kind: RequestKind, code: int) -> Remedy:
    """Look a code up; unknown ones are asked again, but for a commit, which may have happened."""
    unknown = Remedy.UNKNOWN if kind is RequestKind.COMMIT else Remedy.RETRY
    return TABLE.get((kind, code), unknown)


def judge(kind: RequestKind, codes: Iterable[int]) -> Verdict:
    """Make one verdict of the codes of one answer (one per partition); the worst counts.

    A commit that was accepted for some partitions and deferred for others has an unknown outcome:
    all partitions of a task bear the same metadata or none (W1).
    """
    verdicts = [Verdict(remedy_for(kind, code), code) for code in codes]
    if not verdicts:
        return Verdict(Remedy.PROCEED, 0)
    worst = max(verdicts, key=lambda v: (_BADNESS[v.remedy], -v.code))
    mixed = any(v.remedy is Remedy.PROCEED for v in verdicts)
    if (
        kind is RequestKind.COMMIT
        and mixed
        and worst.remedy in (Remedy.RETRY, Remedy.REJOIN, Remedy.REFIND)
    ):
        return Verdict(Remedy.UNKNOWN, worst.code)
    return worst
