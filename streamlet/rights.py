"""Rights on the broker: which one is missing where it refuses, and the command that grants it."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

#: Kafka's error codes of a missing right on a topic, a group and the cluster.
TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED = 29, 30, 31
REFUSED = frozenset({TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED})


@attrs.frozen
class Right:
    """An operation on something, in Kafka's words: READ, topic, its name."""

    operation: str
    kind: str  # topic, group or cluster
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {f'{self.kind} {self.name}' if self.name else 'the cluster'}"

    @property
    def granted_by(self) -> str:
        """The command that grants it."""
        operation = "".join(word.capitalize() for word in self.operation.split("_"))
        where = f"--{self.kind} {self.name}" if self.name else "--cluster"
        return (
            "kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
            f"--operation {operation} {where}"
        )


def missing(*rights: Right) -> str:
    """The sentence that names missing rights, and how they are granted."""
    names = " or ".join(map(str, rights))
    return f"no right to {names}; to grant it: {'; '.join(right.granted_by for right in rights)}"


def on_topics(operation: str, topics: Iterable[str]) -> str:
    """The sentence for topics of which one lacks a right, where the broker does not say which."""
    return missing(*(Right(operation, "topic", topic) for topic in sorted(topics)))
