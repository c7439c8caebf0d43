"""The group that notes which letters are dealt with, and that lets in one replay at a time.

A replay is the group's only member, so positions are fenced by its generation: where a second one
gets in, or the first is gone for longer than its session, no more is given back by the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from streamlet.clock import Clock
from streamlet.coordinator.codes import name_of
from streamlet.coordinator.messages import (
    Answer,
    Heartbeat,
    HeartbeatAnswer,
    JoinGroup,
    JoinGroupAnswer,
    LeaveGroup,
    OffsetCommit,
    OffsetCommitAnswer,
    OffsetFetch,
    OffsetFetchAnswer,
    Request,
    SyncGroup,
    SyncGroupAnswer,
)
from streamlet.errors import BrokerError, MissingRightError, RefusedError
from streamlet.rights import GROUP_REFUSED, Right, missing
from streamlet.types import TopicPartition

if TYPE_CHECKING:
    from streamlet.coordinator.transport import Transport

#: A replay that was killed keeps others out for so long; brokers take no shorter one.
SESSION_MS = 10_000
_HEARTBEAT_MS = 2_000
_REQUEST_MS = 10_000
_TYPE, _PROTOCOL = "streamlet-letters", "v1"
_MEMBER_ID_REQUIRED = 79


def group_of(topic: str) -> str:
    """The group of a topic of dead letters."""
    return f"{topic}-streamlet-letters"


@attrs.define(eq=False)
class LetterGroup:
    """Reads and commits what is dealt with of one topic; for one thread.

    Args:
        topic: of the letters.
        transport: the way to the coordinator.
        clock: the time.
    """

    topic: str
    transport: Transport
    clock: Clock
    _member_id: str = attrs.field(default="", init=False)
    _generation: int = attrs.field(default=-1, init=False)
    _heard_ms: int = attrs.field(default=0, init=False)

    @property
    def name(self) -> str:
        """The id of the group."""
        return group_of(self.topic)

    def fetch(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        """The position and text of each partition that has one.

        Raises:
            BrokerError: the coordinator does not answer, or refuses.
        """
        request = OffsetFetch(self.name, tuple(partitions), require_stable=False)
        answer = self.transport.ask(request, _REQUEST_MS).result()
        assert isinstance(answer, OffsetFetchAnswer), answer
        self._check(answer.error, "DESCRIBE")
        found = answer.committed.items()
        return {tp: (one.offset, one.metadata) for tp, one in found if one.offset >= 0}

    def join(self) -> None:
        """Become the group's only member.

        Raises:
            RefusedError: another replay is running, or was killed a moment ago.
            BrokerError: the coordinator does not answer, or refuses.
        """
        if self.transport.describe_group(self.name, _REQUEST_MS).result().members:
            raise self._busy()
        answer = self._join()
        if answer.error == _MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            answer = self._join()
        self._check(answer.error, "READ")
        self._member_id, self._generation = answer.member_id, answer.generation
        if answer.leader != answer.member_id or len(answer.members) > 1:
            self.leave()
            raise self._busy()
        given = ((self._member_id, b""),)
        sync = SyncGroup(
            self.name, self._generation, self._member_id, None, _TYPE, _PROTOCOL, given
        )
        synced = self._send(sync)
        assert isinstance(synced, SyncGroupAnswer), synced
        self._check(synced.error, "READ")
        self._heard_ms = self.clock.now_ms()

    def commit(self, states: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit positions and texts, as the member.

        Raises:
            RefusedError: another replay took over, or our session is over.
            BrokerError: the coordinator does not answer, or refuses.
        """
        began_ms = self.clock.now_ms()
        request = OffsetCommit(self.name, self._generation, self._member_id, None, dict(states))
        answer = self._send(request)
        assert isinstance(answer, OffsetCommitAnswer), answer
        for code in answer.errors.values():
            self._check(code, "READ")
        self._heard_ms = began_ms

    def check_alive(self) -> None:
        """Refuse to go on where others may have taken over since the last commit.

        Raises:
            RefusedError: our session may be over soon.
        """
        if self.clock.now_ms() - self._heard_ms > SESSION_MS // 2:
            raise RefusedError("this replay was out of touch for too long; give it again")

    def keep_alive(self) -> None:
        """Send a heartbeat, if this process is a member and one is due.

        Raises:
            RefusedError: another replay took over, or our session is over.
            BrokerError: the coordinator does not answer, or refuses.
        """
        now_ms = self.clock.now_ms()
        if not self._member_id or now_ms - self._heard_ms < _HEARTBEAT_MS:
            return
        answer = self._send(Heartbeat(self.name, self._generation, self._member_id, None))
        assert isinstance(answer, HeartbeatAnswer), answer
        self._check(answer.error, "READ")
        self._heard_ms = now_ms

    def leave(self) -> None:
        """Leave the group, if we are in it."""
        if self._member_id:
            self._send(LeaveGroup(self.name, self._member_id, None, "the replay ended"))
            self._member_id = ""

    def _join(self) -> JoinGroupAnswer:
        protocols = ((_PROTOCOL, b""),)
        request = JoinGroup(
            *(self.name, self._member_id, None, _TYPE, protocols, SESSION_MS, SESSION_MS)
        )
        answer = self._send(request)
        assert isinstance(answer, JoinGroupAnswer), answer
        return answer

    def _send(self, request: Request) -> Answer:
        return self.transport.send(request, "main", _REQUEST_MS).result()

    def _check(self, code: int, operation: str) -> None:
        if code in (22, 25, 27, 23):  # another generation, member, rebalance or type
            raise self._busy()
        if code == GROUP_REFUSED:
            right = Right(operation, "group", self.name)
            raise MissingRightError(f"group {self.name}: {missing(right)}")
        if code:
            raise BrokerError(f"group {self.name}: {name_of(code)}")

    def _busy(self) -> RefusedError:
        return RefusedError(
            f"another replay of {self.topic} is running; one that was killed is out of the group "
            f"{SESSION_MS // 1000} s later"
        )
