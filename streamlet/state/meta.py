"""What is written beside a task's stores: their commit, and how far changelogs are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Self

import attrs

from streamlet.errors import StateMismatchError, TaskCorruptedError
from streamlet.types import StateNumber, TopicPartition

_VERSION = 1


@attrs.frozen
class TaskMeta:
    """Fields as in ``TaskState``; ``layout`` is per store the names of its key and value serde."""

    state: StateNumber
    positions: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    layout: Mapping[str, tuple[str, str]]

    def to_bytes(self) -> bytes:
        """Compact JSON."""
        changelogs = [
            [*tp, offset, self.epochs.get(tp, 0)] for tp, offset in sorted(self.positions.items())
        ]
        fields = {
            "v": _VERSION,
            "state": self.state,
            "changelogs": changelogs,
            "topic_ids": dict(self.topic_ids),
            "layout": dict(self.layout),
        }
        return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, raw: bytes, where: str) -> Self:
        """Read what ``to_bytes`` wrote; ``where`` is for messages.

        Raises:
            TaskCorruptedError: it is something else.
            StateMismatchError: a later version of streamlet wrote it.
        """
        try:
            fields = json.loads(raw)
            version = fields["v"]
            if version <= _VERSION:
                rows = [(TopicPartition(t, p), o, e) for t, p, o, e in fields["changelogs"]]
                return cls(
                    StateNumber(*fields["state"]),
                    {tp: offset for tp, offset, _ in rows},
                    {tp: epoch for tp, _, epoch in rows},
                    fields["topic_ids"],
                    {name: (key, value) for name, (key, value) in fields["layout"].items()},
                )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TaskCorruptedError(f"state in {where} is damaged: {error!r}") from error
        raise StateMismatchError(
            f"state in {where} was written by a later version (format {version})"
        )

    def check_layout(self, layout: Mapping[str, tuple[str, str]], where: str) -> None:
        """Compare with the stores of the topology that runs now; new ones may come in.

        Raises:
            StateMismatchError: a store is gone or has other serdes.
        """
        changes = []
        for name, (key, value) in sorted(self.layout.items()):
            now = layout.get(name)
            if now is None:
                changes.append(f"store {name} is not in the topology any more")
            elif tuple(now) != (key, value):
                changes.append(f"store {name} held {key} -> {value}, now {now[0]} -> {now[1]}")
        if changes:
            raise StateMismatchError(
                f"the topology changed under its state in {where}: {'; '.join(changes)}. Give the "
                "changed store another name, or give streamlet reset to begin anew"
            )
