"""The errors between us and a group's coordinator."""

from __future__ import annotations

import enum

from streamlet.errors import BrokerError, BrokerTooOldError
from streamlet.group.codes import name_of


class FailureKind(enum.StrEnum):
    """The reasons why there is no answer. The last four do not pass by themselves."""

    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    AUTHENTICATION = "authentication"
    UNSUPPORTED = "unsupported"  # the broker is too old
    CLOSED = "closed"  # by ourselves
    INTERNAL = "internal"  # neither network nor broker: a fault of ours


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
