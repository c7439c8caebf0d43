"""The entries of one commit, on their way from the caches to changelog and medium."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from streamlet.state.backing import Columns
from streamlet.types import TopicPartition


@attrs.frozen(eq=False)
class Drained:
    """The result of ``TaskState.drain``; by store, none empty."""

    columns: dict[str, Columns]
    #: Keys that are in it because they had to be written again.
    again: dict[str, tuple[bytes, ...]]
    #: Changelogs that hold nothing but expired rows before these offsets, once this is committed.
    starts: Mapping[TopicPartition, int] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return sum(len(part.keys) for part in self.columns.values())
