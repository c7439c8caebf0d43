"""Row by row: what a member does when the coordinator answers a request with this code.

``test_codes`` looks at the table; here nobody looks at it. A member that has tasks is answered, and
what it does about that is put into words. So a row that is changed shows as another word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from streamlet.coordinator.codes import TABLE, RequestKind
from streamlet.coordinator.events import (
    Assigned,
    Command,
    CommitDone,
    CommitOutcome,
    CoordinatorNotFound,
    Failed,
    FetchDone,
    FetchOutcome,
    FetchWanted,
    FindCoordinator,
    LeaveWanted,
    Left,
    Lost,
    Rejoin,
    Send,
    StartMembership,
)
from streamlet.coordinator.messages import (
    Committed,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    LeaveGroupAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.coordinator.states import MembershipState
from streamlet.errors import FencedError
from streamlet.rebalance.values import NeedMetadata
from streamlet.types import TopicPartition

KIND = RequestKind
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

#: What a member does, and the codes at which it does that. 13 (NETWORK_EXCEPTION), 89 (throttled)
#: and, where it is not documented for the request, 7 or -1 are as good as no answer.
REFUSALS = [24, 30, 31, 34, 35, 42, 58]
DOES: dict[RequestKind, dict[str, list[int]]] = {
    KIND.FIND: {"ends": REFUSALS, "asks again": [-1, 0, 7, 13, 14, 15, 16, 72, 89]},
    KIND.JOIN: {
        "goes on": [0],
        "backs off": [-1, 7, 14, 27, 89, 111],
        "looks up": [13, 15, 16],
        "shows its id": [79],
        "joins again": [22],
        "comes anew": [25],
        "tries the other type": [23],
        "ends": [*REFUSALS, 26, 81],
        "fenced": [82],
    },
    KIND.SYNC: {
        "goes on": [0],
        "backs off": [7, 14, 89],
        "looks up": [13, 15, 16],
        "says less": [-1],
        "joins again": [22, 27],
        "comes anew": [25],
        "ends": [*REFUSALS, 23],
        "fenced": [82],
    },
    KIND.HEARTBEAT: {
        "goes on": [0],
        "goes on, not alive": [-1, 7, 14, 89],
        "looks up": [13, 15, 16],
        "joins again": [27],
        "drops its tasks": [22],
        "comes anew": [25, 69],
        "ends": REFUSALS,
        "fenced": [82],
    },
    KIND.LEAVE: {
        "has left": [0, 25, 69, 82, *REFUSALS],
        "asks again": [-1, 7, 14, 89],
        "looks up": [13, 15, 16],
    },
    KIND.COMMIT: {
        "accepted": [0, 3, 100],
        "gated": [14, 89],
        "gated, joins again": [27],
        "refused": [12, 17, 28, 29],
        "unknown": [-1, 7, 48, 49],
        "unknown, looks up": [13, 15, 16],
        "lost, drops its tasks": [22],
        "lost, comes anew": [25, 69, 110, 113],
        "lost, ends": REFUSALS,
        "lost, fenced": [82],
    },
    KIND.FETCH: {
        "fetched": [0],
        "asks again": [-1, 7, 14, 89],
        "looks up": [13, 15, 16],
        "unstable": [88],
        "refused": [3, 17, 25, 29, 69, 100, 113],
        "ends": REFUSALS,
    },
}


def some(commands: Iterable[Command], kind: type[Any]) -> bool:
    return any(isinstance(command, kind) for command in commands)


def end_of(commands: Iterable[Command]) -> str | None:
    """How the membership ended, if it did."""
    for command in commands:
        if isinstance(command, Failed):
            return "fenced" if isinstance(command.error, FencedError) else "ends"
    return None


def joins(member: Any, commands: list[Command]) -> str:
    """What becomes of a join that was answered with an error."""
    if (end := end_of(commands)) is not None:
        return end
    if some(commands, Lost):
        return "comes anew"
    if some(commands, FindCoordinator):
        return "looks up"
    if member.machine._member.reduced:
        return "says less"
    return "joins again" if some(commands, NeedMetadata) else "backs off"


def on_find(by_hand: Any, code: int) -> str:
    member = by_hand()
    member.tell(StartMembership())
    commands = member.tell(CoordinatorNotFound(code))
    if (end := end_of(commands)) is not None:
        return end
    member.until(FindCoordinator)
    return "asks again"


def on_join(by_hand: Any, code: int) -> str:
    first = by_hand(protocol_types=("stream", "consumer"))
    first.start()
    first.describe()
    answer = JoinGroupAnswer(code, member_id="given")
    commands = first.answer(answer, JoinGroup)
    sent = [c.request for c in commands if isinstance(c, Send)]
    if any(isinstance(one, JoinGroup) and one.member_id == "given" for one in sent):
        return "shows its id"
    if any(isinstance(c, NeedMetadata) and c.protocol_type == "consumer" for c in commands):
        return "tries the other type"
    member = by_hand().join()
    member.tell(Rejoin("changed"))
    member.describe()
    commands = member.answer(JoinGroupAnswer(code, 2, "stream", "p", "boss", "a"), JoinGroup)
    if member.machine.view.state is MembershipState.SYNCING:
        return "goes on"
    return joins(member, commands)


def on_sync(by_hand: Any, code: int) -> str:
    member = by_hand().join()
    member.tell(Rejoin("changed"))
    member.describe()
    member.answer(JoinGroupAnswer(0, 2, "stream", "p", "boss", "a"), JoinGroup)
    commands = member.answer(SyncGroupAnswer(code, b"x"), SyncGroup)
    return "goes on" if some(commands, Assigned) else joins(member, commands)


def on_heartbeat(by_hand: Any, code: int) -> str:
    member = by_hand().join()
    alive_ms = member.machine._member.last_heartbeat_ms
    commands = member.beat(code)
    if (end := end_of(commands)) is not None:
        return end
    if some(commands, Lost):
        return "drops its tasks" if member.machine._member.member_id else "comes anew"
    if some(commands, FindCoordinator):
        return "looks up"
    if some(commands, NeedMetadata):
        return "joins again"
    alive = member.machine._member.last_heartbeat_ms > alive_ms
    return "goes on" if alive else "goes on, not alive"


def on_leave(by_hand: Any, code: int) -> str:
    member = by_hand().join()
    member.tell(LeaveWanted("enough"))
    commands = member.answer(LeaveGroupAnswer(code), LeaveGroup)
    if some(commands, Left):
        return "has left"
    assert member.machine.view.state is MembershipState.LEAVING
    return "looks up" if some(commands, FindCoordinator) else "asks again"


def on_commit(by_hand: Any, code: int) -> str:
    member = by_hand().join()
    member.commit()
    commands = member.commit_answer(code)
    (outcome,) = [c.outcome for c in commands if isinstance(c, CommitDone)]
    then = end_of(commands)
    if some(commands, Lost) and then is None:
        then = "drops its tasks" if member.machine._member.member_id else "comes anew"
    if then is None and some(commands, FindCoordinator):
        then = "looks up"
    if then is None and outcome is CommitOutcome.GATED and some(commands, NeedMetadata):
        then = "joins again"
    return outcome.value + (f", {then}" if then else "")


def on_fetch(by_hand: Any, code: int) -> str:
    """As the group's error, or as that of a partition; the worse word counts, they must agree."""
    words = set()
    for group, part in ((code, 0), (0, code)):
        member = by_hand().join()
        member.tell(FetchWanted(1, (T0, T1)))
        found = {} if group else {T0: Committed(5, "", part), T1: Committed(6, "")}
        commands = member.answer(OffsetFetchAnswer(group, found), OffsetFetch)
        (result,) = [c for c in commands if isinstance(c, FetchDone)]
        word = "asks again" if result.outcome is FetchOutcome.RETRY else result.outcome.value
        looks = "looks up" if some(commands, FindCoordinator) else None
        words.add(end_of(commands) or looks or word)
    assert len(words) == 1, words
    return words.pop()


ASK: dict[RequestKind, Callable[[Any, int], str]] = {
    KIND.FIND: on_find,
    KIND.JOIN: on_join,
    KIND.SYNC: on_sync,
    KIND.HEARTBEAT: on_heartbeat,
    KIND.LEAVE: on_leave,
    KIND.COMMIT: on_commit,
    KIND.FETCH: on_fetch,
}

ROWS = [(kind, code, word) for kind in DOES for word, codes in DOES[kind].items() for code in codes]


@pytest.mark.parametrize(("kind", "code", "word"), ROWS)
def test_a_member_does_what_the_code_calls_for(
    by_hand: Any, kind: RequestKind, code: int, word: str
) -> None:
    assert ASK[kind](by_hand, code) == word


def test_every_row_of_the_table_is_played() -> None:
    assert sorted((kind, code) for kind, code, _ in ROWS) == sorted(TABLE)
