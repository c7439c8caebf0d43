"""Refusals of brokers as Java's clients raise them: which right is missing, or that of a login."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import attrs

from streamlet.errors import AuthenticationError, BrokerError, MissingRightError
from streamlet.rights import Right, missing

_ERRORS: Final = "org.apache.kafka.common.errors."
_TOPIC = f"{_ERRORS}TopicAuthorizationException"
_GROUP = f"{_ERRORS}GroupAuthorizationException"
_CLUSTER = f"{_ERRORS}ClusterAuthorizationException"
#: Others for want of a right, or with a login or a certificate that is refused.
_RIGHTS = frozenset(
    f"{_ERRORS}{kind}AuthorizationException" for kind in ("TransactionalId", "DelegationToken")
)
_LOGINS = frozenset(f"{_ERRORS}{kind}AuthenticationException" for kind in ("", "Sasl", "Ssl"))
#: What Java's texts end with; topics and groups that are printed there have no blanks.
_NAMED = re.compile(r"Not authorized to access topics: \[([\w.,\- ]+)\]", re.ASCII)
_OF_GROUP = re.compile(r"Not authorized to access group: (\S+)")


@attrs.frozen
class UsedTopics:
    """The topics that a query reads and writes: what tells which right it lacks."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    @property
    def all(self) -> frozenset[str]:
        """All of them."""
        return self.read | self.written

    @property
    def only_written(self) -> frozenset[str]:
        """The written topics that it does not read."""
        return self.written - self.read

    def rights(self, named: Collection[str] = ()) -> list[Right]:
        """The rights of which one is missing at these topics; none named: at any."""
        rights = [Right("READ", "topic", topic) for topic in self.read]
        rights += [Right("WRITE", "topic", topic) for topic in self.written]
        found = [right for right in rights if not named or right.name in named]
        return sorted(found, key=lambda right: (right.name, right.operation))


def refusal(kind: str, text: str, used: UsedTopics) -> BrokerError | None:
    """The error of an exception of Java's; None if it is no refusal.

    Args:
        kind: full name of its class.
        text: its message.
        used: the topics of the query.
    """
    reason = f"{text} ({kind.rpartition('.')[2]})"
    if kind in _LOGINS:
        return AuthenticationError(
            f"the broker was reached, and the connection is refused: {reason}. "
            "Look at security.protocol, sasl.… and ssl.…"
        )
    if kind == _GROUP:
        return _lacking(reason, [Right("READ", "group", name) for name in _OF_GROUP.findall(text)])
    if kind == _CLUSTER:
        writes = UsedTopics(written=used.written).rights()
        return _lacking(reason, [*writes, Right("IDEMPOTENT_WRITE", "cluster")])
    if kind == _TOPIC:
        named = {one.strip() for some in _NAMED.findall(text) for one in some.split(",")}
        either = UsedTopics(frozenset(named), frozenset(named))  # of topics that records chose
        return _lacking(reason, used.rights(named) or either.rights())
    return MissingRightError(reason) if kind in _RIGHTS else None


def _lacking(reason: str, rights: Collection[Right]) -> MissingRightError:
    return MissingRightError(f"{missing(*rights)} ({reason})" if rights else reason)
