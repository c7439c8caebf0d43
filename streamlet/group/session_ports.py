"""The ports of a session to tasks and network, and the errors of the latter."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol

from streamlet.assignor.values import Copy
from streamlet.errors import BrokerError, BrokerTooOldError
from streamlet.group.codes import name_of
from streamlet.group.events import Connection, FailureKind, NeedMetadata, RunAssignor
from streamlet.group.messages import Answer, Request
from streamlet.group.values import Assignment
from streamlet.types import TaskId


class TransportError(BrokerError):
    """A request without an answer; ``sent`` False: it never left, so nothing happened."""

    def __init__(self, kind: FailureKind, text: str, *, sent: bool = True) -> None:
        super().__init__(text)
        self.kind = kind
        if kind is FailureKind.UNSUPPORTED:
            self.exit_code = BrokerTooOldError.exit_code  # no restart mends that
        self.sent = sent

    @property
    def passing(self) -> bool:
        """Trying again may help."""
        return self.kind in (FailureKind.TIMEOUT, FailureKind.DISCONNECTED)


class CoordinatorRefused(BrokerError):
    """The brokers answered, and will not name a coordinator; ``code`` is Kafka's."""

    def __init__(self, code: int, group: str) -> None:
        super().__init__(f"no coordinator for group {group}: {name_of(code)}")
        self.code = code


class GroupProtocol(Protocol):
    """The content of the group's messages; called on the control thread.

    An error raised by ``subscribe`` or ``decode`` ends the membership. ``assign`` may raise a
    ``StreamletError`` when it has no plan just now (topics unknown, broker away): it is run again.
    """

    protocol_type: str

    def subscribe(
        self, need: NeedMetadata, copies: Mapping[TaskId, Copy]
    ) -> tuple[tuple[str, bytes], ...]:
        """The protocols to join with: (name, metadata), best first; the nonce must be in it."""
        ...

    def assign(self, run: RunAssignor) -> Mapping[str, bytes]:
        """Make all assignments, as the leader; by member id."""
        ...

    def decode(self, assignment: bytes) -> Assignment:
        """Read our own assignment."""
        ...


class GroupTransport(Protocol):
    """The transport of a session's requests; ``transport.Transport``, or a fake."""

    def find_coordinator(self, group: str, timeout_ms: int) -> Future[str]:
        """Look the coordinator up afresh; the result tells it from another one."""
        ...

    def send(self, request: Request, connection: Connection, timeout_ms: int) -> Future[Answer]:
        """Send; callbacks of the future may run on a thread that must not be held up."""
        ...

    def hang_up(self, connection: Connection) -> None:
        """Cut a connection and fail what waits on it."""
        ...

    def close(self) -> None:
        """End it; futures that are not done fail."""
        ...
